//! Costs that are known only with the answer: tokens of a language model, plain and streamed.

mod bodies;
mod guesses;
mod leaving;
mod tokens;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};
use tollgate_rig::{AfterResponse, Message, Upstream, WebClient};

use crate::support::Gateway;

/// A hundred tokens that come back at less than one a day.
const RULES: &str = "
rules:
  - name: tokens
    route: POST /v1/chat
    cost:
      reserve: body.max_tokens
      settle: response.body.usage.total_tokens
    limit: 100 tokens/year
";

/// A model: it uses as many tokens as it is told to, and answers when the gate is open.
struct Model {
    upstream: Upstream,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    moved: Condvar,
}

impl Gate {
    fn set(&self, open: bool) {
        *self.is_open.lock().unwrap() = open;
        self.moved.notify_all();
    }

    fn pass(&self) {
        let open = self.is_open.lock().unwrap();
        let passed = self.moved.wait_timeout_while(open, crate::DEADLINE, |open| !*open).unwrap();
        assert!(!passed.1.timed_out(), "the gate is opened");
    }
}

impl Model {
    fn start() -> Model {
        let gate = Arc::new(Gate::default());
        let at_gate = gate.clone();
        let upstream =
            Upstream::answering(move |request, stream| answer(request, stream, &at_gate));
        Model { upstream, gate }
    }

    /// What the requests it has seen use, in all.
    fn used(&self) -> u64 {
        self.upstream.requests().iter().map(|request| asked(request)["use"].as_u64().unwrap()).sum()
    }
}

fn asked(request: &Message) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

fn usage(tokens: &Value) -> Value {
    json!({ "usage": { "prompt_tokens": 1, "total_tokens": tokens } })
}

fn answer(request: &Message, stream: &mut TcpStream, gate: &Gate) -> AfterResponse {
    let asked = asked(request);
    let sent = match asked["stream"] == true {
        false => {
            gate.pass();
            let body = usage(&asked["use"]).to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
            stream
                .write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())
        }
        true => streamed(&asked, stream, gate),
    };
    match sent {
        Ok(()) => AfterResponse::Keep,
        Err(_) => AfterResponse::Close,
    }
}

/// As OpenAI streams with `stream_options.include_usage`.
fn streamed(asked: &Value, stream: &mut TcpStream, gate: &Gate) -> std::io::Result<()> {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    let mut chunk =
        |text: &str| stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
    chunk("data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}],\"usage\":null}\n\n")?;
    gate.pass();
    if asked["dies"] == true {
        return Err(std::io::ErrorKind::BrokenPipe.into());
    }
    let last = format!("data: {}\n\n", usage(&asked["use"]));
    let (one, other) = last.split_at(20);
    chunk(one)?;
    chunk(other)?;
    chunk("data: [DONE]\n\n")?;
    stream.write_all(b"0\r\n\r\n")
}

/// Asks for an answer of at most `max` tokens that will use `used`.
fn chat(address: SocketAddr, max: u64, used: u64, stream: bool) -> Message {
    let body = json!({ "max_tokens": max, "use": used, "stream": stream });
    post(address, &body.to_string())
}

fn post(address: SocketAddr, body: &str) -> Message {
    let headers = [("content-type", "application/json")];
    WebClient::connect(address).send("POST", "/v1/chat", &headers, body)
}

/// How many charges were settled so.
fn settled(gateway: &Gateway, rule: &str, outcome: &str) -> usize {
    let labels = format!("domain=\"default\",rule=\"{rule}\",outcome=\"{outcome}\"");
    gateway.metric(&format!("tollgate_settled_total{{{labels}}}"))
}

/// How many were settled in any way.
fn all_settled(gateway: &Gateway, rule: &str) -> usize {
    let outcomes = ["refunded", "overrun", "exact", "kept", "expired"];
    outcomes.into_iter().map(|outcome| settled(gateway, rule, outcome)).sum()
}

/// What is left of the hundred.
fn left(gateway: &Gateway) -> u64 {
    let body = json!({ "attributes": { "route": "POST /v1/chat" } }).to_string();
    let headers = [("content-type", "application/json")];
    let mut http = WebClient::connect(gateway.http());
    let answer = http.send("POST", "/v1/peek", &headers, &body).text();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    answer["limits"][0]["remaining"].as_u64().unwrap_or_else(|| panic!("{answer}"))
}
