//! The server behind all proxies: it responds at once, keeps connections, and costs little.
//!
//! The response to `/64k` has 64 KiB, all others a few bytes. The server runs in the background, or in
//! turns with a measurement on the same core.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

/// The path of a long response.
pub(super) const LONG: &str = "/64k";
/// The length of long bodies, in requests and responses.
pub(super) const LONG_BODY: usize = 64 << 10;

const LISTENER: Token = Token(0);
/// The interval at which the background thread checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A small upstream server.
pub(super) struct Upstream {
    poll: Poll,
    events: Events,
    listener: TcpListener,
    connections: HashMap<Token, UpstreamConnection>,
    connected: usize,
    short: Vec<u8>,
    long: Vec<u8>,
    scratch: Vec<u8>,
}

/// A connection of a proxy to the upstream.
struct UpstreamConnection {
    stream: TcpStream,
    /// The head of a request, until it is complete.
    head: Vec<u8>,
    /// The rest of the request body, in bytes.
    body: usize,
    /// Bytes that could not be sent yet.
    unsent: Vec<u8>,
}

impl Upstream {
    pub(super) fn start() -> io::Result<Upstream> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let response = |body: &[u8]| {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: ";
            [head.as_bytes(), body.len().to_string().as_bytes(), b"\r\n\r\n", body].concat()
        };
        Ok(Upstream {
            poll,
            events: Events::with_capacity(1024),
            listener,
            connections: HashMap::new(),
            connected: 0,
            short: response(b"hello, world\n"),
            long: response(&vec![b'x'; LONG_BODY]),
            scratch: vec![0; 128 << 10],
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves the requests that have arrived, after waiting at most `patience` for them.
    pub(super) fn turn(&mut self, patience: Duration) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(patience)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let tokens: Vec<Token> = self.events.iter().map(|event| event.token()).collect();
        for token in tokens {
            if token == LISTENER {
                self.accept()?;
            } else if let Some(connection) = self.connections.get_mut(&token)
                && connection.serve(&self.short, &self.long, &mut self.scratch).is_err()
            {
                self.connections.remove(&token);
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
            let connection =
                UpstreamConnection { stream, head: Vec::new(), body: 0, unsent: Vec::new() };
            self.connections.insert(token, connection);
        }
    }

    /// Serves requests on a thread of its own from now on.
    pub(super) fn in_background(mut self) -> BackgroundUpstream {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                self.turn(POLL_INTERVAL)?;
            }
            Ok(self)
        });
        BackgroundUpstream { stop, thread }
    }
}

impl UpstreamConnection {
    /// Reads and serves all requests that have arrived; fails when the connection is closed.
    fn serve(&mut self, short: &[u8], long: &[u8], scratch: &mut [u8]) -> io::Result<()> {
        self.send(&[])?;
        loop {
            let count = match self.stream.read(scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let mut received = &scratch[..count];
            while !received.is_empty() {
                received = self.receive(received, short, long)?;
            }
            if count < scratch.len() {
                return Ok(());
            }
        }
    }

    /// Consumes a body or a head from the front of `received`, and returns the rest.
    fn receive<'c>(
        &mut self,
        received: &'c [u8],
        short: &[u8],
        long: &[u8],
    ) -> io::Result<&'c [u8]> {
        if self.body > 0 {
            let (body, rest) = received.split_at(self.body.min(received.len()));
            self.body -= body.len();
            if self.body == 0 {
                self.send(short)?;
            }
            return Ok(rest);
        }
        let before = self.head.len();
        self.head.extend_from_slice(received);
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
        Ok(&received[end - before..])
    }

    /// Sends what could not be sent before, then `response`.
    fn send(&mut self, response: &[u8]) -> io::Result<()> {
        if self.unsent.is_empty() {
            let sent = self.write(response)?;
            self.unsent.extend_from_slice(&response[sent..]);
        } else {
            self.unsent.extend_from_slice(response);
            let unsent = std::mem::take(&mut self.unsent);
            let sent = self.write(&unsent)?;
            self.unsent = unsent[sent..].to_vec();
        }
        Ok(())
    }

    /// Writes as many bytes as the socket accepts.
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

/// An upstream that runs in the background.
pub(super) struct BackgroundUpstream {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Upstream>>,
}

impl BackgroundUpstream {
    /// Stops the thread, and returns the upstream with its connections.
    pub(super) fn stop(self) -> io::Result<Upstream> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")))
    }
}
