//! A gateway in this process.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate_rig::{Upstream, WebClient};
use tollgate_server::config::GatewayOptions;
use tollgate_server::net::{Address, Bind};
use tollgate_server::sources::Origin;
use tollgate_server::{Config, Server};

/// Rules under which everything passes.
pub(crate) const OPEN: &str = "rules: [{ name: all, limit: 1000000/s burst 1000000 }]";

/// A gateway, and the HTTP door for its metrics. Stops when dropped.
pub(crate) struct Gateway {
    runtime: Runtime,
    server: Option<Server>,
    folder: tempfile::TempDir,
}

/// A gateway that follows these rules, in front of an upstream.
pub(crate) fn start(rules: &str, upstream: &Upstream) -> Gateway {
    start_with(rules, &[&upstream.url()], |_| {})
}

/// Starts a gateway in front of several upstreams, with other options.
pub(crate) fn start_with(
    rules: &str,
    upstreams: &[&str],
    set_up: impl FnOnce(&mut Config),
) -> Gateway {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, rules).unwrap();
    let any = || Bind::plain("127.0.0.1:0".parse().unwrap());
    let mut config = Config::default();
    (config.http, config.grpc, config.resp) = (Some(any()), None, None);
    config.rules = Some(Origin::path(&path));
    config.drain.notice = Duration::ZERO;
    let upstreams = upstreams.iter().map(|url| url.parse().unwrap()).collect();
    let mut options = GatewayOptions::to(upstreams);
    options.listen = any();
    config.gateway = Some(options);
    set_up(&mut config);
    let runtime = Runtime::new().unwrap();
    let server = Some(runtime.block_on(Server::start(config)).unwrap());
    Gateway { runtime, server, folder }
}

impl Gateway {
    /// Where clients come to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.tcp(|addresses| addresses.gateway.as_ref())
    }

    /// A connection of a client.
    pub(crate) fn connect(&self) -> WebClient {
        WebClient::connect(self.address())
    }

    /// The HTTP door of the same server.
    pub(crate) fn http(&self) -> SocketAddr {
        self.tcp(|addresses| addresses.http.as_ref())
    }

    /// The gRPC door of the same server, if it was given one.
    pub(crate) fn grpc(&self) -> SocketAddr {
        self.tcp(|addresses| addresses.grpc.as_ref())
    }

    /// Asks the admin API; the status and what it says.
    pub(crate) fn admin(&self, method: &str, path: &str) -> (u16, serde_json::Value) {
        let token = self.server.as_ref().unwrap().admin_token().unwrap().reveal().to_owned();
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str())];
        let answer = WebClient::connect(self.http()).send(method, path, &headers, "");
        (answer.status(), serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// What the metrics say.
    pub(crate) fn metrics(&self) -> String {
        WebClient::connect(self.http()).get("/metrics").text()
    }

    /// The value of one series; 0 if there is none yet.
    pub(crate) fn metric(&self, series: &str) -> usize {
        let text = self.metrics();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse::<f64>().unwrap() as usize)
    }

    /// Returns the number of decisions that were made for the gateway.
    pub(crate) fn decisions(&self) -> usize {
        self.metric("tollgate_decision_seconds_count{door=\"gateway\"}")
    }

    /// How many requests were decided, and may still be held back.
    pub(crate) fn decided(&self) -> usize {
        self.decisions() + self.waiting()
    }

    /// How many requests stand in line.
    pub(crate) fn waiting(&self) -> usize {
        let text = self.metrics();
        let depths = text.lines().filter_map(|line| line.strip_prefix("tollgate_queue_depth{"));
        depths.map(|depth| depth.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap()).sum()
    }

    /// How many connections of clients there are.
    pub(crate) fn connections(&self) -> usize {
        self.metric("tollgate_connections{door=\"gateway\"}")
    }

    /// Has the server read its files again.
    pub(crate) fn reload(&self) {
        self.server.as_ref().unwrap().reload();
    }

    /// Replaces the rules file, and has the server look at it.
    pub(crate) fn write_rules(&self, rules: &str) {
        std::fs::write(self.folder.path().join("rules.yaml"), rules).unwrap();
        self.reload();
    }

    /// Runs something on the gateway's runtime.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Has the gateway go down in good order, on a thread of its own; joined, it is down.
    pub(crate) fn stop(mut self) -> std::thread::JoinHandle<()> {
        let server = self.server.take().unwrap();
        std::thread::spawn(move || self.runtime.block_on(server.stop()))
    }

    fn tcp(&self, door: impl Fn(&tollgate_server::Addresses) -> Option<&Address>) -> SocketAddr {
        match door(self.server.as_ref().unwrap().addresses()) {
            Some(Address::Tcp(address)) => *address,
            other => panic!("no port: {other:?}"),
        }
    }
}
