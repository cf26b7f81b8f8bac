//! Bytes that no client sends by accident.

use super::RULES;
use super::wire::{Client, Reply, command};
use crate::support::start;

#[test]
fn nonsense_is_answered_and_ends() {
    let server = start(RULES);
    for (bytes, says) in [
        (&b"*2000000000\r\n"[..], "invalid multibulk length"),
        (b"*99999999999999999999999\r\n", "invalid multibulk length"),
        (b"*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
        (b"*1\r\n$2000000000\r\n", "invalid bulk length"),
        (b"*1\r\n$-5\r\n", "invalid bulk length"),
        (b"*1\r\n$4\r\nPINGPONG\r\n", "expected CRLF"),
        (b"*1\r\n\x1b[31m\r\n", "expected '$', got '?'"),
        (b"PING \"\r\n", "unbalanced quotes in request"),
        (&[b'x'; 70_000], "too big request"),
    ] {
        let mut client = Client::connect(server.resp());
        client.send("PING\r\n");
        client.send(bytes);
        assert_eq!(client.read(), Reply::Simple("PONG".into()));
        let error = client.read();
        assert!(error.error().starts_with("ERR Protocol error: "), "{error:?}");
        assert!(error.error().contains(says), "{error:?}");
        assert!(client.read_to_end().is_empty());
    }
}

#[test]
fn one_byte_at_a_time() {
    let server = start(RULES);
    let mut client = Client::connect(server.resp());
    for byte in command(&["CL.THROTTLE", "slow", "4", "1", "60"]) {
        client.send([byte]);
    }
    assert_eq!(client.read(), Reply::ints(&[0, 5, 4, -1, 60]));
}

#[test]
fn keys_are_bytes_and_never_mixed_up() {
    let server = start(RULES);
    let mut client = Client::connect(server.resp());
    let keys: [&[u8]; 10] = [
        b"a",
        b"a\0",
        b"a\r\n",
        b"a\r\n$1\r\n1",
        b"\x1b[2J",
        b"<script>",
        b"\xff\xfe",
        b"",
        b"A",
        b"a ",
    ];
    for key in keys {
        let arguments: [&[u8]; 5] = [b"CL.THROTTLE", key, b"0", b"1", b"3600"];
        assert_eq!(client.ask(&arguments).items()[0], Reply::Int(0), "{key:?}");
        assert_eq!(client.ask(&arguments).items()[0], Reply::Int(1), "{key:?}");
    }
    let long = "k".repeat(60_000);
    assert_eq!(client.ask(&["CL.THROTTLE", &long, "0", "1", "60"]).items()[0], Reply::Int(0));
    // An error repeats what was sent, but not what it could do.
    let reply = client.ask(&["\x1b[31mX\r\n+OK", &"y".repeat(50_000)]);
    assert!(reply.error().starts_with("ERR unknown command ' [31mX  +OK'"), "{reply:?}");
    assert!(reply.error().len() < 600);
    assert_eq!(client.say("PING"), Reply::Simple("PONG".into()));
}

#[test]
fn arguments_are_not_mistaken_for_others_that_look_alike() {
    let server = start(RULES);
    let mut client = Client::connect(server.resp());
    assert_eq!(client.say("CL.THROTTLE k 4 1 60").items()[0], Reply::Int(0));
    for arguments in
        [["4\r\n$1\r\n1", "60", "60"], ["4", "1\r\n$2\r\n60", "60"], ["4 1", "60", "60"]]
    {
        let [burst, count, period] = arguments;
        let reply = client.ask(&["CL.THROTTLE", "k", burst, count, period]);
        assert!(reply.error().contains("Couldn't parse as integer"), "{reply:?}");
    }
}

#[test]
fn a_browser_gets_nowhere() {
    let server = start(RULES);
    let mut client = Client::connect(server.resp());
    client.send("POST / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n\r\nCL.THROTTLE victim 0 1 3600\r\n");
    assert!(client.read_to_end().is_empty());
    let mut honest = Client::connect(server.resp());
    assert_eq!(honest.say("CL.THROTTLE victim 0 1 3600").items()[0], Reply::Int(0));
}

/// Memory that this process uses, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    1_024 * line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
}

#[test]
fn promises_cost_nothing() {
    let server = start(RULES);
    let mut clients: Vec<_> = (0..300).map(|_| Client::connect(server.resp())).collect();
    for client in &mut clients {
        assert_eq!(client.say("PING"), Reply::Simple("PONG".into()));
    }
    let before = memory();
    // Each announces as much as is allowed, and sends next to nothing.
    for client in &mut clients {
        client.send("*1024\r\n$60000\r\nx");
    }
    for client in &mut clients[..150] {
        client.send("\r\n");
    }
    let mut honest = Client::connect(server.resp());
    assert_eq!(honest.say("PING"), Reply::Simple("PONG".into()));
    let grown = memory().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes for promises");
}
