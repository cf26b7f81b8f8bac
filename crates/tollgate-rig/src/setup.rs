//! How a server is started.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::flavour::Flavour;
use crate::ports::Port;
use crate::process::Process;
use crate::redis::Redis;
use crate::tls::Certificates;
use crate::wait;
use crate::{Client, Reply};

/// Settings of a server that is about to start.
#[derive(Clone, Debug)]
pub struct Setup {
    flavour: Flavour,
    args: Vec<String>,
    core: Option<usize>,
    tls: bool,
    users: Option<String>,
    sentinel: Option<String>,
}

impl Setup {
    /// A server without persistence, with the settings it comes with otherwise.
    pub fn new(flavour: Flavour) -> Setup {
        Setup { flavour, args: Vec::new(), core: None, tls: false, users: None, sentinel: None }
    }

    /// More of the command line, such as `["--maxmemory", "2mb"]`.
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Setup {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Runs it on this processor core alone.
    pub fn core(mut self, core: usize) -> Setup {
        self.core = Some(core);
        self
    }

    /// Listens with TLS too, at a port of its own ([`Redis::url`] is then that one). Clients need no
    /// certificate, unless the arguments say `--tls-auth-clients yes`.
    pub fn tls(mut self) -> Setup {
        self.tls = true;
        self
    }

    /// Users, as lines of an ACL file. Without a line for the user `default`, that one may do
    /// everything, which is what [`Redis::command`] needs.
    pub fn users(mut self, lines: impl Into<String>) -> Setup {
        self.users = Some(lines.into());
        self
    }

    /// A sentinel with these lines in its file.
    pub(crate) fn sentinel(mut self, lines: String) -> Setup {
        self.sentinel = Some(lines);
        self
    }

    /// Starts it, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not, with the end of its log.
    pub fn start(&self) -> Redis {
        self.spawn().ready()
    }

    /// Starts it without waiting.
    pub(crate) fn spawn(&self) -> Starting {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (port, tls_port) = (Port::free(), self.tls.then(Port::free));
        let certificates = self.tls.then(|| Certificates::write(folder.path()));
        let command =
            self.command(folder.path(), &port, tls_port.as_ref().zip(certificates.as_ref()));
        let process = Process::start(command, folder.path().join("log"));
        Starting(Redis { process, port, tls_port, certificates, folder })
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
        if let Some(lines) = &self.sentinel {
            // A sentinel writes what it learns to its file.
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

/// A server that was started and may not answer yet.
pub(crate) struct Starting(Redis);

impl Starting {
    /// Waits until it answers.
    pub(crate) fn ready(self) -> Redis {
        await_answer(&self.0.process, self.0.port.number);
        self.0
    }
}

/// Waits until a process answers at its port, whatever it says, unless that it is still loading.
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
    let trouble = match answered {
        Some(true) => return,
        Some(false) => "it ended",
        None => "it does not answer",
    };
    panic!("a server could not be started: {trouble}. It said:\n{}", process.last_words());
}
