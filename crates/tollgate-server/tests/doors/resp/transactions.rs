//! `MULTI`, `EXEC` and `DISCARD`.

use super::RULES;
use super::client::{RespClient, RespReply, command};
use crate::support::start;

fn queued() -> RespReply {
    RespReply::Simple("QUEUED".into())
}

#[test]
fn queued_commands_run_together_in_order() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    // The limit is cached, so that without a transaction the call would join a batch.
    client.call_text("CL.THROTTLE a 1 1 3600");
    assert_eq!(client.call_text("MULTI"), RespReply::ok());
    for words in ["CL.THROTTLE a 1 1 3600", "PING", "TG.LIMIT a 5/h", "SELECT 1"] {
        assert_eq!(client.call_text(words), queued(), "{words}");
    }
    assert_eq!(client.call_text("CL.THROTTLE a 1 1 3600"), queued());
    assert_eq!(client.call_text("CL.THROTTLE a x 1 3600"), queued(), "an error of its own");
    let replies = client.call_text("EXEC");
    let [first, ping, limit, select, other, error] = replies.items() else {
        panic!("{replies:?}");
    };
    assert_eq!(first, &RespReply::ints(&[0, 2, 0, -1, 7200]));
    assert_eq!(ping, &RespReply::Simple("PONG".into()));
    assert_eq!(limit.field("remaining"), &RespReply::Int(4));
    assert_eq!(select, &RespReply::ok());
    assert_eq!(other, &RespReply::ints(&[0, 2, 1, -1, 3600]), "another database");
    assert!(error.error().contains("Couldn't parse as integer"));
    assert_eq!(
        client.call_text("PING"),
        RespReply::Simple("PONG".into()),
        "the transaction is over"
    );
    assert_eq!(client.call_text("MULTI"), RespReply::ok());
    assert_eq!(client.call_text("EXEC"), RespReply::ints(&[]));
}

#[test]
fn a_pipeline_with_a_transaction_comes_in_one_piece() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    let throttle = command(&["CL.THROTTLE", "a", "99", "1", "3600"]);
    let mut sent = throttle.repeat(3);
    sent.extend(command(&["MULTI"]));
    sent.extend(throttle.repeat(200));
    sent.extend(command(&["EXEC"]));
    sent.extend(&throttle);
    client.send(sent);
    let limited = |reply: &RespReply| reply.items()[0].int();
    assert!((0..3).all(|_| limited(&client.read()) == 0));
    assert_eq!(client.read(), RespReply::ok());
    assert!((0..200).all(|_| client.read() == queued()));
    let replies = client.read();
    assert_eq!(replies.items().iter().filter(|reply| limited(reply) == 0).count(), 97);
    assert_eq!((replies.items().len(), limited(&client.read())), (200, 1));
}

#[test]
fn errors_of_transactions_have_the_texts_of_redis() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    assert_eq!(client.call_text("EXEC").error(), "ERR EXEC without MULTI");
    assert_eq!(client.call_text("DISCARD").error(), "ERR DISCARD without MULTI");
    for (words, error) in [
        ("MULTI", "ERR MULTI calls can not be nested"),
        ("NOTHING", "ERR unknown command 'NOTHING'"),
        ("TTL", "ERR wrong number of arguments for 'ttl' command"),
        ("HELLO 3", "ERR Command not allowed inside a transaction"),
    ] {
        assert_eq!(client.call_text("MULTI"), RespReply::ok());
        assert!(client.call_text(words).error().starts_with(error), "{words}");
        assert_eq!(client.call_text("CL.THROTTLE a 0 1 3600"), queued());
        let aborted = "EXECABORT Transaction discarded because of previous errors.";
        assert_eq!(client.call_text("EXEC").error(), aborted, "{words}");
    }
    assert_eq!(client.call_text("EXISTS a"), RespReply::Int(0), "nothing ran");
    assert_eq!(client.call_text("MULTI"), RespReply::ok());
    assert_eq!(client.call_text("CL.THROTTLE a 0 1 3600"), queued());
    assert_eq!(client.call_text("DISCARD"), RespReply::ok());
    assert_eq!(client.call_text("MULTI"), RespReply::ok());
    assert_eq!(client.call_text("RESET"), RespReply::Simple("RESET".into()));
    assert_eq!(client.call_text("EXEC").error(), "ERR EXEC without MULTI");
    assert_eq!(client.call_text("EXISTS a"), RespReply::Int(0), "nothing ran");
}

#[test]
fn the_queue_of_a_transaction_is_bounded() {
    let server = start(RULES);
    for (words, count) in
        [(vec!["PING".to_owned()], 10_001), (vec!["ECHO".into(), "x".repeat(60_000)], 18)]
    {
        let mut client = RespClient::connect(server.resp());
        assert_eq!(client.call_text("MULTI"), RespReply::ok());
        let replies: Vec<RespReply> = (0..count).map(|_| client.call(&words)).collect();
        let [queued_ones @ .., last] = &replies[..] else { panic!("no replies") };
        assert!(queued_ones.iter().all(|reply| *reply == queued()));
        assert!(
            last.error().starts_with("ERR a transaction has at most 10000 commands"),
            "{last:?}"
        );
        assert!(client.call_text("EXEC").error().starts_with("EXECABORT"));
    }
}
