//! A running Redis or Valkey server.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::clock;
use crate::flavour::Flavour;
use crate::ports::Port;
use crate::process::Process;
use crate::resp::{Client, Reply};
use crate::setup::{Setup, await_answer};
use crate::tls::Certificates;

/// The maximum number of readings until a step of the clock is seen; each takes a tenth of a
/// millisecond or more.
const MAX_CLOCK_READINGS: usize = 20_000;

/// A running server; stopped when dropped.
#[derive(Debug)]
pub struct Redis {
    pub(crate) process: Process,
    pub(crate) port: Port,
    pub(crate) tls_port: Option<Port>,
    pub(crate) certificates: Option<Certificates>,
    /// The folder of its files, removed after the process has ended.
    pub(crate) folder: TempDir,
}

impl Redis {
    /// Starts Redis 7.0.
    pub fn start() -> Redis {
        Redis::start_flavour(Flavour::Redis7)
    }

    /// Starts Redis 7.0 with more command-line arguments, such as `["--maxmemory", "2mb"]`.
    pub fn start_with(args: &[&str]) -> Redis {
        Setup::new(Flavour::Redis7).args(args.iter().copied()).start()
    }

    /// Starts a server of any kind.
    pub fn start_flavour(flavour: Flavour) -> Redis {
        Setup::new(flavour).start()
    }

    /// Starts Redis 7.0 that also listens with TLS.
    pub fn start_tls() -> Redis {
        Setup::new(Flavour::Redis7).tls().start()
    }

    /// Returns the port without TLS.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// Returns the port with TLS, if there is one.
    pub fn tls_port(&self) -> Option<u16> {
        self.tls_port.as_ref().map(|port| port.number)
    }

    /// Returns its address: `redis://…`, or `rediss://…` with TLS.
    pub fn url(&self) -> String {
        match self.tls_port() {
            Some(port) => format!("rediss://localhost:{port}"),
            None => format!("redis://127.0.0.1:{}", self.port()),
        }
    }

    /// Returns its TLS files, if it has TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// Returns the folder of its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns whether its process exists, running or stopped; it need not answer.
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// Suspends it (SIGSTOP): connections stay open without replies.
    pub fn stop(&self) {
        self.process.signal(Signal::STOP);
    }

    /// Resumes it after [`stop`](Redis::stop) (SIGCONT).
    pub fn cont(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Sets its wall clock to the real one plus `seconds`, at once and also for the next start. Its
    /// monotonic clock goes on.
    ///
    /// # Panics
    ///
    /// If it was started without [`Setup::settable_clock`].
    pub fn step_clock(&self, seconds: i64) {
        let Ok(before) = self.wall_clock() else {
            // A stopped server reads its clock when it starts.
            clock::step(self.folder(), seconds);
            return;
        };
        let by = seconds - clock::step(self.folder(), seconds);
        // Valkey 9 reads the wall clock once a millisecond, so that it runs a few commands at the time
        // before the step. That time never comes back.
        for _ in 0..MAX_CLOCK_READINGS {
            match self.wall_clock() {
                Ok(now) if by != 0 && (now - before - by).abs() >= by.abs() / 2 => {}
                _ => return,
            }
        }
        panic!("the clock of the server did not step by {by} s");
    }

    /// Returns the seconds since 1970 by the server's clock.
    fn wall_clock(&self) -> io::Result<i64> {
        let time = self.command(&["TIME"])?;
        let seconds = time.list().first().and_then(Reply::int);
        seconds.ok_or_else(|| io::Error::other(format!("TIME returned {}", time.text())))
    }

    /// Kills it (SIGKILL).
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Kills it, starts it again on the same port, and waits until it answers. Its data is lost
    /// unless its arguments enable persistence.
    pub fn restart(&self) {
        self.process.start_again();
        await_answer(&self.process, self.port());
    }

    /// Sends one command on a connection of its own.
    ///
    /// # Errors
    ///
    /// If the reply is an error, with its text, or none arrives.
    pub fn command(&self, args: &[&str]) -> io::Result<Reply> {
        self.client()?.command(args)
    }

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// If the server does not listen.
    pub fn client(&self) -> io::Result<Client> {
        Client::connect(self.port())
    }

    /// Returns a value of `INFO`, such as `total_commands_processed`.
    pub fn info(&self, name: &str) -> Option<String> {
        let info = self.command(&["INFO", "everything"]).ok()?.text();
        info.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned()))
    }

    /// Returns its processor time so far, in ticks of usually 10 ms.
    pub fn cpu(&self) -> Duration {
        self.process.cpu()
    }

    /// Returns the last lines of its log.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}
