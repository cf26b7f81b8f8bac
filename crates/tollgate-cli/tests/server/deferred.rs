//! Deferred requests: a full disk, and the commands of operators.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tollgate_rig::{AfterResponse, Message, Upstream, WebClient};

use crate::process::{Server, until};
use crate::support::folder;

/// The bodies that arrived at an upstream.
type Arrivals = Arc<Mutex<Vec<String>>>;

fn recording() -> (Upstream, Arrivals) {
    let arrivals = Arrivals::default();
    let noted = arrivals.clone();
    let upstream = Upstream::answering(move |request: &Message, stream: &mut TcpStream| {
        noted.lock().unwrap().push(request.text());
        match stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n") {
            Ok(()) => AfterResponse::Keep,
            Err(_) => AfterResponse::Close,
        }
    });
    (upstream, arrivals)
}

/// Posts a request, and returns the status if there was a response.
pub(crate) fn post(address: &str, body: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let length = body.len();
    let head =
        format!("POST /job HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}");
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).ok()?;
    let mut answer = String::new();
    // A killed server closes the connection.
    let _ = std::io::Read::read_to_string(&mut stream, &mut answer);
    answer.get(9..12)?.parse().ok()
}

#[test]
fn a_full_disk_refuses_new_requests_and_loses_none() {
    let (upstream, arrivals) = recording();
    let data = tempfile::tempdir().unwrap();
    let rules = "rules: [{ name: job, route: POST /job, limit: 30/s burst 1, then: defer }]";
    let home = folder(&[("rules.yaml", rules)]);
    // No file may be larger than 1 MiB; with the signal ignored, writing more is an ordinary error.
    let line = format!(
        "trap '' 25; ulimit -S -f 2048; exec {} gateway --json --http 127.0.0.1:0 --listen \
         127.0.0.1:0 --to {} --rules rules.yaml --data {} --defer-body 100000 2>log",
        env!("CARGO_BIN_EXE_tollgate"),
        upstream.url(),
        data.path().display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(home.path()).env_remove("STATE_DIRECTORY");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut message = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut message).unwrap();
    let start_output: Value =
        serde_json::from_str(&message).unwrap_or_else(|error| panic!("{error}: {message}"));
    let address = start_output["gateway"].as_str().unwrap().rsplit("//").next().unwrap().to_owned();
    let server = Ended(child);

    let mut client = WebClient::connect(address.parse().unwrap());
    let mut send = |name: &str| {
        let body = format!("{name}{}", "-".repeat(90_000));
        client.send("POST", "/job", &[], &body)
    };
    let mut accepted = Vec::new();
    let full = loop {
        let name = format!("{}.", accepted.len());
        let answer = send(&name);
        match answer.status() {
            202 => accepted.push(name),
            200 => {}
            _ => break answer,
        }
        assert!(accepted.len() < 2_000, "the disk takes everything");
    };
    assert_eq!(full.status(), 503, "{}", full.text());
    assert!(full.text().contains("this one was not accepted"), "{}", full.text());
    let pid = server.0.id().to_string();
    let raised = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status();
    assert!(raised.unwrap().success());
    until("free disk space", || match send("after.").status() {
        202 => true,
        200 | 503 => false,
        other => panic!("{other}"),
    });
    until("delivery of all that was accepted", || {
        let arrivals = arrivals.lock().unwrap();
        let has = |name: &String| arrivals.iter().any(|body| body.starts_with(name.as_str()));
        accepted.iter().all(has)
    });
}

/// A process that is killed when it is dropped.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn operators_manage_deferred_requests_on_the_command_line() {
    let (upstream, _) = recording();
    let rules = "rules: [{ name: job, route: POST /job, limit: 1/h, then: defer }]";
    let more = ["--to", &upstream.url(), "--rules", "rules.yaml"];
    let server = Server::gateway(folder(&[("rules.yaml", rules)]), &more);
    let deferred = |args: &[&str]| {
        let all: Vec<&str> = ["deferred"].iter().chain(args).copied().collect();
        server.run(&all)
    };
    assert_eq!(deferred(&["list"]), (0, "nothing is deferred\n".to_owned()));
    assert_eq!([(); 2].map(|()| post(server.at("gateway"), "x")), [Some(200), Some(202)]);
    let (code, listed) = deferred(&["list", "--state", "queued", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let id = listed["deferred"][0]["id"].as_str().unwrap();
    assert_eq!((code, &listed["deferred"][0]["target"]), (0, &"/job".into()));
    let (code, shown) = deferred(&["list"]);
    assert!(code == 0 && shown.contains(id) && shown.contains("POST /job"), "{shown}");
    let (code, shown) = deferred(&["show", id]);
    assert!(code == 0 && shown.contains("queued"), "{shown}");
    let (code, refused) = deferred(&["replay", id]);
    assert!(code == 2 && refused.contains("only failed requests"), "{refused}");
    assert_eq!(deferred(&["cancel", id]), (0, format!("{id} is cancelled\n")));
    let (_, all) = deferred(&["list", "--json"]);
    let expires_ms =
        serde_json::from_str::<Value>(&all).unwrap()["deferred"][0]["expires_ms"].clone();
    let expires = jiff::Timestamp::from_millisecond(expires_ms.as_i64().unwrap()).unwrap();
    let expires = expires.strftime("%Y-%m-%d %H:%M:%SZ").to_string();
    for shown in [deferred(&["list"]).1, deferred(&["show", id]).1] {
        assert!(shown.contains("expires") && shown.contains(&expires), "{expires}: {shown}");
    }
    assert_eq!(deferred(&["replay", "--all"]), (0, "sent again: 0 dead letters\n".to_owned()));
    assert_eq!(deferred(&["show", "unknown"]).0, 2);
}
