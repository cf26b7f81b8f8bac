//! Load of our own, where the public generators cannot help: requests that leave when they are due,
//! whether or not earlier ones were answered in time.
//!
//! A request waits here while every connection is busy, and its time counts from when it was due, so
//! a server that stalls cannot hide it. One thread polls without sleeping: it has a core of its own.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the real clock")]

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::ask::{Ask, KEYS};
use super::talk::{Reply, Talk};

/// When requests leave.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// As soon as a connection is free.
    AtOnce,
    /// So many a second, evenly.
    PerSecond(f64),
}

/// What to send.
pub(crate) struct Traffic<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) ask: &'a Ask,
    pub(crate) connections: usize,
    pub(crate) pace: Pace,
    /// Whichever comes first.
    pub(crate) at_most: (Duration, u64),
}

/// What came back.
pub(crate) struct Heard {
    /// Nanoseconds from when a request was due to its answer.
    pub(crate) latency: Histogram<u64>,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) failed: u64,
    pub(crate) seconds: f64,
}

impl Heard {
    pub(crate) fn per_second(&self) -> f64 {
        (self.allowed + self.denied) as f64 / self.seconds
    }

    /// A percentile, in microseconds.
    pub(crate) fn at(&self, percentile: f64) -> f64 {
        self.latency.value_at_percentile(percentile) as f64 / 1e3
    }
}

/// One connection, at most one request on its way.
struct Line {
    stream: TcpStream,
    talk: Talk,
    due: Instant,
}

impl Traffic<'_> {
    /// Sends it and waits for the answers.
    pub(crate) fn run(&self) -> std::io::Result<Heard> {
        self.run_beside(|| Ok(()))
    }

    /// Does the same, and something else on the same core again and again: whoever polls without
    /// sleeping leaves it to nobody.
    pub(crate) fn run_beside(
        &self,
        mut beside: impl FnMut() -> std::io::Result<()>,
    ) -> std::io::Result<Heard> {
        let mut poll = Poll::new()?;
        let mut events = Events::with_capacity(self.connections);
        let mut lines = self.connect(&poll)?;
        let mut free: VecDeque<usize> = (0..lines.len()).collect();
        let mut heard = Heard {
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
            if over || sent == most_requests && free.len() == lines.len() {
                heard.seconds = (now - start).as_secs_f64();
                self.count_waiting(&mut heard, now, start, sent);
                return Ok(heard);
            }
            while sent < most_requests && self.due(start, sent, now) <= now {
                let Some(line) = free.pop_front() else { break };
                lines[line].send(sent, self.due(start, sent, now))?;
                sent += 1;
            }
            beside()?;
            poll.poll(&mut events, Some(Duration::ZERO))?;
            for event in &events {
                let line = event.token().0;
                if let Some(reply) = lines[line].receive()? {
                    heard.note(reply, lines[line].due);
                    free.push_back(line);
                }
            }
        }
    }

    fn connect(&self, poll: &Poll) -> std::io::Result<Vec<Line>> {
        let connect = |number| {
            let stream = std::net::TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(number), Interest::READABLE)?;
            let mut talk = Talk::new(self.ask);
            stream.write_all(&talk.aside())?;
            Ok(Line { stream, talk, due: Instant::now() })
        };
        (0..self.connections).map(connect).collect()
    }

    fn due(&self, start: Instant, number: u64, now: Instant) -> Instant {
        match self.pace {
            Pace::AtOnce => now,
            Pace::PerSecond(rate) => start + Duration::from_secs_f64(number as f64 / rate),
        }
    }

    /// Requests that were due and could not even leave have waited, too.
    fn count_waiting(&self, heard: &mut Heard, now: Instant, start: Instant, sent: u64) {
        let Pace::PerSecond(_) = self.pace else { return };
        for number in sent..self.at_most.1 {
            let due = self.due(start, number, now);
            if due >= now {
                break;
            }
            heard.latency.saturating_record((now - due).as_nanos() as u64);
        }
    }
}

impl Heard {
    fn note(&mut self, reply: Reply, due: Instant) {
        self.latency.saturating_record(due.elapsed().as_nanos() as u64);
        match reply {
            Reply::Allowed => self.allowed += 1,
            Reply::Denied => self.denied += 1,
            Reply::Failed => self.failed += 1,
        }
    }
}

impl Line {
    /// Sends request number `number`. Keys come in an order that looks random, each once before any
    /// comes again.
    fn send(&mut self, number: u64, due: Instant) -> std::io::Result<()> {
        const STRIDE: u64 = 61_803; // no factor in common with KEYS
        self.due = due;
        self.stream.write_all(self.talk.ask(number.wrapping_mul(STRIDE) % KEYS))
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
            reply = self.talk.hear(&buffer[..count]).or(reply);
            self.stream.write_all(&self.talk.aside())?;
            if count < buffer.len() {
                return Ok(reply);
            }
        }
    }
}
