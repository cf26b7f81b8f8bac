//! A rules service on a free port, someone who asks it, and patience with an end.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tollgate_server::client::{Answer, Client, Request, address};
use tollgate_server::rules_service::{Options, Role, RulesService};
use tollgate_server::secret::Secret;

/// How long anything may take before a test gives up: the machine may be busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Rules of the domain `shop` with one limit on everybody.
pub(crate) fn shop(limit: &str) -> String {
    format!("domain: shop\nrules:\n  - {{ name: api, limit: {limit} }}\n")
}

/// Waits until something is true.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let (_sender, pause) = mpsc::channel::<()>();
    let step = Duration::from_millis(10);
    for _ in 0..DEADLINE.as_millis() / step.as_millis() {
        if holds() {
            return;
        }
        let _ = pause.recv_timeout(step);
    }
    panic!("never came true: {what}");
}

/// A service that runs until it is dropped.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) write: Secret,
    pub(crate) read: Secret,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    pub(crate) fn start(folder: &Path) -> Service {
        Service::with(Options::new(folder), "127.0.0.1:0".parse().unwrap())
    }

    /// The same where one was before.
    pub(crate) fn start_at(folder: &Path, address: SocketAddr) -> Service {
        Service::with(Options::new(folder), address)
    }

    pub(crate) fn with(options: Options, address: SocketAddr) -> Service {
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
        Service { address, write, read, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Asks as somebody who may change things.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        ask(&self.url(path), Some(&self.write), method, headers, body)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[], "")
    }

    /// Puts a rules file, whatever was there.
    pub(crate) fn put(&self, name: &str, text: &str) -> Reply {
        let path = format!("/v1/rules/{name}");
        let reply = match self.get(&path).header("etag") {
            Some(etag) => self.ask("PUT", &path, &[("if-match", &etag)], text),
            None => self.ask("PUT", &path, &[], text),
        };
        assert!(matches!(reply.status, 200 | 201), "{reply:?}");
        reply
    }
}

/// A port that was just given back may still be in somebody's hands for a moment.
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

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().unwrap().join();
    }
}

/// A service in a folder that goes away with it.
pub(crate) fn service() -> (Service, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Service::start(folder.path()), folder)
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    answer: Answer,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.answer.header(name).map(str::to_owned)
    }

    pub(crate) fn etag(&self) -> String {
        self.header("etag").expect("an ETag")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.answer.body.to_vec()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.answer.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// The code of a problem, which every error is.
    pub(crate) fn problem(&self) -> (u16, String) {
        let media_type = self.header("content-type");
        assert_eq!(media_type.as_deref(), Some("application/problem+json"), "{self:?}");
        let body = self.json();
        assert_eq!(body["status"], self.status);
        assert!(!body["detail"].as_str().unwrap().is_empty());
        (self.status, body["code"].as_str().unwrap().to_owned())
    }
}

pub(crate) fn ask(
    url: &str,
    token: Option<&Secret>,
    method: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    let uri = address(url).unwrap();
    let client = Client::new(&uri, token, DEADLINE, 64 << 20).unwrap();
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(body.to_owned().into()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(client.send(request, Duration::ZERO)).unwrap();
    Reply { status: answer.status.as_u16(), answer }
}
