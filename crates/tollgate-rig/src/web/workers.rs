//! An upstream that can only do so much.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::{Message, Next, Upstream};

/// A few workers, each busy for a while with a request; the others wait for their turn, first come,
/// first served, and whoever finds it full is answered 503.
///
/// Requests name who sends them by `x-client`.
#[derive(Debug)]
pub struct Workers {
    upstream: Upstream,
    pool: Arc<Pool>,
}

#[derive(Debug)]
struct Pool {
    workers: usize,
    each: Duration,
    most: usize,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    is_paused: bool,
    arrived: usize,
    busy: usize,
    /// Who waits, and how to call them.
    line: VecDeque<(String, Sender<()>)>,
    /// Whose requests were worked on, in this order.
    served: Vec<String>,
}

impl Workers {
    /// So many workers, each busy for so long; no more than `most` requests are there at once.
    pub fn start(workers: usize, each: Duration, most: usize) -> Workers {
        let pool = Arc::new(Pool { workers, each, most, now: Mutex::default() });
        let inside = pool.clone();
        let upstream = Upstream::answering(move |request, stream| {
            let answer: &[u8] = match inside.work(request) {
                true => b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                false => b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            };
            match stream.write_all(answer) {
                Ok(()) => Next::Keep,
                Err(_) => Next::Close,
            }
        });
        Workers { upstream, pool }
    }

    /// The upstream they work for.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Nothing more is begun.
    pub fn pause(&self) {
        self.pool.now().is_paused = true;
    }

    /// Work goes on.
    pub fn go_on(&self) {
        let mut now = self.pool.now();
        now.is_paused = false;
        self.pool.begin(&mut now);
    }

    /// How many requests came so far, those that were turned away among them.
    pub fn arrived(&self) -> usize {
        self.pool.now().arrived
    }

    /// Whose requests were worked on so far, in this order.
    pub fn served(&self) -> Vec<String> {
        self.pool.now().served.clone()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Nobody waits for ever.
        self.go_on();
    }
}

impl Pool {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().expect("no test panics here")
    }

    /// Whether there was room for it; if so, it is done.
    fn work(&self, request: &Message) -> bool {
        let Some(turn) = self.join(request.header("x-client").unwrap_or_default()) else {
            return false;
        };
        if turn.recv().is_err() {
            return false;
        }
        std::thread::park_timeout(self.each);
        let mut now = self.now();
        now.busy -= 1;
        self.begin(&mut now);
        true
    }

    fn join(&self, client: &str) -> Option<Receiver<()>> {
        let mut now = self.now();
        now.arrived += 1;
        if now.busy + now.line.len() >= self.most {
            return None;
        }
        let (call, turn) = channel();
        now.line.push_back((client.to_owned(), call));
        self.begin(&mut now);
        Some(turn)
    }

    /// Calls those for whom there is a worker.
    fn begin(&self, now: &mut Now) {
        while !now.is_paused && now.busy < self.workers {
            let Some((client, call)) = now.line.pop_front() else { return };
            now.busy += 1;
            now.served.push(client);
            let _ = call.send(());
        }
    }
}
