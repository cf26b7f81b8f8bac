//! A program that runs until it is dropped, with its log.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The number of log lines shown when a start fails.
const TAIL: usize = 30;

#[derive(Debug)]
pub(crate) struct Process {
    /// The command that starts and restarts it.
    command: Mutex<Command>,
    child: Mutex<Child>,
    log: PathBuf,
}

impl Process {
    /// Starts the program. Its output goes to the file `log`.
    pub(crate) fn start(mut command: Command, log: PathBuf) -> Process {
        let child = spawn(&mut command, &log);
        Process { command: Mutex::new(command), child: Mutex::new(child), log }
    }

    /// Kills the program, and starts it again with the same command.
    pub(crate) fn start_again(&self) {
        self.kill();
        *self.child() = spawn(&mut lock(&self.command), &self.log);
    }

    pub(crate) fn id(&self) -> u32 {
        self.child().id()
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.child().try_wait(), Ok(None))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let mut child = self.child();
        // The id of a process that has ended may belong to another one.
        let ended = child.try_wait().expect("the state of a child is known");
        assert!(ended.is_none(), "it has ended ({ended:?}), so it takes no signals");
        kill_process(Pid::from_child(&child), signal).expect("a child takes signals");
    }

    /// Kills the process and waits until it has ended.
    pub(crate) fn kill(&self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Returns the processor time so far, in ticks of usually 10 ms.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        // The name in parentheses may contain spaces; the fields after it count from 3.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks = |field: usize| fields.get(field - 3).and_then(|ticks| ticks.parse().ok());
        let (user, system): (u64, u64) = ticks(14).zip(ticks(15)).expect("it runs");
        let per_second = rustix::param::clock_ticks_per_second();
        Duration::from_nanos((user + system) * (1_000_000_000 / per_second))
    }

    /// Returns the last lines of the log.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        lock(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Locks a mutex, also after a test has panicked with the lock, so that the process is ended.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(command: &mut Command, log: &PathBuf) -> Child {
    let log = File::options().create(true).append(true).open(log).expect("the log can be written");
    let both = log.try_clone().expect("a file can be opened twice");
    command.stdin(Stdio::null()).stdout(log).stderr(both);
    command.spawn().unwrap_or_else(|error| {
        panic!("{}: {error}: run cargo xtask components", command.get_program().display())
    })
}
