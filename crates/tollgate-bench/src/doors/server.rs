//! A server under test, on free ports.

use std::net::{SocketAddr, TcpListener};

use super::ask::Door;
use super::lineup::Kind;
use crate::process::{Cpu, Process};

/// Where a server listens, a door each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses([SocketAddr; 3]);

impl Addresses {
    fn free() -> std::io::Result<Addresses> {
        // Held together, so that they differ.
        let listeners = Door::ALL.map(|_| TcpListener::bind("127.0.0.1:0"));
        let mut addresses = [SocketAddr::from(([127, 0, 0, 1], 0)); 3];
        for (address, listener) in addresses.iter_mut().zip(listeners) {
            *address = listener?.local_addr()?;
        }
        Ok(Addresses(addresses))
    }

    pub(crate) fn of(&self, door: Door) -> SocketAddr {
        self.0[door as usize]
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) kind: Kind,
    addresses: Addresses,
    process: Process,
}

impl Server {
    /// Starts a server, and waits until it listens at its doors. It may open `files` files.
    pub(crate) fn start(kind: Kind, doors: &[Door], files: u64) -> Result<Server, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", kind.name());
        let folder = tempfile::tempdir().map_err(failed)?;
        let addresses = Addresses::free().map_err(failed)?;
        let words = kind.command_line(folder.path(), &addresses)?;
        let mut process = Process::start(kind.name(), folder, words, files)?;
        for door in doors {
            process.await_address(addresses.of(*door))?;
        }
        Ok(Server { kind, addresses, process })
    }

    pub(crate) fn address(&self, door: Door) -> SocketAddr {
        self.addresses.of(door)
    }

    pub(crate) fn cpu(&self) -> Cpu {
        self.process.cpu()
    }

    pub(crate) fn memory(&self) -> f64 {
        self.process.memory()
    }
}
