//! A server of the binary under test, as a child process.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use super::super::check::CheckContext;
use super::super::workspace::{SharedChild, end, lock};

/// The reason to skip a check on a system where [`ChildServer::memory`] is unknown.
pub(crate) const MEMORY_UNKNOWN: &str =
    "this system does not report the memory of a process in /proc: run the check on Linux";
/// The file of the server's log.
const LOG: &str = "log";
/// The maximum length of a log that an error shows.
const LOG_TAIL: usize = 500;

/// A running server, which is killed when it is dropped.
pub(crate) struct ChildServer {
    child: SharedChild,
    pid: u32,
    folder: PathBuf,
    /// The JSON output of its start.
    start_output: Value,
}

impl ChildServer {
    /// Starts a server with these arguments in a folder; doors that are not named are off.
    pub(crate) fn start(
        context: &CheckContext,
        folder: &Path,
        args: &[&str],
    ) -> anyhow::Result<ChildServer> {
        let mut command = Command::new(&context.program);
        command.args(["serve", "--json", "--drain-notice", "0"]).args(args);
        for door in ["--http", "--grpc", "--resp"] {
            if !args.contains(&door) {
                command.args([door, "off"]);
            }
        }
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TOLLGATE_") {
                command.env_remove(name);
            }
        }
        let log = File::create(folder.join(LOG)).context("cannot create the log of a server")?;
        command.env_remove("STATE_DIRECTORY").env_remove("NOTIFY_SOCKET").current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let child = context.workspace.spawn(&mut command)?;
        let (pid, stdout) = {
            let mut child = lock(&child);
            (child.id(), child.stdout.take())
        };
        let mut server =
            ChildServer { child, pid, folder: folder.to_owned(), start_output: Value::Null };
        let Some(stdout) = stdout else { bail!("a server has no output") };
        let mut line = String::new();
        // A server that hangs here is killed when the time of the check is up.
        BufReader::new(stdout.take(1 << 16)).read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(output) => server.start_output = output,
            Err(_) => {
                let log = Some(server.log()).filter(|log| !log.is_empty());
                let reason =
                    log.unwrap_or_else(|| "it printed neither addresses nor errors".into());
                bail!("{} did not start a server: {reason}", context.program.display())
            }
        }
        Ok(server)
    }

    /// Returns the address of a door: `http`, `grpc`, `resp` or `gateway`.
    pub(crate) fn door(&self, name: &str) -> anyhow::Result<SocketAddr> {
        let address = self.start_output[name].as_str().and_then(|url| url.rsplit("//").next());
        let address = address.and_then(|address| address.parse().ok());
        address.with_context(|| format!("a server has no {name} door: {}", self.start_output))
    }

    /// Kills the server, as `kill -9` does, and waits for its end.
    pub(crate) fn kill(&self) {
        // An error means that it has ended.
        let _ = end(&self.child);
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(lock(&self.child).try_wait(), Ok(None))
    }

    /// Returns the resident memory in bytes, where the system reports it.
    pub(crate) fn memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
    }

    /// Returns the end of the log.
    pub(crate) fn log(&self) -> String {
        let log = std::fs::read(self.folder.join(LOG)).unwrap_or_default();
        let tail = &log[log.len().saturating_sub(LOG_TAIL)..];
        String::from_utf8_lossy(tail).trim().replace('\n', "; ")
    }
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        self.kill();
    }
}
