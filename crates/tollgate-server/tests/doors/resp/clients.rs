//! Common Redis clients, unmodified.

use std::io::Write;
use std::process::{Command, Stdio};

use super::RULES;
use super::client::command;
use crate::support::{node, python, start, start_with};

const TOKEN: &str = "correct-horse-battery";

#[test]
fn redis_py_works_in_both_protocol_versions() {
    let server = start(RULES);
    let port = server.resp().port().to_string();
    for protocol in ["2", "3"] {
        assert_eq!(python("resp/clients.py", &[&port, protocol, ""]).trim(), "ok");
    }
}

#[test]
fn redis_py_authenticates() {
    let server = start_with(RULES, |config| {
        config.data_tokens = Some(format!("ann:{TOKEN}").parse().unwrap());
    });
    let port = server.resp().port().to_string();
    for protocol in ["2", "3"] {
        assert_eq!(python("resp/clients.py", &[&port, protocol, TOKEN]).trim(), "ok");
    }
}

#[test]
fn ioredis_and_node_redis_work() {
    for token in ["", TOKEN] {
        let server = start_with(RULES, |config| {
            config.data_tokens =
                (!token.is_empty()).then(|| format!("ann:{token}").parse().unwrap());
        });
        let port = server.resp().port().to_string();
        assert_eq!(node("resp/clients.mjs", &[&port, token]).trim(), "ok");
    }
}

/// Runs redis-cli with the given input and returns its output.
fn redis_cli(port: u16, arguments: &[&str], input: &[u8]) -> String {
    let mut command = Command::new("redis-cli");
    command.args(["-h", "127.0.0.1", "-p", &port.to_string()]).args(arguments);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("redis-cli is installed");
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn redis_cli_works() {
    let server = start(RULES);
    let port = server.resp().port();
    assert_eq!(redis_cli(port, &["CL.THROTTLE", "cli", "1", "1", "60"], b""), "0\n2\n1\n-1\n60\n");
    let limit = ["-3", "--json", "TG.LIMIT", "cli", "10/s burst 20"];
    let json: serde_json::Value = serde_json::from_str(&redis_cli(port, &limit, b"")).unwrap();
    assert_eq!((&json["allowed"], &json["remaining"]), (&true.into(), &19.into()));
    let typed = redis_cli(port, &[], b"ping\nCL.THROTTLE \"a b\" 1 1 60\n");
    assert_eq!(typed, "PONG\n0\n2\n1\n-1\n60\n");
}

#[test]
fn redis_cli_pipes_in_bulk() {
    let server = start(RULES);
    let port = server.resp().port();
    let arrays = command(&["CL.THROTTLE", "bulk", "9", "1", "60"]).repeat(5_000);
    let output = redis_cli(port, &["--pipe"], &arrays);
    assert!(output.contains("errors: 0, replies: 5000"), "{output}");
    let lines = "CL.THROTTLE bulk 9 1 60\r\n".repeat(5_000);
    let output = redis_cli(port, &["--pipe"], lines.as_bytes());
    assert!(output.contains("errors: 0, replies: 5000"), "{output}");
    let left = redis_cli(port, &["CL.THROTTLE", "bulk", "9", "1", "60"], b"");
    assert!(left.starts_with("1\n10\n0\n"), "{left}");
}
