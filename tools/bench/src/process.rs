//! A program under test: started on the server core, observed, and stopped.
#![allow(clippy::disallowed_methods, reason = "waits for real processes, within a deadline")]

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::cores;

/// The longest time until a program listens.
const DEADLINE: Duration = Duration::from_secs(10);

/// A running program.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    /// The folder of the program, with its output in `log`; removed with the process.
    folder: TempDir,
}

impl Process {
    /// Starts a program in a folder. It may open `files` files.
    pub(crate) fn start(
        name: &'static str,
        folder: TempDir,
        arguments: Vec<OsString>,
        files: u64,
    ) -> Result<Process, String> {
        let failed = |error: std::io::Error| format!("{name}: {error}");
        let log = File::create(folder.path().join("log")).map_err(failed)?;
        let child = Command::new("prlimit")
            .arg(format!("--nofile={files}:{files}"))
            .args(["taskset", "--cpu-list", &cores::SERVER.to_string()])
            .args(arguments)
            .current_dir(folder.path())
            // The environment of the user must not affect the program.
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .spawn()
            .map_err(failed)?;
        Ok(Process { name, child, folder })
    }

    /// Waits until the program listens on an address.
    pub(crate) fn await_address(&mut self, address: SocketAddr) -> Result<(), String> {
        let started = Instant::now();
        let problem = loop {
            if TcpStream::connect(address).is_ok() {
                return Ok(());
            }
            match self.child.try_wait() {
                Ok(None) if started.elapsed() < DEADLINE => {}
                Ok(None) => break "does not listen".to_owned(),
                Ok(Some(status)) => break format!("ended: {status}"),
                Err(error) => break error.to_string(),
            }
            thread::park_timeout(Duration::from_millis(10));
        };
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        Err(format!("{} at {address}: {problem}\n{log}", self.name))
    }

    /// Returns the processor time used so far.
    pub(crate) fn cpu(&self) -> Cpu {
        Cpu::read(self.child.id().to_string().as_str(), 13)
    }

    /// Returns the resident memory in bytes.
    pub(crate) fn memory(&self) -> f64 {
        self.bytes("VmRSS:")
    }

    /// Returns the highest resident memory in bytes.
    pub(crate) fn peak_memory(&self) -> f64 {
        self.bytes("VmHWM:")
    }

    fn bytes(&self, field: &str) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        kilobytes.map_or(f64::NAN, |kilobytes: f64| kilobytes * 1024.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The program has no state worth saving, so it is killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    pub(crate) user: f64,
    pub(crate) system: f64,
}

impl Cpu {
    /// Returns the processor time of all finished child processes.
    pub(crate) fn of_children() -> Cpu {
        Cpu::read("self", 15)
    }

    /// Reads two adjacent fields of `/proc/PID/stat`, counted from 0, in ticks of 10 ms.
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
