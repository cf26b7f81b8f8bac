//! A proxy that imitates network faults: it delays bytes, loses replies, cuts connections.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The pause between two dripping bytes.
const DRIP: Duration = Duration::from_secs(1);

/// The treatment of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultMode {
    Pass,
    SwallowReplies,
    Hold,
    Drip,
}

/// A proxy between clients and a port of this machine; stopped when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    inner: Arc<ProxyInner>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct ProxyInner {
    to: u16,
    state: Mutex<ProxyState>,
    /// Notified when the state changes.
    changed: Condvar,
}

#[derive(Debug)]
struct ProxyState {
    mode: FaultMode,
    ended: bool,
    accepted: u64,
    swallowed: u64,
    /// Both ends of the open connections, by number.
    open: HashMap<u64, [TcpStream; 2]>,
}

impl Proxy {
    /// Starts a proxy in front of a port of this machine. At first everything passes.
    pub fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a listener has an address").port();
        let state = ProxyState {
            mode: FaultMode::Pass,
            ended: false,
            accepted: 0,
            swallowed: 0,
            open: HashMap::new(),
        };
        let inner = Arc::new(ProxyInner { to, state: Mutex::new(state), changed: Condvar::new() });
        let listening = thread::spawn({
            let inner = Arc::clone(&inner);
            move || inner.listen(&listener)
        });
        Proxy { port, inner, listening: Some(listening) }
    }

    /// Returns the port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address of the server behind it, without TLS.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Passes commands to the server, but drops replies. The first bytes of a reply are discarded,
    /// and its connection is closed.
    pub fn swallow_replies(&self, yes: bool) {
        self.set_mode(yes, FaultMode::SwallowReplies);
    }

    /// Accepts connections but passes no bytes, also on open ones. The bytes are passed when this
    /// ends.
    pub fn hold(&self, yes: bool) {
        self.set_mode(yes, FaultMode::Hold);
    }

    /// Passes one byte a second in each direction of each connection.
    pub fn drip(&self, yes: bool) {
        self.set_mode(yes, FaultMode::Drip);
    }

    /// Cuts all open connections. New ones are accepted.
    pub fn cut(&self) {
        let mut state = self.inner.state();
        state.open.drain().for_each(|(_, ends)| close(&ends));
        self.inner.changed.notify_all();
    }

    /// Returns the number of connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.inner.state().accepted
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        self.inner.state().open.len()
    }

    /// Returns the number of replies dropped, in whole or in part.
    pub fn swallowed(&self) -> u64 {
        self.inner.state().swallowed
    }

    fn set_mode(&self, yes: bool, mode: FaultMode) {
        self.inner.state().mode = if yes { mode } else { FaultMode::Pass };
        self.inner.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.inner.state().ended = true;
        self.cut();
        // A connection wakes the listening thread, which then sees the end.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

impl ProxyInner {
    fn state(&self) -> MutexGuard<'_, ProxyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(self: &Arc<ProxyInner>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.state().ended {
                break;
            }
            // When the server refuses, the proxy closes the connection too.
            if let Ok(client) = client
                && let Err(error) = self.connect(client)
                && error.kind() != io::ErrorKind::ConnectionRefused
            {
                eprintln!("proxy: {error}");
            }
        }
    }

    /// Connects a client with the server, with a thread for each direction.
    fn connect(self: &Arc<ProxyInner>, client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect(("127.0.0.1", self.to))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let number = {
            let mut state = self.state();
            state.accepted += 1;
            let number = state.accepted;
            state.open.insert(number, [client.try_clone()?, server.try_clone()?]);
            number
        };
        let directions =
            [(client.try_clone()?, server.try_clone()?, false), (server, client, true)];
        for (from, to, replies) in directions {
            let inner = Arc::clone(self);
            thread::spawn(move || {
                // An error means that one end has closed the connection.
                let _ = inner.carry(number, from, to, replies);
                if let Some(ends) = inner.state().open.remove(&number) {
                    close(&ends);
                }
            });
        }
        Ok(())
    }

    /// Copies bytes in one direction until either end is closed.
    fn carry(
        &self,
        number: u64,
        mut from: TcpStream,
        mut to: TcpStream,
        replies: bool,
    ) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = from.read(&mut buffer)?;
            let mut rest = &buffer[..count];
            if rest.is_empty() {
                return Ok(());
            }
            while !rest.is_empty() {
                match self.mode_for(number, replies) {
                    None => return Ok(()),
                    Some(FaultMode::Drip) => {
                        to.write_all(&rest[..1])?;
                        rest = &rest[1..];
                    }
                    Some(_) => {
                        to.write_all(rest)?;
                        rest = &[];
                    }
                }
            }
        }
    }

    /// Waits until bytes may pass, and returns their treatment; `None` when the connection is
    /// closed.
    fn mode_for(&self, number: u64, replies: bool) -> Option<FaultMode> {
        let mut state = self.state();
        let mut dripped = false;
        while state.open.contains_key(&number) {
            match state.mode {
                FaultMode::SwallowReplies if replies => {
                    state.swallowed += 1;
                    return None;
                }
                FaultMode::Hold => {
                    let wait = self.changed.wait(state);
                    state = wait.unwrap_or_else(PoisonError::into_inner);
                }
                FaultMode::Drip if !dripped => {
                    let wait = self.changed.wait_timeout(state, DRIP);
                    let (after, timeout) = wait.unwrap_or_else(PoisonError::into_inner);
                    (state, dripped) = (after, timeout.timed_out());
                }
                mode => return Some(mode),
            }
        }
        None
    }
}

fn close(ends: &[TcpStream; 2]) {
    for end in ends {
        let _ = end.shutdown(Shutdown::Both);
    }
}
