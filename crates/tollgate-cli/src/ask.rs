//! Asking a running server, or a rules service.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::BoolishValueParser;
use serde_json::Value;
use tokio::runtime::Runtime;
use tollgate_server::client::{Answer, Bytes, Client, Request, Uri, address};
use tollgate_server::rules_service::{Role, Tokens};
use tollgate_server::secret::Secret;

/// What an answer may have: an audit of a thousand lines is far below.
const MAX_BODY: usize = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Which service is asked, and how its answer is shown.
#[derive(Args, Debug)]
pub(crate) struct Service {
    /// The address of the server
    #[arg(
        long,
        env = "TOLLGATE_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080"
    )]
    server: String,

    /// The token to present; better set in the environment, where other users cannot see it. A
    /// server on this machine is shown the one in its data folder, if it can be read
    #[arg(long, env = "TOLLGATE_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<Secret>,

    /// Answer in JSON, as the service did
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

/// A change that may be tried out.
#[derive(Args, Debug)]
pub(crate) struct DryRun {
    /// Say what would change, and change nothing
    #[arg(long, env = "TOLLGATE_DRY_RUN", value_parser = BoolishValueParser::new())]
    pub(crate) dry_run: bool,
}

/// One question: a method, a path, and what comes along.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, &'a str)>,
    body: Vec<u8>,
}

impl<'a> Ask<'a> {
    pub(crate) fn new(method: &'static str, path: impl Into<String>) -> Ask<'a> {
        Ask { method, path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &'a str) -> Ask<'a> {
        self.headers.push((name, value));
        self
    }

    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> Ask<'a> {
        Ask { body: body.into(), ..self }
    }

    pub(crate) fn json(self, body: &Value) -> Ask<'a> {
        self.body(body.to_string())
    }

    /// Adds parameters, leaving out those without a value.
    pub(crate) fn query(mut self, parameters: &[(&str, Option<&str>)]) -> Ask<'a> {
        let given = parameters.iter().filter_map(|(name, value)| Some((name, (*value)?)));
        for (number, (name, value)) in given.enumerate() {
            let mark = if number == 0 { '?' } else { '&' };
            self.path.push_str(&format!("{mark}{name}={}", segment(value)));
        }
        self
    }

    pub(crate) fn dry_run(self, dry_run: &DryRun) -> Ask<'a> {
        self.query(&[("dry_run", dry_run.dry_run.then_some("true"))])
    }
}

/// Adds the members that were given to a body.
pub(crate) fn give(body: &mut Value, members: &[(&str, &Option<String>)]) {
    for (name, value) in members {
        if let Some(value) = value {
            body[*name] = Value::from(value.as_str());
        }
    }
}

/// A text as one part of a path or of a query.
pub(crate) fn segment(text: &str) -> String {
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

/// An attribute and its value.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE, such as org=acme".to_owned()),
    }
}

/// What the service said, if it was not an error.
#[derive(Debug)]
pub(crate) enum Reply {
    Fine(Answer),
    /// The rules are wrong: what the service says of them.
    Wrong(Value),
    /// There is none.
    Missing(String),
}

impl Service {
    /// Asks, and waits for the answer. What is neither fine nor about the rules is an error.
    pub(crate) fn ask(&self, ask: Ask<'_>) -> anyhow::Result<Reply> {
        let answer = self.send(ask)?;
        if answer.status.is_success() {
            return Ok(Reply::Fine(answer));
        }
        self.refused(answer.status.as_u16(), &answer.body)
    }

    /// Whether there is a good answer at a path, whatever it says.
    pub(crate) fn is_fine(&self, path: &str) -> anyhow::Result<bool> {
        Ok(self.send(Ask::new("GET", path))?.status.is_success())
    }

    fn send(&self, ask: Ask<'_>) -> anyhow::Result<Answer> {
        let (client, request) = self.request(ask)?;
        let answer = runtime()?.block_on(client.send(request, Duration::ZERO));
        answer.with_context(|| format!("no answer from {}", self.base()))
    }

    /// Asks for an answer that goes on and on, and hands over its pieces as they come, until
    /// somebody has enough.
    pub(crate) fn follow(
        &self,
        ask: Ask<'_>,
        mut piece: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (client, request) = self.request(ask)?;
        runtime()?.block_on(async {
            let lost = || format!("no answer from {}", self.base());
            let mut stream = client.open(request).await.with_context(lost)?;
            if !stream.status.is_success() {
                let body = stream.rest(MAX_BODY).await.with_context(lost)?;
                return self.refused(stream.status.as_u16(), &body).and_then(Reply::expected);
            }
            while let Some(bytes) = stream.next().await.with_context(lost)? {
                piece(&bytes)?;
            }
            Ok(())
        })
    }

    fn base(&self) -> &str {
        self.server.trim_end_matches('/')
    }

    fn request(&self, ask: Ask<'_>) -> anyhow::Result<(Client, Request<Bytes>)> {
        let uri = address(&format!("{}{}", self.base(), ask.path))?;
        let token = self.token.clone().or_else(|| token_at_hand(&uri));
        let client = Client::new(&uri, token.as_ref(), TIMEOUT, MAX_BODY)?;
        let mut request = Request::builder().method(ask.method).uri(uri);
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        Ok((client, request.body(ask.body.into())?))
    }

    fn refused(&self, status: u16, body: &[u8]) -> anyhow::Result<Reply> {
        let problem: Value = serde_json::from_slice(body).unwrap_or_default();
        let detail = problem["detail"].as_str().unwrap_or("this is not a tollgate server");
        match status {
            422 => Ok(Reply::Wrong(problem)),
            404 => Ok(Reply::Missing(detail.to_owned())),
            401 => bail!("{detail} (set TOLLGATE_TOKEN; the server has it in its file `tokens`)"),
            _ => bail!("{} answered {status}: {detail}", self.base()),
        }
    }

    /// Asks for JSON that must be there.
    pub(crate) fn read(&self, ask: Ask<'_>) -> anyhow::Result<Value> {
        match self.ask(ask)? {
            Reply::Fine(answer) => {
                serde_json::from_slice(&answer.body).context("the answer cannot be read")
            }
            other => other.expected().map(|()| Value::Null),
        }
    }
}

impl Reply {
    /// Whatever is not fine is an error.
    fn expected(self) -> anyhow::Result<()> {
        match self {
            Reply::Fine(_) => Ok(()),
            Reply::Missing(detail) => bail!("{detail}"),
            Reply::Wrong(problem) => bail!("{}", problem["detail"].as_str().unwrap_or_default()),
        }
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// The token of a server on this machine, from its data folder. It is shown to nobody else.
fn token_at_hand(to: &Uri) -> Option<Secret> {
    let host = to.host()?.trim_matches(['[', ']']);
    let ip: Option<IpAddr> = host.parse().ok();
    if host != "localhost" && !ip.is_some_and(|ip| ip.is_loopback()) {
        return None;
    }
    let data = std::env::var_os("TOLLGATE_DATA").map_or_else(crate::data_folder, PathBuf::from);
    let tokens = Tokens::read(&data.join("tokens")).ok()?;
    tokens.secret_for(Role::Write).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_and_empty_parameters_left_out() {
        let ask = Ask::new("GET", format!("/v1/lists/{}", segment("a/b c")));
        let ask = ask.query(&[("domain", None), ("entry", Some("10.0.0.0/8")), ("x", Some("é"))]);
        assert_eq!(ask.path, "/v1/lists/a%2Fb%20c?entry=10.0.0.0%2F8&x=%C3%A9");
    }
}
