//! A running server process, and calls to it.
#![allow(clippy::disallowed_methods, reason = "waits for real processes, within a deadline")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The maximum time of any step of a test.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Returns `tollgate` as a command in a folder, in an environment without settings.
pub(crate) fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TOLLGATE_") {
            command.env_remove(name);
        }
    }
    command.args(args).env_remove("CLICOLOR_FORCE").env_remove("STATE_DIRECTORY");
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// A server in its own folder. It is killed when it is dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    /// The JSON output of its start.
    pub(crate) start_output: Value,
    pub(crate) folder: TempDir,
}

impl Server {
    /// Starts a server with every door on a free port.
    pub(crate) fn start(more: &[&str]) -> Server {
        Server::start_in(tempfile::tempdir().unwrap(), more)
    }

    pub(crate) fn start_in(folder: TempDir, more: &[&str]) -> Server {
        Server::start_as("serve", &["--http", "--grpc", "--resp"], folder, more)
    }

    /// Starts a gateway with the HTTP door.
    pub(crate) fn gateway(folder: TempDir, more: &[&str]) -> Server {
        Server::start_as("gateway", &["--http", "--listen"], folder, more)
    }

    fn start_as(name: &str, doors: &[&str], folder: TempDir, more: &[&str]) -> Server {
        let any = "127.0.0.1:0";
        let mut args = vec![name, "--json"];
        for door in doors {
            if !more.contains(door) {
                args.extend([door, any]);
            }
        }
        args.extend(more);
        Server::spawn(command(folder.path(), &args), folder)
    }

    /// Runs a command that starts a server in `folder`.
    pub(crate) fn spawn(mut command: Command, folder: TempDir) -> Server {
        let log = File::create(folder.path().join("log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let message = serde_json::from_str(&line);
        let log = || std::fs::read_to_string(folder.path().join("log")).unwrap();
        let message = message.unwrap_or_else(|_| panic!("{line}\n{}", log()));
        Server { child, start_output: message, folder }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the address of a door, without a scheme.
    pub(crate) fn at(&self, door: &str) -> &str {
        let message = self.start_output[door]
            .as_str()
            .unwrap_or_else(|| panic!("no {door}: {}", self.start_output));
        message.rsplit("//").next().unwrap()
    }

    pub(crate) fn http(&self) -> &str {
        self.start_output["http"].as_str().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap()
    }

    pub(crate) fn wait_for_log(&self, text: &str) {
        until(text, || self.log().contains(text));
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Waits for the end, and returns the exit status.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        until("its end", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }

    /// Runs a command that calls the server, and returns its exit code and output.
    pub(crate) fn run(&self, args: &[&str]) -> (i32, String) {
        let mut command = command(self.folder.path(), args);
        let output = command.env("TOLLGATE_SERVER", self.http()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code().unwrap_or(-1), text(&output.stdout) + &text(&output.stderr))
    }

    /// Returns the status of a `GET`.
    pub(crate) fn status(&self, path: &str) -> u16 {
        let mut stream = TcpStream::connect(self.at("http")).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer[9..12].parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < DEADLINE, "no {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Runs a line of shell, and returns its standard output.
pub(crate) fn shell(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
