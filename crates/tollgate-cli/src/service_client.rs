//! A client of a running server or a rules service.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::BoolishValueParser;
use serde_json::Value;
use tokio::runtime::Runtime;
use tollgate_server::client::{Bytes, Client, ClientResponse, Request, Uri, parse_url};
use tollgate_server::rules_service::{Role, Tokens};
use tollgate_server::secret::Secret;

/// The maximum size of a response body; an audit of a thousand entries is far smaller.
const MAX_BODY: usize = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);

/// The server to call, and how its response is printed.
#[derive(Args, Debug)]
pub(crate) struct ServiceClient {
    /// Address of the server
    #[arg(
        long,
        env = "TOLLGATE_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080"
    )]
    server: String,

    /// Token for the server; set it in the environment, where other users cannot see it
    /// [default: for a server on this machine, the token in its data folder]
    #[arg(long, env = "TOLLGATE_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<Secret>,

    /// JSON output, as the server sent it
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

/// The flag of commands whose change can be tried out.
#[derive(Args, Debug)]
pub(crate) struct DryRunArgs {
    /// Report of what would change, without changing anything
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// One request: method, path, headers and body.
#[derive(Debug)]
pub(crate) struct ServiceRequest<'a> {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, &'a str)>,
    body: Vec<u8>,
}

impl<'a> ServiceRequest<'a> {
    pub(crate) fn new(method: &'static str, path: impl Into<String>) -> ServiceRequest<'a> {
        ServiceRequest { method, path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &'a str) -> ServiceRequest<'a> {
        self.headers.push((name, value));
        self
    }

    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> ServiceRequest<'a> {
        ServiceRequest { body: body.into(), ..self }
    }

    pub(crate) fn json(self, body: &Value) -> ServiceRequest<'a> {
        self.body(body.to_string())
    }

    /// Adds query parameters, except those without a value.
    pub(crate) fn query(mut self, parameters: &[(&str, Option<&str>)]) -> ServiceRequest<'a> {
        let given = parameters.iter().filter_map(|(name, value)| Some((name, (*value)?)));
        for (number, (name, value)) in given.enumerate() {
            let mark = if number == 0 { '?' } else { '&' };
            self.path.push_str(&format!("{mark}{name}={}", percent_encode(value)));
        }
        self
    }

    pub(crate) fn dry_run(self, dry_run: &DryRunArgs) -> ServiceRequest<'a> {
        self.query(&[("dry_run", dry_run.dry_run.then_some("true"))])
    }
}

/// Adds the members that have a value to a JSON body.
pub(crate) fn insert_given(body: &mut Value, members: &[(&str, &Option<String>)]) {
    for (name, value) in members {
        if let Some(value) = value {
            body[*name] = Value::from(value.as_str());
        }
    }
}

/// Encodes a text as one segment of a path or one value of a query.
pub(crate) fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(byte.into());
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}

/// Parses `NAME=VALUE`.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE, such as org=acme".to_owned()),
    }
}

/// A response that a command can handle.
#[derive(Debug)]
pub(crate) enum ServiceReply {
    Success(ClientResponse),
    /// The rules are invalid; the problem that the server reports.
    InvalidRules(Value),
    /// The server has no such thing; its explanation.
    NotFound(String),
}

impl ServiceClient {
    /// Sends a request and waits for the response. A failure other than invalid rules or a missing
    /// resource is an error.
    pub(crate) fn send(&self, request: ServiceRequest<'_>) -> anyhow::Result<ServiceReply> {
        let response = self.exchange(request)?;
        if response.status.is_success() {
            return Ok(ServiceReply::Success(response));
        }
        self.failure(response.status.as_u16(), &response.body)
    }

    /// Returns whether a GET request succeeds.
    pub(crate) fn is_success(&self, path: &str) -> anyhow::Result<bool> {
        Ok(self.exchange(ServiceRequest::new("GET", path))?.status.is_success())
    }

    fn exchange(&self, request: ServiceRequest<'_>) -> anyhow::Result<ClientResponse> {
        let (client, request) = self.prepare(request)?;
        let response = runtime()?.block_on(client.send(request, Duration::ZERO));
        response.with_context(|| self.no_response())
    }

