//! An upstream with limited capacity.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::{AfterResponse, Message, Upstream};

/// An upstream with a few workers, each busy for a while with a request. Further requests wait in
/// order, and those beyond the maximum are answered 503.
///
/// The header `x-client` names the sender of a request.
#[derive(Debug)]
pub struct Workers {
    upstream: Upstream,
    pool: Arc<WorkerPool>,
}

#[derive(Debug)]
struct WorkerPool {
    workers: usize,
    each: Duration,
    most: usize,
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    is_paused: bool,
    arrived: usize,
    busy: usize,
    /// The waiting clients, each with the channel that starts its request.
    waiting: VecDeque<(String, Sender<()>)>,
    /// The clients whose requests were handled, in order.
    served: Vec<String>,
}

impl Workers {
    /// Starts `workers` workers, each busy for `each` with a request; at most `most` requests are
    /// accepted at once.
    pub fn start(workers: usize, each: Duration, most: usize) -> Workers {
        let pool = Arc::new(WorkerPool { workers, each, most, state: Mutex::default() });
        let handler_pool = pool.clone();
        let upstream = Upstream::answering(move |request, stream| {
            let answer: &[u8] = match handler_pool.work(request) {
                true => b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                false => b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            };
            match stream.write_all(answer) {
                Ok(()) => AfterResponse::Keep,
                Err(_) => AfterResponse::Close,
            }
        });
        Workers { upstream, pool }
    }

    /// Returns the upstream of the workers.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Stops starting requests.
    pub fn pause(&self) {
        self.pool.state().is_paused = true;
    }

    /// Starts requests again.
    pub fn resume(&self) {
        let mut state = self.pool.state();
        state.is_paused = false;
        self.pool.begin(&mut state);
    }

    /// Returns the number of requests received, including those answered 503.
    pub fn arrived(&self) -> usize {
        self.pool.state().arrived
    }

    /// Returns the clients whose requests were handled, in order.
    pub fn served(&self) -> Vec<String> {
        self.pool.state().served.clone()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Waiting requests must not block for ever.
        self.resume();
    }
}

impl WorkerPool {
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().expect("no test panics here")
    }

    /// Handles a request; false if there was no capacity.
    fn work(&self, request: &Message) -> bool {
        let Some(turn) = self.join(request.header("x-client").unwrap_or_default()) else {
            return false;
        };
        if turn.recv().is_err() {
            return false;
        }
        std::thread::park_timeout(self.each);
        let mut state = self.state();
        state.busy -= 1;
        self.begin(&mut state);
        true
    }

    fn join(&self, client: &str) -> Option<Receiver<()>> {
        let mut state = self.state();
        state.arrived += 1;
        if state.busy + state.waiting.len() >= self.most {
            return None;
        }
        let (call, turn) = channel();
        state.waiting.push_back((client.to_owned(), call));
        self.begin(&mut state);
        Some(turn)
    }

    /// Starts waiting requests while there are free workers.
    fn begin(&self, state: &mut PoolState) {
        while !state.is_paused && state.busy < self.workers {
            let Some((client, call)) = state.waiting.pop_front() else { return };
            state.busy += 1;
            state.served.push(client);
            let _ = call.send(());
        }
    }
}
