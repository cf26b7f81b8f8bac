//! Tokens of the RESP door.

use super::RULES;
use super::client::{RespClient, RespReply};
use crate::support::{TestServer, start_with};

const TOKEN: &str = "correct-horse-battery";

fn start_with_token() -> TestServer {
    start_with(RULES, |config| {
        config.data_tokens = Some(format!("ann:{TOKEN}").parse().unwrap());
    })
}

#[test]
fn anonymous_clients_must_authenticate() {
    let server = start_with_token();
    let mut client = RespClient::connect(server.resp());
    let noauth = RespReply::Error("NOAUTH Authentication required.".into());
    for words in ["PING", "CL.THROTTLE k 1 1 1", "TG.LIMIT k 5/s", "TG.CHECK shop", "GET x", "INFO"]
    {
        assert_eq!(client.call_text(words), noauth, "{words}");
    }
    assert!(client.call_text("HELLO 3").error().starts_with("NOAUTH HELLO must be called"));
    for words in ["AUTH wrong", "AUTH bob correct-horse-battery", "AUTH ann wrong"] {
        assert!(client.call_text(words).error().starts_with("WRONGPASS"), "{words}");
    }
    assert_eq!(client.call_text("PING"), noauth);
}

#[test]
fn a_token_authenticates() {
    let server = start_with_token();
    for words in [
        "AUTH TOKEN",
        "AUTH ann TOKEN",
        "AUTH default TOKEN",
        "HELLO 2 AUTH ann TOKEN",
        "HELLO 3 AUTH default TOKEN SETNAME x",
    ] {
        let mut client = RespClient::connect(server.resp());
        let reply = client.call_text(&words.replace("TOKEN", TOKEN));
        assert!(!matches!(reply, RespReply::Error(_)), "{words}: {reply:?}");
        assert_eq!(client.call_text("PING"), RespReply::Simple("PONG".into()));
        assert_eq!(client.call_text("RESET"), RespReply::Simple("RESET".into()));
        assert!(client.call_text("PING").error().starts_with("NOAUTH"));
    }
}

#[test]
fn anonymous_clients_have_small_bounds() {
    let server = start_with_token();
    for bytes in [&b"*11\r\n"[..], b"*2\r\n$5000\r\n"] {
        let mut client = RespClient::connect(server.resp());
        client.send(bytes);
        assert!(client.read().error().starts_with("ERR Protocol error"));
        assert!(client.read_to_end().is_empty());
    }
    // A token does not authorize the commands before it.
    let mut client = RespClient::connect(server.resp());
    client.send(format!("CL.THROTTLE k 0 1 60\r\nAUTH {TOKEN}\r\nCL.THROTTLE k 0 1 60\r\n"));
    assert!(client.read().error().starts_with("NOAUTH"));
    assert_eq!(client.read(), RespReply::ok());
    assert_eq!(client.read().items()[0], RespReply::Int(0));
}
