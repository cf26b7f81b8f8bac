//! Asking a rules service.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::BoolishValueParser;
use serde_json::Value;
use tollgate_server::client::{Answer, Client, Request, address};
use tollgate_server::secret::Secret;

/// What an answer may have: an audit of a thousand lines is far below.
const MAX_BODY: usize = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Which service is asked, and how its answer is shown.
#[derive(Args, Debug)]
pub(crate) struct Service {
    /// The address of the rules service
    #[arg(
        long,
        env = "TOLLGATE_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080"
    )]
    server: String,

    /// The token to present; better set in the environment, where other users cannot see it
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
        let base = self.server.trim_end_matches('/');
        let uri = address(&format!("{base}{}", ask.path))?;
        let client = Client::new(&uri, self.token.as_ref(), TIMEOUT, MAX_BODY)?;
        let mut request = Request::builder().method(ask.method).uri(uri);
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        let request = request.body(ask.body.into())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let answer = runtime.block_on(client.send(request, Duration::ZERO));
        let answer = answer.with_context(|| format!("no answer from {base}"))?;
        let status = answer.status.as_u16();
        if answer.status.is_success() {
            return Ok(Reply::Fine(answer));
        }
        let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let detail = problem["detail"].as_str().unwrap_or("this is not a rules service");
        match status {
            422 => Ok(Reply::Wrong(problem)),
            404 => Ok(Reply::Missing(detail.to_owned())),
            401 => bail!("{detail} (set TOLLGATE_TOKEN; the service has it in its file `tokens`)"),
            _ => bail!("{base} answered {status}: {detail}"),
        }
    }

    /// Asks for JSON that must be there.
    pub(crate) fn read(&self, ask: Ask<'_>) -> anyhow::Result<Value> {
        match self.ask(ask)? {
            Reply::Fine(answer) => {
                serde_json::from_slice(&answer.body).context("the answer cannot be read")
            }
            Reply::Missing(detail) => bail!("{detail}"),
            Reply::Wrong(problem) => bail!("{}", problem["detail"].as_str().unwrap_or_default()),
        }
    }
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
