//! A rules service on a free port, a client for it, and waiting with a deadline.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tollgate_server::client::{Client, ClientResponse, Request, parse_url};
use tollgate_server::rules_service::{Role, RulesService, RulesServiceOptions};
use tollgate_server::secret::Secret;

/// The maximum time of any step of a test, long enough for a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Returns rules of the domain `shop` with one limit for all requests.
pub(crate) fn shop(limit: &str) -> String {
    format!("domain: shop\nrules:\n  - {{ name: api, limit: {limit} }}\n")
}

/// Waits until a condition is met.
pub(crate) fn until(what: &str, is_met: impl Fn() -> bool) {
    let (_sender, pause) = mpsc::channel::<()>();
    let step = Duration::from_millis(10);
    for _ in 0..DEADLINE.as_millis() / step.as_millis() {
        if is_met() {
            return;
        }
        let _ = pause.recv_timeout(step);
    }
    panic!("not in time: {what}");
}

/// A service that runs until it is dropped.
pub(crate) struct TestService {
    pub(crate) address: SocketAddr,
    pub(crate) write: Secret,
    pub(crate) read: Secret,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TestService {
    pub(crate) fn start(folder: &Path) -> TestService {
        TestService::with(RulesServiceOptions::new(folder), "127.0.0.1:0".parse().unwrap())
    }

    /// Starts a service at the given address.
    pub(crate) fn start_at(folder: &Path, address: SocketAddr) -> TestService {
        TestService::with(RulesServiceOptions::new(folder), address)
    }

    pub(crate) fn with(options: RulesServiceOptions, address: SocketAddr) -> TestService {
        let service = RulesService::open(options).unwrap();
        let secret = |role| service.tokens().secret_for(role).unwrap().clone();
        let (write, read) = (secret(Role::Write), secret(Role::Read));
        let (stop, stopped) = oneshot::channel::<()>();
        let (started, address_of) = mpsc::channel();
        let thread = thread::spawn(move || {
            Runtime::new().unwrap().block_on(async {
                let listener = bind(address).await;
                started.send(listener.local_addr().unwrap()).unwrap();
                let stop = async { drop(stopped.await) };
                service.serve(listener, stop).await.unwrap();
            });
        });
        let address = address_of.recv().unwrap();
        TestService { address, write, read, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends a request with the write token.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> ServiceResponse {
        send(&self.url(path), Some(&self.write), method, headers, body)
    }

    pub(crate) fn get(&self, path: &str) -> ServiceResponse {
        self.send("GET", path, &[], "")
    }

    /// Creates or replaces a rules file.
    pub(crate) fn put(&self, name: &str, text: &str) -> ServiceResponse {
        let path = format!("/v1/rules/{name}");
        let reply = match self.get(&path).header("etag") {
            Some(etag) => self.send("PUT", &path, &[("if-match", &etag)], text),
            None => self.send("PUT", &path, &[], text),
        };
        assert!(matches!(reply.status, 200 | 201), "{reply:?}");
        reply
    }
}

/// Binds an address; retries, because a port that was just released may still be taken.
async fn bind(address: SocketAddr) -> tokio::net::TcpListener {
    let mut tries = 0;
    loop {
        match tokio::net::TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) if tries > 1000 => panic!("{address}: {error}"),
            Err(_) => tries += 1,
        }
        tokio::task::yield_now().await;
    }
}

impl Drop for TestService {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().unwrap().join();
    }
}

/// Starts a service with its data in a temporary folder.
pub(crate) fn service() -> (TestService, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (TestService::start(folder.path()), folder)
}

/// A response of the service.
#[derive(Debug)]
pub(crate) struct ServiceResponse {
    pub(crate) status: u16,
    response: ClientResponse,
}

impl ServiceResponse {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.response.header(name).map(str::to_owned)
    }

    pub(crate) fn etag(&self) -> String {
        self.header("etag").expect("an ETag")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.response.body.to_vec()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.response.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Returns the status and the code of a problem document.
    pub(crate) fn problem(&self) -> (u16, String) {
        let media_type = self.header("content-type");
        assert_eq!(media_type.as_deref(), Some("application/problem+json"), "{self:?}");
        let body = self.json();
        assert_eq!(body["status"], self.status);
        assert!(!body["detail"].as_str().unwrap().is_empty());
        (self.status, body["code"].as_str().unwrap().to_owned())
    }
}

pub(crate) fn send(
    url: &str,
    token: Option<&Secret>,
    method: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> ServiceResponse {
    let uri = parse_url(url).unwrap();
    let client = Client::new(&uri, token, DEADLINE, 64 << 20).unwrap();
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(body.to_owned().into()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let response = runtime.block_on(client.send(request, Duration::ZERO)).unwrap();
    ServiceResponse { status: response.status.as_u16(), response }
}
