//! What clients say beside asking for decisions.

use super::RULES;
use super::wire::{Client, Reply};
use crate::support::start;

#[test]
fn small_talk() {
    let server = start(RULES);
    let mut client = Client::connect(server.resp());
    for (words, answer) in [
        ("PING", Reply::Simple("PONG".into())),
        ("ping hello", Reply::bulk("hello")),
        ("Echo hello", Reply::bulk("hello")),
        ("SELECT 0", Reply::ok()),
        ("CLIENT SETINFO LIB-NAME x", Reply::ok()),
        ("CLIENT GETNAME", Reply::Null),
        ("CLIENT SETNAME gate", Reply::ok()),
        ("CLIENT GETNAME", Reply::bulk("gate")),
        ("CLIENT NO-EVICT on", Reply::ok()),
        ("COMMAND COUNT", Reply::Int(15)),
        ("RESET", Reply::Simple("RESET".into())),
        ("CLIENT GETNAME", Reply::Null),
    ] {
        assert_eq!(client.say(words), answer, "{words}");
    }
    for (words, error) in [
        ("SELECT 1", "ERR DB index is out of range"),
        ("SELECT x", "ERR value is not an integer or out of range"),
        ("GET a b", "ERR unknown command 'GET', with args beginning with: 'a' 'b' "),
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
        assert_eq!(client.say(words).error(), error, "{words}");
    }
    assert_eq!(client.say("QUIT"), Reply::ok());
    assert!(client.read_to_end().is_empty());
}

#[test]
fn connections_have_numbers_of_their_own() {
    let server = start(RULES);
    let [one, two] = [(); 2].map(|()| Client::connect(server.resp()).say("CLIENT ID").int());
    assert_ne!(one, two);
}

#[test]
fn hello_chooses_the_version() {
    let server = start(RULES);
    let mut client = Client::connect(server.resp());
    let flat = client.say("HELLO");
    assert_eq!(flat.items().len(), 14);
    assert_eq!(flat.field("proto"), &Reply::Int(2));
    let map = client.say("HELLO 3 SETNAME gate");
    assert!(matches!(map, Reply::Map(_)), "{map:?}");
    assert_eq!(map.field("proto"), &Reply::Int(3));
    assert_eq!(map.field("server"), &Reply::bulk("tollgate"));
    assert_eq!(client.say("CLIENT GETNAME"), Reply::bulk("gate"));
    let decision = client.ask(&["TG.LIMIT", "ann", "5/min"]);
    assert!(matches!(decision, Reply::Map(_)));
    assert_eq!(decision.field("allowed"), &Reply::Bool(true));
    assert_eq!(decision.field("retry_after_ms"), &Reply::Null);
    assert_eq!(client.say("HELLO 2").field("proto"), &Reply::Int(2));
    let decision = client.ask(&["TG.LIMIT", "ann", "5/min"]);
    assert_eq!(decision.items().len(), 16);
    assert_eq!(decision.field("allowed"), &Reply::Int(1));
}

#[test]
fn it_tells_about_itself() {
    let server = start(RULES);
    let mut client = Client::connect(server.resp());
    let Reply::Bulk(info) = client.say("INFO") else { panic!("no text") };
    for line in ["redis_mode:standalone", "loading:0", "connected_clients:1", "tollgate_version:"] {
        assert!(info.contains(line), "{info}");
    }
    let Reply::Bulk(some) = client.say("INFO clients") else { panic!("no text") };
    assert!(some.starts_with("# Clients\r\n") && !some.contains("loading"), "{some}");
    let all = client.say("COMMAND");
    assert_eq!(all.items().len(), 15);
    let found = client.say("COMMAND INFO cl.throttle nothing");
    let [throttle, Reply::Null] = found.items() else { panic!("{found:?}") };
    assert_eq!(throttle.items()[..2], [Reply::bulk("cl.throttle"), Reply::Int(-5)]);
    assert_eq!(throttle.items()[3..6], [Reply::Int(1), Reply::Int(1), Reply::Int(1)]);
    let docs = client.say("COMMAND DOCS TG.CHECK");
    assert!(matches!(docs.field("tg.check").field("summary"), Reply::Bulk(_)));
}

#[test]
fn lines_can_be_typed() {
    let server = start(RULES);
    let mut client = Client::connect(server.resp());
    client.send("\r\nPING\nTG.LIMIT \"a key\" \"3/min burst 5\" COST 2\r\n");
    assert_eq!(client.read(), Reply::Simple("PONG".into()));
    assert_eq!(client.read().field("remaining"), &Reply::Int(3));
    let same = client.ask(&["TG.LIMIT", "a key", "3/min burst 5", "COST", "0"]);
    assert_eq!(same.field("remaining"), &Reply::Int(3));
}
