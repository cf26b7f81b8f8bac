//! The settings of a server, and how it is started.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::flavour::Flavour;
use crate::ports::Port;
use crate::process::Process;
use crate::redis::Redis;
use crate::tls::Certificates;
use crate::{Client, Reply};
use crate::{clock, wait};

/// The settings of a server to start.
#[derive(Clone, Debug)]
pub struct Setup {
    flavour: Flavour,
    args: Vec<String>,
    core: Option<usize>,
    tls: bool,
    users: Option<String>,
    sentinel: Option<String>,
    settable_clock: bool,
}

impl Setup {
    /// Creates settings for a server without persistence, with defaults otherwise.
    pub fn new(flavour: Flavour) -> Setup {
        Setup {
            flavour,
            args: Vec::new(),
            core: None,
            tls: false,
            users: None,
            sentinel: None,
            settable_clock: false,
        }
    }

    /// Adds command-line arguments, such as `["--maxmemory", "2mb"]`.
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Setup {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Pins the server to one processor core.
    pub fn core(mut self, core: usize) -> Setup {
        self.core = Some(core);
        self
    }

    /// Also listens with TLS, on a second port, which [`Redis::url`] then returns. Clients need no
    /// certificate unless the arguments contain `--tls-auth-clients yes`.
    pub fn tls(mut self) -> Setup {
        self.tls = true;
        self
    }

    /// Sets the users, as lines of an ACL file. Without a line for the user `default`, that user
    /// may do everything, as [`Redis::command`] needs it.
    pub fn users(mut self, lines: impl Into<String>) -> Setup {
        self.users = Some(lines.into());
        self
    }

    /// Lets [`Redis::step_clock`] set the wall clock of the server, by `libfaketime`. It does not work
    /// with [`Flavour::Redis7`], whose allocator reads the time too early.
    pub fn settable_clock(mut self) -> Setup {
        self.settable_clock = true;
        self
    }

    /// Makes it a sentinel with these lines in its configuration.
    pub(crate) fn sentinel(mut self, lines: String) -> Setup {
        self.sentinel = Some(lines);
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not, with the end of its log.
    pub fn start(&self) -> Redis {
        self.spawn().ready()
    }

    /// Starts the server without waiting.
    pub(crate) fn spawn(&self) -> StartingServer {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (port, tls_port) = (Port::free(), self.tls.then(Port::free));
        let certificates = self.tls.then(|| Certificates::write(folder.path()));
        let command =
            self.command(folder.path(), &port, tls_port.as_ref().zip(certificates.as_ref()));
        let process = Process::start(command, folder.path().join("log"));
        StartingServer(Redis { process, port, tls_port, certificates, folder })
    }

    fn command(&self, folder: &Path, port: &Port, tls: Option<(&Port, &Certificates)>) -> Command {
        let program = self.flavour.program();
        let mut command = match self.core {
            None => Command::new(program),
            Some(core) => {
                let mut taskset = Command::new("taskset");
                taskset.args(["--cpu-list", &core.to_string()]).arg(program);
                taskset
            }
        };
        command.current_dir(folder);
        if self.settable_clock {
            clock::make_settable(&mut command, folder);
        }
        if let Some(lines) = &self.sentinel {
            // A sentinel writes what it learns into its configuration file.
            fs::write(folder.join("sentinel.conf"), lines).expect("a file is written");
            command.args(["sentinel.conf", "--sentinel"]);
        } else {
            command.args(["--save", "", "--appendonly", "no"]);
        }
        let number = port.number.to_string();
        command.args(["--port", &number, "--bind", "127.0.0.1", "--daemonize", "no"]);
        if let Some((port, files)) = tls {
            command.args(["--tls-port", &port.number.to_string(), "--tls-auth-clients", "no"]);
            command.arg("--tls-cert-file").arg(&files.server);
            command.arg("--tls-key-file").arg(&files.server_key);
            command.arg("--tls-ca-cert-file").arg(&files.ca);
        }
        if let Some(lines) = &self.users {
            fs::write(folder.join("users.acl"), lines).expect("a file is written");
            command.args(["--aclfile", "users.acl"]);
        }
        command.args(&self.args);
        command
    }
}

/// A started server that may not answer yet.
pub(crate) struct StartingServer(Redis);

impl StartingServer {
    /// Waits until the server answers.
    pub(crate) fn ready(self) -> Redis {
        await_answer(&self.0.process, self.0.port.number);
        self.0
    }
}

/// Waits until a process gives any reply on its port, except that it is loading.
pub(crate) fn await_answer(process: &Process, port: u16) {
    let answered = wait::answer(|| {
        if !process.is_running() {
            return Some(false);
        }
        let mut client = Client::connect(port).ok()?;
        client.send(&["PING"]).ok()?;
        let loading = |error: &str| error.starts_with("LOADING");
        let loads = matches!(client.reply().ok()?, Reply::Error(error) if loading(&error));
        (!loads).then_some(true)
    });
    let reason = match answered {
        Some(true) => return,
        Some(false) => "it ended",
        None => "it does not answer",
    };
    panic!("cannot start a server: {reason}; its log ends with:\n{}", process.log_tail());
}
