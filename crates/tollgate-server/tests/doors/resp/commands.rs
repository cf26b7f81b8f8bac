//! Commands that are not decisions.

use super::RULES;
use super::client::{RespClient, RespReply};
use crate::support::start;

#[test]
fn connection_commands_work() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    for (words, reply) in [
        ("PING", RespReply::Simple("PONG".into())),
        ("ping hello", RespReply::bulk("hello")),
        ("Echo hello", RespReply::bulk("hello")),
        ("SELECT 0", RespReply::ok()),
        ("CLIENT SETINFO LIB-NAME x", RespReply::ok()),
        ("CLIENT GETNAME", RespReply::Null),
        ("CLIENT SETNAME gate", RespReply::ok()),
        ("CLIENT GETNAME", RespReply::bulk("gate")),
        ("CLIENT NO-EVICT on", RespReply::ok()),
        ("COMMAND COUNT", RespReply::Int(35)),
        ("RESET", RespReply::Simple("RESET".into())),
        ("CLIENT GETNAME", RespReply::Null),
    ] {
        assert_eq!(client.call_text(words), reply, "{words}");
    }
    for (words, error) in [
        ("SELECT 16", "ERR DB index is out of range"),
        ("SELECT -1", "ERR DB index is out of range"),
        ("SELECT x", "ERR value is not an integer or out of range"),
        ("HGET a b", "ERR unknown command 'HGET', with args beginning with: 'a' 'b' "),
        ("ECHO", "ERR wrong number of arguments for 'echo' command"),
        ("PING a b", "ERR wrong number of arguments for 'ping' command"),
        (
            "AUTH x",
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
        ),
        ("HELLO 4", "NOPROTO unsupported protocol version"),
        ("HELLO x", "ERR Protocol version is not an integer or out of range"),
        ("HELLO 3 SETNAME", "ERR Syntax error in HELLO option 'SETNAME'"),
        ("CLIENT KILL", "ERR unknown subcommand 'KILL'. See COMMAND DOCS CLIENT."),
    ] {
        assert_eq!(client.call_text(words).error(), error, "{words}");
    }
    assert_eq!(client.call_text("QUIT"), RespReply::ok());
    assert!(client.read_to_end().is_empty());
}

#[test]
fn connections_have_unique_ids() {
    let server = start(RULES);
    let [one, two] =
        [(); 2].map(|()| RespClient::connect(server.resp()).call_text("CLIENT ID").int());
    assert_ne!(one, two);
}

#[test]
fn hello_chooses_the_version() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    let flat = client.call_text("HELLO");
    assert_eq!(flat.items().len(), 14);
    assert_eq!(flat.field("proto"), &RespReply::Int(2));
    let map = client.call_text("HELLO 3 SETNAME gate");
    assert!(matches!(map, RespReply::Map(_)), "{map:?}");
    assert_eq!(map.field("proto"), &RespReply::Int(3));
    assert_eq!(map.field("server"), &RespReply::bulk("tollgate"));
    assert_eq!(client.call_text("CLIENT GETNAME"), RespReply::bulk("gate"));
    let decision = client.call(&["TG.LIMIT", "ann", "5/min"]);
    assert!(matches!(decision, RespReply::Map(_)));
    assert_eq!(decision.field("allowed"), &RespReply::Bool(true));
    assert_eq!(decision.field("retry_after_ms"), &RespReply::Null);
    assert_eq!(client.call_text("HELLO 2").field("proto"), &RespReply::Int(2));
    let decision = client.call(&["TG.LIMIT", "ann", "5/min"]);
    assert_eq!(decision.items().len(), 16);
    assert_eq!(decision.field("allowed"), &RespReply::Int(1));
}

#[test]
fn info_and_command_describe_the_server() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    let RespReply::Bulk(info) = client.call_text("INFO") else { panic!("no text") };
    for line in ["redis_mode:standalone", "loading:0", "connected_clients:1", "tollgate_version:"] {
        assert!(info.contains(line), "{info}");
    }
    let RespReply::Bulk(some) = client.call_text("INFO clients") else { panic!("no text") };
    assert!(some.starts_with("# Clients\r\n") && !some.contains("loading"), "{some}");
    let all = client.call_text("COMMAND");
    assert_eq!(all.items().len(), 35);
    let found = client.call_text("COMMAND INFO cl.throttle nothing");
    let [throttle, RespReply::Null] = found.items() else { panic!("{found:?}") };
    assert_eq!(throttle.items()[..2], [RespReply::bulk("cl.throttle"), RespReply::Int(-5)]);
    assert_eq!(throttle.items()[3..6], [RespReply::Int(1), RespReply::Int(1), RespReply::Int(1)]);
    let docs = client.call_text("COMMAND DOCS TG.CHECK");
    assert!(matches!(docs.field("tg.check").field("summary"), RespReply::Bulk(_)));
}

#[test]
fn inline_commands_work() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    client.send("\r\nPING\nTG.LIMIT \"a key\" \"3/min burst 5\" COST 2\r\n");
    assert_eq!(client.read(), RespReply::Simple("PONG".into()));
    assert_eq!(client.read().field("remaining"), &RespReply::Int(3));
    let same = client.call(&["TG.LIMIT", "a key", "3/min burst 5", "COST", "0"]);
    assert_eq!(same.field("remaining"), &RespReply::Int(3));
}
