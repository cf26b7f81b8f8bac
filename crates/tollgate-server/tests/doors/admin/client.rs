//! Asks a server by HTTP, with or without a token.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tollgate_server::client::{Client, Request, Uri};
use tollgate_server::secret::Secret;

use crate::support::{DEADLINE, Running};

/// Somebody with a token, or without.
pub(super) struct Operator {
    runtime: Runtime,
    client: Client,
    address: SocketAddr,
}

/// A status and what came with it.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl Operator {
    pub(super) fn new(address: SocketAddr, token: Option<&str>) -> Operator {
        let uri: Uri = format!("http://{address}/").parse().unwrap();
        let token = token.map(|token| Secret::new(token).unwrap());
        let client = Client::new(&uri, token.as_ref(), DEADLINE, 16 << 20).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Operator { runtime, client, address }
    }

    /// Who may do everything.
    pub(super) fn of(server: &Running) -> Operator {
        Operator::new(server.http(), Some(&server.admin_token()))
    }

    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request =
            Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.to_owned().into()).unwrap();
        let answer = self.runtime.block_on(self.client.send(request, Duration::ZERO)).unwrap();
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        Answer { status: answer.status.as_u16(), text }
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "", &[])
    }

    pub(super) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, "", &[])
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.send("POST", path, &body.to_string(), &json)
    }

    /// Asks for a decision about a user.
    pub(super) fn check(&self, user: &str) -> Value {
        let answer = self.post("/v1/check", &json!({ "attributes": { "user": user } }));
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    }

    /// Whether a user passes.
    pub(super) fn passes(&self, user: &str) -> bool {
        self.check(user)["allowed"].as_bool().unwrap()
    }
}
