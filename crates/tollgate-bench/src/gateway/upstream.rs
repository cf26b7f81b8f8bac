//! What all proxies send requests to: answers at once, keeps connections, and costs little.
//!
//! `/64k` is answered with 64 KiB, everything else with a few bytes. It runs in the background, or
//! by turns of whoever measures on the same core.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

/// What is asked for to get a long answer.
pub(super) const LONG: &str = "/64k";
/// The length of long bodies, in both directions.
pub(super) const LONG_BODY: usize = 64 << 10;

const LISTENER: Token = Token(0);
/// How long it takes in the background to notice that it should stop.
const GLANCE: Duration = Duration::from_millis(50);

/// A small upstream.
pub(super) struct Upstream {
    poll: Poll,
    events: Events,
    listener: TcpListener,
    lines: HashMap<Token, Line>,
    connected: usize,
    short: Vec<u8>,
    long: Vec<u8>,
    scratch: Vec<u8>,
}

/// One connection.
struct Line {
    stream: TcpStream,
    /// The head of a request, until it is whole.
    head: Vec<u8>,
    /// What is still to come of its body.
    body: usize,
    /// What could not be sent yet.
    unsent: Vec<u8>,
}

impl Upstream {
    pub(super) fn start() -> io::Result<Upstream> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let answer = |body: &[u8]| {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: ";
            [head.as_bytes(), body.len().to_string().as_bytes(), b"\r\n\r\n", body].concat()
        };
        Ok(Upstream {
            poll,
            events: Events::with_capacity(1024),
            listener,
            lines: HashMap::new(),
            connected: 0,
            short: answer(b"hello, world\n"),
            long: answer(&vec![b'x'; LONG_BODY]),
            scratch: vec![0; 128 << 10],
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers what has come, after waiting for it so long.
    pub(super) fn turn(&mut self, patience: Duration) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(patience)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let tokens: Vec<Token> = self.events.iter().map(|event| event.token()).collect();
        for token in tokens {
            if token == LISTENER {
                self.accept()?;
            } else if let Some(line) = self.lines.get_mut(&token)
                && line.serve(&self.short, &self.long, &mut self.scratch).is_err()
            {
                self.lines.remove(&token);
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            stream.set_nodelay(true)?;
            self.connected += 1;
            let token = Token(self.connected);
            let both = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, token, both)?;
            let line = Line { stream, head: Vec::new(), body: 0, unsent: Vec::new() };
            self.lines.insert(token, line);
        }
    }

    /// Answers from a thread of its own from now on.
    pub(super) fn in_background(mut self) -> Background {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                self.turn(GLANCE)?;
            }
            Ok(self)
        });
        Background { stop, thread }
    }
}

impl Line {
    /// Reads all there is and answers it; fails when the connection is over.
    fn serve(&mut self, short: &[u8], long: &[u8], scratch: &mut [u8]) -> io::Result<()> {
        self.send(&[])?;
        loop {
            let count = match self.stream.read(scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let mut came = &scratch[..count];
            while !came.is_empty() {
                came = self.hear(came, short, long)?;
            }
            if count < scratch.len() {
                return Ok(());
            }
        }
    }

    /// Takes a body or a head off the front of what came; what is left of it.
    fn hear<'c>(&mut self, came: &'c [u8], short: &[u8], long: &[u8]) -> io::Result<&'c [u8]> {
        if self.body > 0 {
            let (body, rest) = came.split_at(self.body.min(came.len()));
            self.body -= body.len();
            if self.body == 0 {
                self.send(short)?;
            }
            return Ok(rest);
        }
        let before = self.head.len();
        self.head.extend_from_slice(came);
        let end = self.head.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(end) = end.map(|end| end + 4) else { return Ok(&[]) };
        let head = String::from_utf8_lossy(&self.head[..end]).into_owned();
        self.head.clear();
        let fields = head.lines().filter_map(|line| line.split_once(':'));
        let mut lengths = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        self.body = lengths.next().and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0);
        if self.body == 0 {
            let is_long = head.split(' ').nth(1).is_some_and(|target| target.starts_with(LONG));
            self.send(if is_long { long } else { short })?;
        }
        Ok(&came[end - before..])
    }

    /// Sends what could not be sent before, then this.
    fn send(&mut self, answer: &[u8]) -> io::Result<()> {
        if self.unsent.is_empty() {
            let sent = self.write(answer)?;
            self.unsent.extend_from_slice(&answer[sent..]);
        } else {
            self.unsent.extend_from_slice(answer);
            let unsent = std::mem::take(&mut self.unsent);
            let sent = self.write(&unsent)?;
            self.unsent = unsent[sent..].to_vec();
        }
        Ok(())
    }

    /// Writes as much as is taken.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }
}

/// An upstream at work.
pub(super) struct Background {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Upstream>>,
}

impl Background {
    /// Has it stop, with all its connections.
    pub(super) fn stop(self) -> io::Result<Upstream> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")))
    }
}
