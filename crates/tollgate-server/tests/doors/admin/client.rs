//! A client of the admin API, with or without a token.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tollgate_server::client::{Client, Request, Uri};
use tollgate_server::secret::Secret;

use crate::support::{DEADLINE, TestServer};

/// A client of the admin API.
pub(super) struct AdminClient {
    runtime: Runtime,
    client: Client,
    address: SocketAddr,
}

/// A response: the status and the body.
#[derive(Debug)]
pub(super) struct AdminResponse {
    pub(super) status: u16,
    pub(super) text: String,
}

impl AdminResponse {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl AdminClient {
    pub(super) fn new(address: SocketAddr, token: Option<&str>) -> AdminClient {
        let uri: Uri = format!("http://{address}/").parse().unwrap();
        let token = token.map(|token| Secret::new(token).unwrap());
        let client = Client::new(&uri, token.as_ref(), DEADLINE, 16 << 20).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        AdminClient { runtime, client, address }
    }

    /// Returns a client with a token that permits every call.
    pub(super) fn with_all_rights(server: &TestServer) -> AdminClient {
        AdminClient::new(server.http(), Some(&server.admin_token()))
    }

    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> AdminResponse {
        let mut request =
            Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.to_owned().into()).unwrap();
        let response = self.runtime.block_on(self.client.send(request, Duration::ZERO)).unwrap();
        let text = String::from_utf8(response.body.to_vec()).unwrap();
        AdminResponse { status: response.status.as_u16(), text }
    }

    pub(super) fn get(&self, path: &str) -> AdminResponse {
        self.send("GET", path, "", &[])
    }

    pub(super) fn delete(&self, path: &str) -> AdminResponse {
        self.send("DELETE", path, "", &[])
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> AdminResponse {
        let json = [("content-type", "application/json")];
        self.send("POST", path, &body.to_string(), &json)
    }

    /// Requests a decision about a user.
    pub(super) fn check(&self, user: &str) -> Value {
        let response = self.post("/v1/check", &json!({ "attributes": { "user": user } }));
        assert_eq!(response.status, 200, "{}", response.text);
        response.json()
    }

    /// Returns whether a request of the user is allowed.
    pub(super) fn passes(&self, user: &str) -> bool {
        self.check(user)["allowed"].as_bool().unwrap()
    }
}
