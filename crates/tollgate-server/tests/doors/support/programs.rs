//! Programs that tests run: servers, proxies and clients in other languages.
#![allow(clippy::disallowed_methods, reason = "waits for real processes, within a deadline")]

use std::ffi::OsStr;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::DEADLINE;

/// Returns the folder of `cargo xtask components`.
pub(crate) fn components() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/components");
    let folder = std::env::var_os("TOLLGATE_COMPONENTS").map_or(here, PathBuf::from);
    assert!(folder.is_dir(), "{} is missing: run cargo xtask components", folder.display());
    folder
}

/// Returns a server that is installed as a Python package: `envoy`, `nginx`, `traefik`, `caddy`.
pub(crate) fn server_program(name: &str) -> Command {
    Command::new(components().join("servers/bin").join(name))
}

/// Returns a client that is installed as a Python package: `schemathesis`.
pub(crate) fn client_program(name: &str) -> Command {
    Command::new(components().join("clients/bin").join(name))
}

/// Runs a Python script of this folder with the installed clients; returns its output.
pub(crate) fn python(script: &str, args: &[&str]) -> String {
    python_in("clients", script, args)
}

/// Runs a Python script of this folder in another group of installed packages; returns its output.
pub(crate) fn python_in(group: &str, script: &str, args: &[&str]) -> String {
    let mut command = Command::new(components().join(group).join("bin/python"));
    command.arg(in_tests(script)).args(args);
    output(&mut command)
}

/// Runs a Node script of this folder with the installed clients; returns its output.
pub(crate) fn node(script: &str, args: &[&str]) -> String {
    node_in("node", script, args)
}

/// Runs a Node script of this folder with a group of installed packages; returns its output.
pub(crate) fn node_in(group: &str, script: &str, args: &[&str]) -> String {
    // Node resolves modules relative to the script, so a copy is placed beside them.
    let modules = components().join(group);
    let folder = tempfile::tempdir_in(&modules).unwrap();
    let copy = folder.path().join(Path::new(script).file_name().unwrap());
    std::fs::copy(in_tests(script), &copy).unwrap();
    output(Command::new("node").arg(copy).args(args))
}

fn in_tests(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doors").join(script)
}

/// Runs a command to its end; a failure shows its output.
fn output(command: &mut Command) -> String {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    // Other threads read the pipes, so that a full pipe blocks nothing.
    let read = |from: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || std::io::read_to_string(from.unwrap()).unwrap_or_default())
    };
    let stdout = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let stderr = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > 4 * DEADLINE {
            let _ = child.kill();
        }
        std::thread::park_timeout(Duration::from_millis(5));
    };
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout
}

/// A program that runs until it is dropped.
pub(crate) struct Program(Child);

impl Program {
    /// Starts a program and waits until it listens at `address`.
    pub(crate) fn start(command: &mut Command, address: SocketAddr) -> Program {
        let name = command.get_program().to_owned();
        let child = command.stdin(Stdio::null()).spawn();
        let mut program =
            Program(child.unwrap_or_else(|error| panic!("{}: {error}", name.display())));
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            program.assert_alive(&name);
            assert!(started.elapsed() < DEADLINE, "{} does not listen", name.display());
            std::thread::park_timeout(Duration::from_millis(10));
        }
        program
    }

    fn assert_alive(&mut self, name: &OsStr) {
        let ended = self.0.try_wait().unwrap();
        assert!(ended.is_none(), "{} ended: {ended:?}", name.display());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a free port, for programs that cannot choose one themselves.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
