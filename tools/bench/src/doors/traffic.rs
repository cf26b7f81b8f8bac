//! A load generator for requests that are sent when they are due, whether or not earlier ones were
//! answered. The public generators do not offer that.
//!
//! A request waits while every connection is busy, and its latency counts from when it was due, so a
//! stalled server cannot hide it. One thread polls without sleeping: it has a core of its own.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the real clock")]

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::decision_request::{DecisionRequest, KEYS};
use super::protocol::{ProtocolClient, Reply};

/// When requests are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// As soon as a connection is free.
    AtOnce,
    /// At an even rate per second.
    PerSecond(f64),
}

/// The traffic to send.
pub(crate) struct Traffic<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) request: &'a DecisionRequest,
    pub(crate) connections: usize,
    pub(crate) pace: Pace,
    /// The longest time and the most requests; the first to be reached ends the traffic.
    pub(crate) at_most: (Duration, u64),
}

/// The measured replies.
pub(crate) struct TrafficStats {
    /// Nanoseconds from when a request was due to its reply.
    pub(crate) latency: Histogram<u64>,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) failed: u64,
    pub(crate) seconds: f64,
}

impl TrafficStats {
    pub(crate) fn per_second(&self) -> f64 {
        (self.allowed + self.denied) as f64 / self.seconds
    }

    /// Returns a percentile of latency, in microseconds.
    pub(crate) fn percentile_us(&self, percentile: f64) -> f64 {
        self.latency.value_at_percentile(percentile) as f64 / 1e3
    }
}

/// A connection with at most one request in flight.
struct ClientConnection {
    stream: TcpStream,
    client: ProtocolClient,
    due: Instant,
}

impl Traffic<'_> {
    /// Sends the traffic and waits for the replies.
    pub(crate) fn run(&self) -> std::io::Result<TrafficStats> {
        self.run_alongside(|| Ok(()))
    }

    /// Sends the traffic, and calls `work` again and again on the same core.
    ///
    /// The polling thread never sleeps, so no other thread could run there.
    pub(crate) fn run_alongside(
        &self,
        mut work: impl FnMut() -> std::io::Result<()>,
    ) -> std::io::Result<TrafficStats> {
        let mut poll = Poll::new()?;
        let mut events = Events::with_capacity(self.connections);
        let mut connections = self.connect(&poll)?;
        let mut free: VecDeque<usize> = (0..connections.len()).collect();
        let mut stats = TrafficStats {
            latency: Histogram::new_with_bounds(1, 1 << 40, 3).expect("the bounds are in order"),
            allowed: 0,
            denied: 0,
            failed: 0,
            seconds: 0.0,
        };
        let (most_time, most_requests) = self.at_most;
        let (start, mut sent) = (Instant::now(), 0);
        loop {
            let now = Instant::now();
            let over = now - start >= most_time;
            if over || sent == most_requests && free.len() == connections.len() {
                stats.seconds = (now - start).as_secs_f64();
                self.count_waiting(&mut stats, now, start, sent);
                return Ok(stats);
            }
            while sent < most_requests && self.due(start, sent, now) <= now {
                let Some(connection) = free.pop_front() else { break };
                connections[connection].send(sent, self.due(start, sent, now))?;
                sent += 1;
            }
            work()?;
            poll.poll(&mut events, Some(Duration::ZERO))?;
            for event in &events {
                let connection = event.token().0;
                if let Some(reply) = connections[connection].receive()? {
                    stats.record(reply, connections[connection].due);
                    free.push_back(connection);
                }
            }
        }
    }

    fn connect(&self, poll: &Poll) -> std::io::Result<Vec<ClientConnection>> {
        let connect = |number| {
            let stream = std::net::TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(number), Interest::READABLE)?;
            let mut client = ProtocolClient::new(self.request);
            stream.write_all(&client.take_outbox())?;
            Ok(ClientConnection { stream, client, due: Instant::now() })
        };
        (0..self.connections).map(connect).collect()
    }

    fn due(&self, start: Instant, number: u64, now: Instant) -> Instant {
        match self.pace {
            Pace::AtOnce => now,
            Pace::PerSecond(rate) => start + Duration::from_secs_f64(number as f64 / rate),
        }
    }

    /// Counts the waiting time of requests that were due and could not be sent.
    fn count_waiting(&self, stats: &mut TrafficStats, now: Instant, start: Instant, sent: u64) {
        let Pace::PerSecond(_) = self.pace else { return };
        for number in sent..self.at_most.1 {
            let due = self.due(start, number, now);
            if due >= now {
                break;
            }
            stats.latency.saturating_record((now - due).as_nanos() as u64);
        }
    }
}

impl TrafficStats {
    fn record(&mut self, reply: Reply, due: Instant) {
        self.latency.saturating_record(due.elapsed().as_nanos() as u64);
        match reply {
            Reply::Allowed => self.allowed += 1,
            Reply::Denied => self.denied += 1,
            Reply::Failed => self.failed += 1,
        }
    }
}

impl ClientConnection {
    /// Sends request number `number`.
    ///
    /// Keys come in a scattered order, each once before any comes again.
    fn send(&mut self, number: u64, due: Instant) -> std::io::Result<()> {
        const STRIDE: u64 = 61_803; // no factor in common with KEYS
        self.due = due;
        self.stream.write_all(self.client.encode(number.wrapping_mul(STRIDE) % KEYS))
    }

    fn receive(&mut self) -> std::io::Result<Option<Reply>> {
        let mut buffer = [0; 4096];
        let mut reply = None;
        loop {
            let count = match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(reply),
                Err(error) => return Err(error),
            };
            reply = self.client.receive(&buffer[..count]).or(reply);
            self.stream.write_all(&self.client.take_outbox())?;
            if count < buffer.len() {
                return Ok(reply);
            }
        }
    }
}
