//! The setup of the tests: Envoy, a counting upstream, and a server that can restart.
#![allow(clippy::disallowed_methods, reason = "waits for real programs, within a deadline")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tollgate_server::net::Bind;

use super::super::start_configured;
use crate::support::{DEADLINE, Program, TestServer, free_port, server_program};

/// Envoy with two listeners, between a test and a server.
pub(super) struct EnvoySetup {
    server: Option<TestServer>,
    rls: SocketAddr,
    lax: SocketAddr,
    strict: SocketAddr,
    passed: Arc<AtomicUsize>,
    _envoy: Program,
    _folder: tempfile::TempDir,
}

/// A response that Envoy sent.
pub(super) struct EnvoyResponse {
    pub(super) code: u16,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl EnvoyResponse {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl EnvoySetup {
    pub(super) fn new(server: TestServer) -> EnvoySetup {
        EnvoySetup::with_headers(server, "DRAFT_VERSION_03")
    }

    /// Starts an Envoy that adds no rate-limit headers but those of the server.
    pub(super) fn without_own_headers(server: TestServer) -> EnvoySetup {
        EnvoySetup::with_headers(server, "\"OFF\"")
    }

    fn with_headers(server: TestServer, headers: &str) -> EnvoySetup {
        let passed = Arc::new(AtomicUsize::new(0));
        let upstream = upstream(passed.clone());
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let (rls, lax, strict) = (server.grpc(), local(free_port()), local(free_port()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("envoy.yaml");
        let listeners = [("lax", lax, false), ("strict", strict, true)];
        let listeners = listeners.map(|(name, at, denies)| {
            let text = include_str!("listener.yaml").replace("NAME", name);
            let text = text.replace("DRAFT_VERSION_03", headers);
            text.replace("PORT", &at.port().to_string()).replace("DENY", &denies.to_string())
        });
        let clusters = include_str!("clusters.yaml");
        let clusters = clusters.replace("RLS_PORT", &rls.port().to_string());
        let clusters = clusters.replace("UPSTREAM_PORT", &upstream.port().to_string());
        let text = format!(
            "static_resources:\n  listeners:\n{}  clusters:\n{clusters}",
            listeners.concat()
        );
        std::fs::write(&path, text).unwrap();
        let mut command = server_program("envoy");
        command.arg("-c").arg(&path).args(["--concurrency", "1", "--disable-hot-restart"]);
        command.args(["--log-level", "error"]);
        let envoy = Program::start(&mut command, lax);
        let setup = EnvoySetup {
            server: Some(server),
            rls,
            lax,
            strict,
            passed,
            _envoy: envoy,
            _folder: folder,
        };
        setup.until(|setup| TcpStream::connect(setup.strict).is_ok());
        // A cold start may take longer than Envoy's timeout.
        setup.until(|setup| setup.get(&[("x-never", "x")]).code == 429);
        setup.until(|setup| setup.get_strict(&[("x-never", "x")]).code == 429);
        setup.passed.store(0, Ordering::Relaxed);
        setup
    }

    /// Returns the number of requests that reached the upstream.
    pub(super) fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }

    /// Sends a request through the Envoy that fails open.
    pub(super) fn get(&self, headers: &[(&str, &str)]) -> EnvoyResponse {
        get(self.lax, "/", headers)
    }

    /// Sends a request through the Envoy that fails closed.
    pub(super) fn get_strict(&self, headers: &[(&str, &str)]) -> EnvoyResponse {
        get(self.strict, "/", headers)
    }

    pub(super) fn write_rules(&self, rules: &str) {
        self.server.as_ref().unwrap().write_rules(rules);
    }

    /// Waits until the limit of users has the given value.
    pub(super) fn wait_for_limit(&self, limit: usize) {
        let begins = format!("{limit}, ");
        self.until(|setup| {
            let reply = setup.get(&[("x-user", "probe")]);
            reply.header("x-ratelimit-limit").is_some_and(|value| value.starts_with(&begins))
        });
    }

    pub(super) fn until(&self, is_met: impl Fn(&EnvoySetup) -> bool) {
        until(|| is_met(self));
    }

    /// Kills the server and all its connections.
    pub(super) fn kill(&mut self) {
        drop(self.server.take());
    }

    /// Starts the server again on its old port.
    pub(super) fn revive(&mut self) {
        let bind = Bind::plain(self.rls.to_string().parse().unwrap());
        self.server = Some(start_configured(|config| config.grpc = Some(bind)));
    }
}

/// Waits until a condition is met.
pub(super) fn until(is_met: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_met() {
        assert!(started.elapsed() < DEADLINE, "the condition was not met in time");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Sends a request on a connection of its own.
pub(super) fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> EnvoyResponse {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut request = format!("GET {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    stream.write_all((request + "\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let code = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.map_while(|line| line.split_once(": "));
    EnvoyResponse {
        code,
        headers: headers.map(|(name, value)| (name.into(), value.into())).collect(),
        body: body.to_owned(),
    }
}

/// Answers every request with 200 and counts it.
fn upstream(passed: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let passed = passed.clone();
            std::thread::spawn(move || answer_all(stream, &passed));
        }
    });
    address
}

fn answer_all(mut stream: TcpStream, passed: &AtomicUsize) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    while let Some(Ok(line)) = lines.next() {
        if line.is_empty() {
            passed.fetch_add(1, Ordering::Relaxed);
            if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    }
}