    /// Sends a request whose response is a stream, and passes on each chunk until one is refused.
    pub(crate) fn follow(
        &self,
        request: ServiceRequest<'_>,
        mut on_chunk: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (client, request) = self.prepare(request)?;
        runtime()?.block_on(async {
            let no_response = || self.no_response();
            let mut stream = client.open(request).await.with_context(no_response)?;
            if !stream.status.is_success() {
                let body = stream.rest(MAX_BODY).await.with_context(no_response)?;
                return self
                    .failure(stream.status.as_u16(), &body)
                    .and_then(ServiceReply::into_error);
            }
            while let Some(bytes) = stream.next().await.with_context(no_response)? {
                on_chunk(&bytes)?;
            }
            Ok(())
        })
    }

    fn base(&self) -> &str {
        self.server.trim_end_matches('/')
    }

    fn no_response(&self) -> String {
        format!("no response from {}; choose another server with --server", self.base())
    }

    fn prepare(&self, request: ServiceRequest<'_>) -> anyhow::Result<(Client, Request<Bytes>)> {
        let uri = parse_url(&format!("{}{}", self.base(), request.path))?;
        let token = self.token.clone().or_else(|| local_token(&uri));
        let client = Client::new(&uri, token.as_ref(), TIMEOUT, MAX_BODY)?;
        let mut builder = Request::builder().method(request.method).uri(uri);
        for (name, value) in request.headers {
            builder = builder.header(name, value);
        }
        Ok((client, builder.body(request.body.into())?))
    }

    /// Returns what a response that is not a success means.
    fn failure(&self, status: u16, body: &[u8]) -> anyhow::Result<ServiceReply> {
        let problem: Value = serde_json::from_slice(body).unwrap_or_default();
        let detail = problem["detail"].as_str().unwrap_or("this is not a tollgate server");
        match status {
            422 => Ok(ServiceReply::InvalidRules(problem)),
            404 => Ok(ServiceReply::NotFound(detail.to_owned())),
            401 if problem["code"] == "invalid-token" => {
                bail!("{detail} ({})", self.token_origin())
            }
            401 => bail!("{detail} (set TOLLGATE_TOKEN; the server has it in its file `tokens`)"),
            _ => bail!("{} responded with {status}: {detail}", self.base()),
        }
    }

    /// Returns where the token of a request comes from.
    fn token_origin(&self) -> String {
        match self.token {
            Some(_) => "the token is from --token or TOLLGATE_TOKEN".to_owned(),
            None => format!(
                "the token is from {}: set TOLLGATE_DATA to the data folder of the server, or \
                 TOLLGATE_TOKEN",
                local_tokens().display()
            ),
        }
    }

    /// Sends a request and returns the JSON of its response.
    pub(crate) fn fetch_json(&self, request: ServiceRequest<'_>) -> anyhow::Result<Value> {
        match self.send(request)? {
            ServiceReply::Success(response) => {
                serde_json::from_slice(&response.body).context("the response is not JSON")
            }
            other => other.into_error().map(|()| Value::Null),
        }
    }
}

impl ServiceReply {
    /// Returns an error unless the request succeeded.
    fn into_error(self) -> anyhow::Result<()> {
        match self {
            ServiceReply::Success(_) => Ok(()),
            ServiceReply::NotFound(detail) => bail!("{detail}"),
            ServiceReply::InvalidRules(problem) => {
                bail!("{}", problem["detail"].as_str().unwrap_or_default())
            }
        }
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Returns the token of a server on this machine, from its data folder. It is sent to no other host.
fn local_token(to: &Uri) -> Option<Secret> {
    let host = to.host()?.trim_matches(['[', ']']);
    let ip: Option<IpAddr> = host.parse().ok();
    if host != "localhost" && !ip.is_some_and(|ip| ip.is_loopback()) {
        return None;
    }
    let tokens = Tokens::read(&local_tokens()).ok()?;
    tokens.secret_for(Role::Write).cloned()
}

/// Returns the path of the tokens of a server on this machine.
fn local_tokens() -> PathBuf {
    let data = std::env::var_os("TOLLGATE_DATA").map_or_else(crate::data_folder, PathBuf::from);
    data.join("tokens")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_and_parameters_without_a_value_are_omitted() {
        let request = ServiceRequest::new("GET", format!("/v1/lists/{}", percent_encode("a/b c")));
        let request =
            request.query(&[("domain", None), ("entry", Some("10.0.0.0/8")), ("x", Some("é"))]);
        assert_eq!(request.path, "/v1/lists/a%2Fb%20c?entry=10.0.0.0%2F8&x=%C3%A9");
    }
}
