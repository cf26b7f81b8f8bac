//! A server that runs, and ways to talk to it.
#![allow(clippy::disallowed_methods, reason = "waits for real processes, within a deadline")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before it is called a failure.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// `tollgate` in a folder, in an environment without settings.
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

/// A server in a folder of its own. Killed when it is dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    /// What it said when it was up.
    pub(crate) said: Value,
    pub(crate) folder: TempDir,
}

impl Server {
    /// Every door on a free port.
    pub(crate) fn start(more: &[&str]) -> Server {
        Server::start_in(tempfile::tempdir().unwrap(), more)
    }

    pub(crate) fn start_in(folder: TempDir, more: &[&str]) -> Server {
        Server::start_as("serve", &["--http", "--grpc", "--resp"], folder, more)
    }

    /// A gateway, and the door of those who run it.
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
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = command(folder.path(), &args);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said = serde_json::from_str(&line);
        let log = || std::fs::read_to_string(folder.path().join("log")).unwrap();
        let said = said.unwrap_or_else(|_| panic!("{line}\n{}", log()));
        Server { child, said, folder }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where a door is, without a scheme.
    pub(crate) fn at(&self, door: &str) -> &str {
        let said = self.said[door].as_str().unwrap_or_else(|| panic!("no {door}: {}", self.said));
        said.rsplit("//").next().unwrap()
    }

    pub(crate) fn http(&self) -> &str {
        self.said["http"].as_str().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What it logged so far.
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

    /// How it ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        until("its end", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }

    /// Runs a command that asks it; its exit code and what it printed.
    pub(crate) fn ask(&self, args: &[&str]) -> (i32, String) {
        let mut command = command(self.folder.path(), args);
        let output = command.env("TOLLGATE_SERVER", self.http()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code().unwrap_or(-1), text(&output.stdout) + &text(&output.stderr))
    }

    /// The status of a `GET`.
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

/// Waits until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < DEADLINE, "no {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Runs a line of shell; its standard output.
pub(crate) fn shell(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
