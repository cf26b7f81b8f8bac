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

#[test]
fn a_reset_needs_the_role_write() {
    let server = start_with(RULES, |_| {});
    let mut client = RespClient::connect(server.resp());
    client.call_text("TG.LIMIT k 1/h");
    let refused = client.call_text("TG.RESET k 1/h");
    assert!(refused.error().starts_with("NOPERM this needs a token with the role `write`"));
    assert_eq!(client.call_text("TG.LIMIT k 1/h").field("allowed"), &RespReply::Int(0));
    assert!(client.call_text("AUTH not-the-right-token").error().starts_with("ERR AUTH"));
    assert_eq!(client.call(&["AUTH", &server.admin_token()]), RespReply::ok());
    assert_eq!(client.call_text("TG.RESET k 1/h").field("remaining"), &RespReply::Int(1));
    assert_eq!(client.call_text("TG.LIMIT k 1/h").field("allowed"), &RespReply::Int(1));
}

#[test]
fn the_roles_of_tokens_are_enforced() {
    let tokens = "app:decide-0123456789\nboard:read-0123456789ab:read\nops:write-0123456789a:write";
    let server = start_with(RULES, |config| config.data_tokens = Some(tokens.parse().unwrap()));
    // Whether each token may decide, peek, reset and refund.
    for (token, may) in [
        ("decide-0123456789", [true, true, false, false]),
        ("read-0123456789ab", [false, true, false, false]),
        ("write-0123456789a", [true, true, true, true]),
    ] {
        let mut client = RespClient::connect(server.resp());
        assert_eq!(client.call(&["AUTH", token]), RespReply::ok());
        for (commands, may) in [
            (&["TG.LIMIT k 9/h", "CL.THROTTLE k 9 9 60", "TG.CHECK shop route GET"][..], may[0]),
            (&["TG.PEEK k 9/h"], may[1]),
            (&["TG.RESET k 9/h"], may[2]),
            (&["CL.THROTTLE k 9 9 60 -1"], may[3]),
        ] {
            for command in commands {
                // The second time the limit is cached.
                for _ in 0..2 {
                    let reply = client.call_text(command);
                    let refused = matches!(&reply, RespReply::Error(e) if e.starts_with("NOPERM"));
                    assert_eq!(refused, !may, "{token} {command}: {reply:?}");
                }
            }
        }
    }
}

#[test]
fn a_reload_revokes_tokens_of_open_connections() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    std::fs::write(&path, "ann:first-0123456789").unwrap();
    let tokens = tollgate_server::access::Tokens::read(&path).unwrap();
    let server = start_with(RULES, |config| config.data_tokens = Some(tokens));
    let mut client = RespClient::connect(server.resp());
    assert_eq!(client.call_text("AUTH first-0123456789"), RespReply::ok());
    std::fs::write(&path, "no token at all").unwrap();
    server.reload();
    assert_eq!(client.call_text("PING"), RespReply::Simple("PONG".into()), "the old ones stay");
    std::fs::write(&path, "ann:second-0123456789").unwrap();
    server.reload();
    assert!(client.call_text("CL.THROTTLE k 1 1 1").error().starts_with("NOAUTH"));
    assert!(client.call_text("AUTH first-0123456789").error().starts_with("WRONGPASS"));
    assert_eq!(client.call_text("AUTH second-0123456789"), RespReply::ok());
}
