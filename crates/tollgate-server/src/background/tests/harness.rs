//! A server in this process whose workers panic.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;
use tollgate_rig::{Client, Message, Upstream, WebClient, until};

use crate::background::{BackgroundWorker, inject_panics};
use crate::config::GatewayOptions;
use crate::net::{Address, Bind};
use crate::sources::Origin;
use crate::{Config, Server};

/// The maximum time that a server may take to stop.
const STOP_LIMIT: Duration = Duration::from_secs(20);

const RULES: &str = "rules:
  - { name: all, per: ip, limit: 100000/s }
  - { name: report, route: POST /report, limit: 20/s burst 1, then: defer }
";

/// A server with every door, a gateway and a data folder.
pub(super) struct PanickingServer {
    runtime: Runtime,
    server: Server,
    pub(super) folder: tempfile::TempDir,
    _upstream: Upstream,
}

/// Starts a server whose rules are a file.
pub(super) fn start() -> PanickingServer {
    start_with(|_| {})
}

pub(super) fn start_with(set_up: impl FnOnce(&mut Config)) -> PanickingServer {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start());
    let rules = folder.path().join("rules.yaml");
    std::fs::write(&rules, RULES).unwrap();
    let any = || Bind::plain("127.0.0.1:0".parse().unwrap());
    let mut config = Config::default();
    (config.http, config.grpc, config.resp) = (Some(any()), Some(any()), Some(any()));
    config.rules = Some(Origin::path(&rules));
    config.data = Some(folder.path().join("data"));
    config.snapshot = Some(Duration::from_millis(20));
    config.drain.notice = Duration::ZERO;
    let mut gateway = GatewayOptions::to(vec![upstream.url().parse().unwrap()]);
    gateway.listen = any();
    gateway.defer.backoff = Duration::from_millis(20);
    config.gateway = Some(gateway);
    set_up(&mut config);
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Server::start(config)).unwrap();
    PanickingServer { runtime, server, folder, _upstream: upstream }
}

impl PanickingServer {
    pub(super) fn http(&self) -> SocketAddr {
        tcp(self.server.addresses().http.as_ref())
    }

    pub(super) fn grpc(&self) -> SocketAddr {
        tcp(self.server.addresses().grpc.as_ref())
    }

    pub(super) fn gateway(&self) -> SocketAddr {
        tcp(self.server.addresses().gateway.as_ref())
    }

    /// Sends a request to the HTTP door, with the right to everything.
    pub(super) fn call(&self, method: &str, path: &str, body: &str) -> Message {
        let token = self.server.admin_token().unwrap().reveal().to_owned();
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        WebClient::connect(self.http()).send(method, path, &headers, body)
    }

    /// Makes the server read its rules file again.
    pub(super) fn reload(&self) {
        self.server.reload();
    }

    /// Runs a future on the runtime of the server.
    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Returns what `/readyz` says.
    pub(super) fn ready(&self) -> Value {
        let answer = WebClient::connect(self.http()).get("/readyz");
        assert_eq!(answer.status(), 200, "{}", answer.text());
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// Returns the value of a series of the metrics; 0 if there is none.
    pub(super) fn metric(&self, series: &str) -> u64 {
        let text = WebClient::connect(self.http()).get("/metrics").text();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap())
    }

    /// Lets a worker panic, and gives it a reason to work.
    pub(super) fn break_worker(
        &self,
        worker: BackgroundWorker,
        times: usize,
        provoke: impl FnOnce(&PanickingServer),
    ) {
        inject_panics(worker, times);
        provoke(self);
        self.expect_panics(worker, times as u64);
    }

    /// Waits until readiness and metrics report the panics of a worker; every door works meanwhile.
    pub(super) fn expect_panics(&self, worker: BackgroundWorker, times: u64) {
        let count = || {
            let ready = self.ready();
            let panics = ready["panics"].as_array().cloned().unwrap_or_default();
            let found = panics.iter().find(|panic| panic["worker"] == worker.as_str());
            found.map_or(0, |panic| panic["count"].as_u64().unwrap())
        };
        until("the panics are reported", || count() == times);
        let series = format!("tollgate_worker_panics_total{{worker=\"{}\"}}", worker.as_str());
        assert_eq!(self.metric(&series), times);
        self.expect_open_doors();
    }

    fn expect_open_doors(&self) {
        let answer = self.call("POST", "/v1/check", r#"{"attributes":{"ip":"203.0.113.7"}}"#);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let resp = tcp(self.server.addresses().resp.as_ref());
        let mut redis = Client::connect(resp.port()).unwrap();
        let allowed = redis.command(&["CL.THROTTLE", "ann", "1000", "1000", "1"]).unwrap();
        assert_eq!(allowed.list()[0].int(), Some(0), "{allowed:?}");
        let answer = WebClient::connect(self.gateway()).get("/");
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }

    /// Stops the server in good order.
    pub(super) fn stop(self) {
        let PanickingServer { runtime, server, .. } = self;
        let stopped = async { tokio::time::timeout(STOP_LIMIT, server.stop()).await };
        assert!(runtime.block_on(stopped).is_ok(), "the server does not stop");
    }
}

fn tcp(address: Option<&Address>) -> SocketAddr {
    match address {
        Some(Address::Tcp(address)) => *address,
        other => panic!("no port: {other:?}"),
    }
}
