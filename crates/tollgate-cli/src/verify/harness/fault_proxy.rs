//! A proxy between a server and its store that stalls, cuts connections or loses replies.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::super::workspace::lock;

/// What the proxy does with connections and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyFault {
    /// Everything passes.
    None,
    /// Connections stay open, and no byte passes.
    Stall,
    /// Connections are cut, and new ones are closed at once.
    Cut,
    /// Commands pass. Replies are lost, and their connections cut.
    LoseReplies,
}

/// A proxy in front of a store, which stops when it is dropped.
pub(crate) struct FaultProxy {
    address: SocketAddr,
    shared: Arc<ProxyShared>,
}

struct ProxyShared {
    store: SocketAddr,
    state: Mutex<ProxyConnections>,
    changed: Condvar,
}

struct ProxyConnections {
    fault: ProxyFault,
    is_over: bool,
    /// Both ends of the open connections.
    open: Vec<[TcpStream; 2]>,
}

impl FaultProxy {
    pub(crate) fn start(store: SocketAddr) -> io::Result<FaultProxy> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let connections =
            ProxyConnections { fault: ProxyFault::None, is_over: false, open: Vec::new() };
        let state = Mutex::new(connections);
        let shared = Arc::new(ProxyShared { store, state, changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        std::thread::Builder::new().name("fault proxy".to_owned()).spawn(move || {
            for client in listener.incoming().flatten() {
                if lock(&accepting.state).is_over {
                    return;
                }
                // A connection that fails is closed, which its client sees.
                let _ = accepting.connect(client);
            }
        })?;
        Ok(FaultProxy { address, shared })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn set(&self, fault: ProxyFault) {
        let mut state = lock(&self.shared.state);
        state.fault = fault;
        if fault == ProxyFault::Cut {
            state.close_all();
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.is_over = true;
        state.close_all();
        drop(state);
        self.shared.changed.notify_all();
        // A connection wakes the accepting thread, which then sees the end.
        let _ = TcpStream::connect(self.address);
    }
}

impl ProxyConnections {
    fn close_all(&mut self) {
        for end in self.open.drain(..).flatten() {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

impl ProxyShared {
    fn connect(self: &Arc<ProxyShared>, client: TcpStream) -> io::Result<()> {
        if lock(&self.state).fault == ProxyFault::Cut {
            return Ok(());
        }
        let store = TcpStream::connect_timeout(&self.store, super::IO_TIMEOUT)?;
        client.set_nodelay(true)?;
        store.set_nodelay(true)?;
        {
            let mut state = lock(&self.state);
            state.open.retain(|ends| ends[0].peer_addr().is_ok());
            state.open.push([client.try_clone()?, store.try_clone()?]);
        }
        let directions = [(client.try_clone()?, store.try_clone()?, false), (store, client, true)];
        for (from, to, is_reply) in directions {
            let shared = Arc::clone(self);
            std::thread::Builder::new().name("fault proxy bytes".to_owned()).spawn(move || {
                // An error is the end of the connection.
                let _ = shared.copy(&from, &to, is_reply);
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
            })?;
        }
        Ok(())
    }

    fn copy(&self, mut from: &TcpStream, mut to: &TcpStream, is_reply: bool) -> io::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let length = from.read(&mut buffer)?;
            if length == 0 || !self.may_pass(is_reply) {
                return Ok(());
            }
            to.write_all(&buffer[..length])?;
        }
    }

    /// Waits until bytes may pass; returns whether their connection goes on.
    fn may_pass(&self, is_reply: bool) -> bool {
        let mut state = lock(&self.state);
        while state.fault == ProxyFault::Stall && !state.is_over {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match state.fault {
            ProxyFault::LoseReplies => !is_reply,
            ProxyFault::Cut => false,
            _ => !state.is_over,
        }
    }
}
