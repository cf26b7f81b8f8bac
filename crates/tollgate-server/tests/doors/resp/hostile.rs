//! Hostile bytes.

use super::RULES;
use super::client::{RespClient, RespReply, command};
use crate::support::start;

#[test]
fn invalid_bytes_get_an_error_and_close_the_connection() {
    let server = start(RULES);
    for (bytes, message) in [
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
        let mut client = RespClient::connect(server.resp());
        client.send("PING\r\n");
        client.send(bytes);
        assert_eq!(client.read(), RespReply::Simple("PONG".into()));
        let error = client.read();
        assert!(error.error().starts_with("ERR Protocol error: "), "{error:?}");
        assert!(error.error().contains(message), "{error:?}");
        assert!(client.read_to_end().is_empty());
    }
}

#[test]
fn commands_may_come_byte_by_byte() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    for byte in command(&["CL.THROTTLE", "slow", "4", "1", "60"]) {
        client.send([byte]);
    }
    assert_eq!(client.read(), RespReply::ints(&[0, 5, 4, -1, 60]));
}

#[test]
fn keys_are_arbitrary_bytes() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
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
        assert_eq!(client.call(&arguments).items()[0], RespReply::Int(0), "{key:?}");
        assert_eq!(client.call(&arguments).items()[0], RespReply::Int(1), "{key:?}");
    }
    let long = "k".repeat(60_000);
    assert_eq!(client.call(&["CL.THROTTLE", &long, "0", "1", "60"]).items()[0], RespReply::Int(0));
    // An error quotes the client's bytes without control characters.
    let reply = client.call(&["\x1b[31mX\r\n+OK", &"y".repeat(50_000)]);
    assert!(reply.error().starts_with("ERR unknown command ' [31mX  +OK'"), "{reply:?}");
    assert!(reply.error().len() < 600);
    assert_eq!(client.call_text("PING"), RespReply::Simple("PONG".into()));
}

#[test]
fn similar_arguments_are_different_limits() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    assert_eq!(client.call_text("CL.THROTTLE k 4 1 60").items()[0], RespReply::Int(0));
    for arguments in
        [["4\r\n$1\r\n1", "60", "60"], ["4", "1\r\n$2\r\n60", "60"], ["4 1", "60", "60"]]
    {
        let [burst, count, period] = arguments;
        let reply = client.call(&["CL.THROTTLE", "k", burst, count, period]);
        assert!(reply.error().contains("Couldn't parse as integer"), "{reply:?}");
    }
}

#[test]
fn http_requests_close_the_connection() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    client.send("POST / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n\r\nCL.THROTTLE victim 0 1 3600\r\n");
    assert!(client.read_to_end().is_empty());
    let mut get = RespClient::connect(server.resp());
    get.send("GET / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n\r\nCL.THROTTLE victim 0 1 3600\r\n");
    let reply = String::from_utf8_lossy(&get.read_to_end()).into_owned();
    assert!(reply.starts_with("-ERR wrong number of arguments for 'get' command"), "{reply}");
    assert_eq!(reply.lines().count(), 1, "{reply}");
    let mut honest = RespClient::connect(server.resp());
    assert_eq!(honest.call_text("CL.THROTTLE victim 0 1 3600").items()[0], RespReply::Int(0));
}

/// Returns the memory of this process, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    1_024 * line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
}

#[test]
fn announced_lengths_allocate_nothing() {
    let server = start(RULES);
    let mut clients: Vec<_> = (0..300).map(|_| RespClient::connect(server.resp())).collect();
    for client in &mut clients {
        assert_eq!(client.call_text("PING"), RespReply::Simple("PONG".into()));
    }
    let before = memory();
    // Each client announces the maximum and sends next to nothing.
    for client in &mut clients {
        client.send("*1024\r\n$60000\r\nx");
    }
    for client in &mut clients[..150] {
        client.send("\r\n");
    }
    let mut honest = RespClient::connect(server.resp());
    assert_eq!(honest.call_text("PING"), RespReply::Simple("PONG".into()));
    let grown = memory().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes for announced lengths");
}
