//! A server under test: started on free ports of the first core, watched, and stopped.
#![allow(clippy::disallowed_methods, reason = "waits for real processes, within a deadline")]

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::ask::Door;
use super::lineup::Kind;
use crate::cores;

/// How long a server may take to listen.
const DEADLINE: Duration = Duration::from_secs(10);

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
    process: Child,
    /// Its files; gone with it.
    _folder: TempDir,
}

impl Server {
    /// Starts a server, and waits until it listens at its doors. It may open `files` files.
    pub(crate) fn start(kind: Kind, doors: &[Door], files: u64) -> Result<Server, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", kind.name());
        let folder = tempfile::tempdir().map_err(failed)?;
        let addresses = Addresses::free().map_err(failed)?;
        let words = kind.command_line(folder.path(), &addresses)?;
        let log_file = folder.path().join("log");
        let log = File::create(&log_file).map_err(failed)?;
        let process = Command::new("prlimit")
            .arg(format!("--nofile={files}:{files}"))
            .args(["taskset", "--cpu-list", &cores::SERVER.to_string()])
            .args(words)
            .current_dir(folder.path())
            // Settings of the person who measures are not the server's.
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .spawn()
            .map_err(failed)?;
        let mut server = Server { kind, addresses, process, _folder: folder };
        for door in doors {
            if let Err(error) = server.await_door(*door) {
                let log = fs::read_to_string(log_file).unwrap_or_default();
                return Err(format!("{} {error}\n{log}", kind.name()));
            }
        }
        Ok(server)
    }

    fn await_door(&mut self, door: Door) -> Result<(), String> {
        let started = Instant::now();
        while TcpStream::connect(self.address(door)).is_err() {
            match self.process.try_wait() {
                Ok(None) if started.elapsed() < DEADLINE => {}
                Ok(None) => return Err(format!("does not listen for {}", door.name())),
                Ok(Some(status)) => return Err(format!("ended: {status}")),
                Err(error) => return Err(error.to_string()),
            }
            thread::park_timeout(Duration::from_millis(10));
        }
        Ok(())
    }

    pub(crate) fn address(&self, door: Door) -> SocketAddr {
        self.addresses.of(door)
    }

    /// The processor time it has taken so far.
    pub(crate) fn cpu(&self) -> Cpu {
        Cpu::read(self.process.id().to_string().as_str(), 13)
    }

    /// Bytes of memory it holds.
    pub(crate) fn memory(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        kilobytes.map_or(f64::NAN, |kilobytes: f64| kilobytes * 1024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // What it holds is of no worth: no need to ask politely.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Processor time, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    pub(crate) user: f64,
    pub(crate) system: f64,
}

impl Cpu {
    /// Of all programs we ran to their end.
    pub(crate) fn of_children() -> Cpu {
        Cpu::read("self", 15)
    }

    /// Two neighbouring fields of `/proc/PID/stat`, counted from 0, in ticks of 10 ms.
    fn read(process: &str, field: usize) -> Cpu {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The name in parentheses may contain spaces; it is field 1.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks = |field: usize| rest.split_whitespace().nth(field - 2)?.parse::<f64>().ok();
        let seconds = |field| ticks(field).map_or(f64::NAN, |ticks| ticks / 100.0);
        Cpu { user: seconds(field), system: seconds(field + 1) }
    }

    pub(crate) fn since(self, before: Cpu) -> Cpu {
        Cpu { user: self.user - before.user, system: self.system - before.system }
    }

    pub(crate) fn total(self) -> f64 {
        self.user + self.system
    }
}
