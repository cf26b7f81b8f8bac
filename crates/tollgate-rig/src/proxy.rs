//! A proxy that does what networks do: hold bytes back, lose replies, cut connections.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Between two bytes that drip.
const DRIP: Duration = Duration::from_secs(1);

/// What happens to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Pass,
    SwallowReplies,
    Hold,
    Drip,
}

/// Stands between clients and a port of this machine; gone when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    to: u16,
    state: Mutex<State>,
    /// Whenever the state changes.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    ended: bool,
    accepted: u64,
    swallowed: u64,
    /// Both ends of the connections that are open, by their number.
    open: HashMap<u64, [TcpStream; 2]>,
}

impl Proxy {
    /// Starts one in front of a port of this machine. At first everything passes.
    pub fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a listener has an address").port();
        let state = State {
            mode: Mode::Pass,
            ended: false,
            accepted: 0,
            swallowed: 0,
            open: HashMap::new(),
        };
        let shared = Arc::new(Shared { to, state: Mutex::new(state), changed: Condvar::new() });
        let listening = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.listen(&listener)
        });
        Proxy { port, shared, listening: Some(listening) }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where clients find the server behind it, without TLS.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Lets commands through to the server, but not the replies: the first bytes of one are dropped
    /// and its connection is closed.
    pub fn swallow_replies(&self, yes: bool) {
        self.turn(yes, Mode::SwallowReplies);
    }

    /// Accepts connections and says nothing, on old ones as well. What was held goes on its way when
    /// this is over.
    pub fn hold(&self, yes: bool) {
        self.turn(yes, Mode::Hold);
    }

    /// Lets one byte a second through, in each direction of each connection.
    pub fn drip(&self, yes: bool) {
        self.turn(yes, Mode::Drip);
    }

    /// Cuts all connections there are. New ones are accepted.
    pub fn cut(&self) {
        let mut state = self.shared.state();
        state.open.drain().for_each(|(_, ends)| close(&ends));
        self.shared.changed.notify_all();
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.shared.state().accepted
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.shared.state().open.len()
    }

    /// How many replies were swallowed, or beginnings of such.
    pub fn swallowed(&self) -> u64 {
        self.shared.state().swallowed
    }

    fn turn(&self, yes: bool, mode: Mode) {
        self.shared.state().mode = if yes { mode } else { Mode::Pass };
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.cut();
        // Whoever listens has to be woken up to see that it is over.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(self: &Arc<Shared>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.state().ended {
                break;
            }
            // A server that is gone refuses; so does the proxy, by closing.
            if let Ok(client) = client
                && let Err(error) = self.join(client)
                && error.kind() != io::ErrorKind::ConnectionRefused
            {
                eprintln!("proxy: {error}");
            }
        }
    }

    /// Connects a client with the server; a thread for each direction.
    fn join(self: &Arc<Shared>, client: TcpStream) -> io::Result<()> {
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
            let shared = Arc::clone(self);
            thread::spawn(move || {
                // An end that is gone is no trouble: the connection is over.
                let _ = shared.carry(number, from, to, replies);
                if let Some(ends) = shared.state().open.remove(&number) {
                    close(&ends);
                }
            });
        }
        Ok(())
    }

    /// Carries bytes in one direction, until either end is gone.
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
                    Some(Mode::Drip) => {
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

    /// How the next bytes pass, once they may. `None` when the connection is over.
    fn mode_for(&self, number: u64, replies: bool) -> Option<Mode> {
        let mut state = self.state();
        let mut dripped = false;
        while state.open.contains_key(&number) {
            match state.mode {
                Mode::SwallowReplies if replies => {
                    state.swallowed += 1;
                    return None;
                }
                Mode::Hold => {
                    let wait = self.changed.wait(state);
                    state = wait.unwrap_or_else(PoisonError::into_inner);
                }
                Mode::Drip if !dripped => {
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
