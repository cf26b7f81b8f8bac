//! A server under test, on free ports.

use std::net::{SocketAddr, TcpListener};

use super::decision_request::Door;
use super::servers::ServerKind;
use crate::process::{Cpu, Process};

/// The addresses of a server, one for each door.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses([SocketAddr; 3]);

impl Addresses {
    fn free() -> std::io::Result<Addresses> {
        // All listeners are open at once, so that the ports differ.
        let listeners = Door::ALL.map(|_| TcpListener::bind("127.0.0.1:0"));
        let mut addresses = [SocketAddr::from(([127, 0, 0, 1], 0)); 3];
        for (address, listener) in addresses.iter_mut().zip(listeners) {
            *address = listener?.local_addr()?;
        }
        Ok(Addresses(addresses))
    }

    pub(crate) fn get(&self, door: Door) -> SocketAddr {
        self.0[door as usize]
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) kind: ServerKind,
    addresses: Addresses,
    process: Process,
}

impl Server {
    /// Starts a server, and waits until it listens on its doors. It may open `files` files.
    pub(crate) fn start(kind: ServerKind, doors: &[Door], files: u64) -> Result<Server, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", kind.name());
        let folder = tempfile::tempdir().map_err(failed)?;
        let addresses = Addresses::free().map_err(failed)?;
        let arguments = kind.command_line(folder.path(), &addresses)?;
        let mut process = Process::start(kind.name(), folder, arguments, files)?;
        for door in doors {
            process.await_address(addresses.get(*door))?;
        }
        Ok(Server { kind, addresses, process })
    }

    pub(crate) fn address(&self, door: Door) -> SocketAddr {
        self.addresses.get(door)
    }

    pub(crate) fn cpu(&self) -> Cpu {
        self.process.cpu()
    }

    pub(crate) fn memory(&self) -> f64 {
        self.process.memory()
    }
}
