//! One server.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::flavour::Flavour;
use crate::ports::Port;
use crate::process::Process;
use crate::resp::{Client, Reply};
use crate::setup::{Setup, await_answer};
use crate::tls::Certificates;

/// A running server; stopped when dropped.
#[derive(Debug)]
pub struct Redis {
    pub(crate) process: Process,
    pub(crate) port: Port,
    pub(crate) tls_port: Option<Port>,
    pub(crate) certificates: Option<Certificates>,
    /// Its files; gone after the process.
    pub(crate) folder: TempDir,
}

impl Redis {
    /// Starts Redis 7.0.
    pub fn start() -> Redis {
        Redis::of(Flavour::Redis7)
    }

    /// Starts Redis 7.0 with more of a command line, such as `["--maxmemory", "2mb"]`.
    pub fn start_with(args: &[&str]) -> Redis {
        Setup::new(Flavour::Redis7).args(args.iter().copied()).start()
    }

    /// Starts a server of any kind.
    pub fn of(flavour: Flavour) -> Redis {
        Setup::new(flavour).start()
    }

    /// Starts Redis 7.0 that also listens with TLS.
    pub fn start_tls() -> Redis {
        Setup::new(Flavour::Redis7).tls().start()
    }

    /// Where it listens, without TLS.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// Where it listens with TLS, if it does.
    pub fn tls_port(&self) -> Option<u16> {
        self.tls_port.as_ref().map(|port| port.number)
    }

    /// Where clients find it: `redis://…`, or `rediss://…` where it has TLS.
    pub fn url(&self) -> String {
        match self.tls_port() {
            Some(port) => format!("rediss://localhost:{port}"),
            None => format!("redis://127.0.0.1:{}", self.port()),
        }
    }

    /// The files of its TLS, if it has TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether its process runs, or is stopped; not whether it answers.
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// Stops it in its tracks (SIGSTOP): connections stay, answers do not come.
    pub fn stop(&self) {
        self.process.signal(Signal::STOP);
    }

    /// Lets it go on after [`stop`](Redis::stop) (SIGCONT).
    pub fn cont(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Ends it at once (SIGKILL).
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Kills it, starts it again at the same port, and waits until it answers. What it knew is lost,
    /// unless it was told to keep it.
    pub fn restart(&self) {
        self.process.start_again();
        await_answer(&self.process, self.port());
    }

    /// Sends one command over a connection of its own.
    ///
    /// # Errors
    ///
    /// If the reply is an error, which is then the text of this one, or none comes.
    pub fn command(&self, words: &[&str]) -> io::Result<Reply> {
        self.client()?.command(words)
    }

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// If it does not listen.
    pub fn client(&self) -> io::Result<Client> {
        Client::connect(self.port())
    }

    /// A line of `INFO`, such as `total_commands_processed`.
    pub fn info(&self, name: &str) -> Option<String> {
        let info = self.command(&["INFO", "everything"]).ok()?.text();
        info.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned()))
    }

    /// The processor time it has taken so far, in ticks of usually 10 ms.
    pub fn cpu(&self) -> Duration {
        self.process.cpu()
    }

    /// The last lines of its log.
    pub fn last_words(&self) -> String {
        self.process.last_words()
    }
}
