//! A server in this process with counters in Redis, and its clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tollgate_rig::{Client, WebClient, until};
use tollgate_server::config::{RedisOptions, StoreChoice};
use tollgate_server::net::{Address, Bind};
use tollgate_server::sources::Origin;
use tollgate_server::{Config, Server};

/// A timeout for tests that do not measure time, long enough for a busy machine.
pub(crate) const LONG_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that stops when dropped.
pub(crate) struct TestServer {
    server: Server,
    _runtime: Runtime,
    _folder: tempfile::TempDir,
}

/// Starts a server with the given rules and with counters at `url`.
pub(crate) fn start(rules: &str, url: &str, timeout: Duration) -> TestServer {
    start_with(rules, url.parse::<RedisOptions>().unwrap().timeout(timeout).unwrap())
}

pub(crate) fn start_with(rules: &str, options: RedisOptions) -> TestServer {
    start_configured(rules, options, |_| {})
}

/// Starts a server with the given rules, store and configuration.
pub(crate) fn start_configured(
    rules: &str,
    options: RedisOptions,
    set_up: impl FnOnce(&mut Config),
) -> TestServer {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, rules).unwrap();
    let any = || Some(Bind::plain("127.0.0.1:0".parse().unwrap()));
    let mut config = Config::default();
    (config.http, config.grpc, config.resp) = (any(), None, any());
    config.rules = Some(Origin::path(&path));
    config.drain.notice = Duration::ZERO;
    config.store = StoreChoice::Redis(options);
    set_up(&mut config);
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Server::start(config)).unwrap();
    TestServer { server, _runtime: runtime, _folder: folder }
}

impl TestServer {
    pub(crate) fn http(&self) -> HttpConnection {
        HttpConnection::connect(tcp(self.server.addresses().http.as_ref()))
    }

    pub(crate) fn resp(&self) -> Client {
        Client::connect(tcp(self.server.addresses().resp.as_ref()).port()).unwrap()
    }

    /// Returns a client of the gateway, if one is configured.
    pub(crate) fn web(&self) -> WebClient {
        WebClient::connect(tcp(self.server.addresses().gateway.as_ref()))
    }

    /// Calls the admin API; returns the status and the body.
    pub(crate) fn admin(&self, method: &str, path: &str) -> (u16, Value) {
        self.with_all_rights(method, path, "")
    }

    /// Makes a call with a token that permits every call; returns the status and the body.
    pub(crate) fn with_all_rights(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let bearer = format!("Bearer {}", self.server.admin_token().unwrap().reveal());
        let mut client = WebClient::connect(tcp(self.server.addresses().http.as_ref()));
        let response = client.send(method, path, &[("authorization", &bearer)], body);
        (response.status(), serde_json::from_slice(&response.body).unwrap_or_default())
    }

    /// Sends requests of a user; returns how many are allowed.
    pub(crate) fn pass(&self, user: &str, times: usize) -> usize {
        let mut http = self.http();
        (0..times).filter(|_| http.check(user)["allowed"] == true).count()
    }

    /// Returns the value of a metric.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let (_, text) = self.http().send("GET", "/metrics", "");
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}:\n{text}")).parse().unwrap()
    }

    pub(crate) fn ready(&self) -> (u16, Value) {
        let (status, body) = self.http().send("GET", "/readyz", "");
        (status, serde_json::from_str(&body).unwrap())
    }

    /// Returns the state of the store from `/readyz`.
    pub(crate) fn store_state(&self) -> String {
        self.ready().1["store"]["state"].as_str().unwrap().to_owned()
    }
}

/// Sends requests until the store is resting, so that later ones do not wait for it.
pub(crate) fn until_resting(server: &TestServer) {
    until("the store is resting", || {
        server.http().check("probe");
        server.store_state() == "resting"
    });
}

pub(crate) fn until_well(server: &TestServer) {
    until("the store is well", || server.store_state() == "well");
}

fn tcp(address: Option<&Address>) -> SocketAddr {
    match address {
        Some(Address::Tcp(address)) => *address,
        other => panic!("no port: {other:?}"),
    }
}

/// A connection to the HTTP door.
pub(crate) struct HttpConnection(BufReader<TcpStream>);

impl HttpConnection {
    fn connect(address: SocketAddr) -> HttpConnection {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(3 * LONG_TIMEOUT)).unwrap();
        HttpConnection(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: tollgate\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut length = 0;
        loop {
            line.clear();
            self.0.read_line(&mut line).unwrap();
            let header = line.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        (status, String::from_utf8(body).unwrap())
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let (status, body) = self.send("POST", path, &body.to_string());
        (status, serde_json::from_str(&body).unwrap())
    }

    /// Requests a decision by rules about a user.
    pub(crate) fn check(&mut self, user: &str) -> Value {
        self.post("/v1/check", &json!({ "attributes": { "user": user } })).1
    }
}
