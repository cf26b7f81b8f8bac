//! WebSockets, spoken by Python's `websockets` on both sides.

use std::net::SocketAddr;

use crate::programs::{Program, client_program, free_port, python};
use crate::support::{OPEN, start_with};

const SCRIPT: &str = "../gateway/scripts/websocket.py";

fn server() -> (Program, SocketAddr) {
    let address: SocketAddr = ([127, 0, 0, 1], free_port()).into();
    let mut command = client_program("python");
    let script = format!("{}/tests/gateway/scripts/websocket.py", env!("CARGO_MANIFEST_DIR"));
    command.arg(script).args(["serve", &address.port().to_string()]);
    (Program::start(&mut command, address), address)
}

#[test]
fn messages_go_both_ways() {
    let (_server, address) = server();
    let gateway = start_with(OPEN, &[&format!("http://{address}")], |_| {});
    let url = format!("ws://{}/chat?room=1", gateway.address());
    assert_eq!(python(SCRIPT, &["talk", &url]).trim(), "talk: fine");
    assert_eq!(gateway.decisions(), 1, "a conversation is one request");
}

#[test]
fn conversations_are_limited() {
    let (_server, address) = server();
    let rules = "rules: [{ name: sockets, per: ip, limit: 2 concurrent lease 1h }]";
    let gateway = start_with(rules, &[&format!("http://{address}")], |_| {});
    let url = format!("ws://{}/chat", gateway.address());
    assert_eq!(python(SCRIPT, &["crowd", &url]).trim(), "crowd: fine");
}
