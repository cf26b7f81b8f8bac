//! The server under test and the programs that use it.

mod programs;

pub(crate) use programs::{
    Program, client_program, components, free_port, node, node_in, python, python_in,
    server_program,
};

use std::net::SocketAddr;
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate_server::net::{Address, Bind};
use tollgate_server::sources::Origin;
use tollgate_server::{Config, Server};

/// The maximum time of any step of a test.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A server in this process, with every door on a free port; it stops when dropped.
pub(crate) struct TestServer {
    runtime: Runtime,
    server: Option<Server>,
    folder: tempfile::TempDir,
}

/// Starts a server with the given rules.
pub(crate) fn start(rules: &str) -> TestServer {
    start_with(rules, |_| {})
}

/// Starts a server with the given rules and configuration.
pub(crate) fn start_with(rules: &str, set_up: impl FnOnce(&mut Config)) -> TestServer {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, rules).unwrap();
    let any = || Some(Bind::plain("127.0.0.1:0".parse().unwrap()));
    let mut config = Config::default();
    (config.http, config.grpc, config.resp) = (any(), any(), any());
    config.rules = Some(Origin::path(&path));
    config.drain.notice = Duration::ZERO;
    set_up(&mut config);
    let runtime = Runtime::new().unwrap();
    let server = Some(runtime.block_on(Server::start(config)).unwrap());
    TestServer { runtime, server, folder }
}

impl TestServer {
    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn http(&self) -> SocketAddr {
        tcp(self.server().addresses().http.as_ref())
    }

    pub(crate) fn grpc(&self) -> SocketAddr {
        tcp(self.server().addresses().grpc.as_ref())
    }

    pub(crate) fn resp(&self) -> SocketAddr {
        tcp(self.server().addresses().resp.as_ref())
    }

    pub(crate) fn admin(&self) -> SocketAddr {
        tcp(self.server().addresses().admin.as_ref())
    }

    /// Returns a token for the admin API.
    pub(crate) fn admin_token(&self) -> String {
        self.server().admin_token().unwrap().reveal().to_owned()
    }

    /// Replaces the rules file and makes the server reload it.
    pub(crate) fn write_rules(&self, rules: &str) {
        std::fs::write(self.folder.path().join("rules.yaml"), rules).unwrap();
        self.server().reload();
    }

    /// Makes the server read its files again, as SIGHUP does.
    pub(crate) fn reload(&self) {
        self.server().reload();
    }

    /// Runs a future on the runtime of the server.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Shuts the server down gracefully.
    pub(crate) fn stop(mut self) {
        let server = self.server.take().unwrap();
        self.runtime.block_on(server.stop());
    }
}

fn tcp(address: Option<&Address>) -> SocketAddr {
    match address {
        Some(Address::Tcp(address)) => *address,
        other => panic!("no port: {other:?}"),
    }
}
