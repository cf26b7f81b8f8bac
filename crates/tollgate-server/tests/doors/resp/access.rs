//! Tokens: nobody asks who has not said who they are.

use super::RULES;
use super::wire::{Client, Reply};
use crate::support::{Running, start_with};

const TOKEN: &str = "correct-horse-battery";

fn guarded() -> Running {
    start_with(RULES, |config| {
        config.data_tokens = Some(format!("ann:{TOKEN}").parse().unwrap());
    })
}

#[test]
fn strangers_are_told_to_say_who_they_are() {
    let server = guarded();
    let mut client = Client::connect(server.resp());
    let noauth = Reply::Error("NOAUTH Authentication required.".into());
    for words in ["PING", "CL.THROTTLE k 1 1 1", "TG.LIMIT k 5/s", "TG.CHECK shop", "GET x", "INFO"]
    {
        assert_eq!(client.say(words), noauth, "{words}");
    }
    assert!(client.say("HELLO 3").error().starts_with("NOAUTH HELLO must be called"));
    for words in ["AUTH wrong", "AUTH bob correct-horse-battery", "AUTH ann wrong"] {
        assert!(client.say(words).error().starts_with("WRONGPASS"), "{words}");
    }
    assert_eq!(client.say("PING"), noauth);
}

#[test]
fn a_token_lets_in() {
    let server = guarded();
    for words in [
        "AUTH TOKEN",
        "AUTH ann TOKEN",
        "AUTH default TOKEN",
        "HELLO 2 AUTH ann TOKEN",
        "HELLO 3 AUTH default TOKEN SETNAME x",
    ] {
        let mut client = Client::connect(server.resp());
        let reply = client.say(&words.replace("TOKEN", TOKEN));
        assert!(!matches!(reply, Reply::Error(_)), "{words}: {reply:?}");
        assert_eq!(client.say("PING"), Reply::Simple("PONG".into()));
        assert_eq!(client.say("RESET"), Reply::Simple("RESET".into()));
        assert!(client.say("PING").error().starts_with("NOAUTH"));
    }
}

#[test]
fn strangers_may_not_send_much() {
    let server = guarded();
    for bytes in [&b"*11\r\n"[..], b"*2\r\n$5000\r\n"] {
        let mut client = Client::connect(server.resp());
        client.send(bytes);
        assert!(client.read().error().starts_with("ERR Protocol error"));
        assert!(client.read_to_end().is_empty());
    }
    // Nothing of what is sent before the token is let in by it.
    let mut client = Client::connect(server.resp());
    client.send(format!("CL.THROTTLE k 0 1 60\r\nAUTH {TOKEN}\r\nCL.THROTTLE k 0 1 60\r\n"));
    assert!(client.read().error().starts_with("NOAUTH"));
    assert_eq!(client.read(), Reply::ok());
    assert_eq!(client.read().items()[0], Reply::Int(0));
}
