//! Recorded traces of redis-cell, replayed through a socket.

use serde_json::Value;
use tollgate::testing::ManualClock;
use tollgate::{Span, Time};

use super::RULES;
use super::client::{RespClient, RespReply};
use crate::support::start_with;

fn vectors() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/vectors/redis-cell.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns an argument of a trace as text.
fn argument(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[test]
fn replies_match_redis_cell() {
    let clock = ManualClock::new();
    let begin = clock.now();
    let server = start_with(RULES, |config| config.clock = Some((&clock).into()));
    let mut client = RespClient::connect(server.resp());
    let vectors = vectors();
    assert_eq!(vectors.len(), 12);
    for vector in &vectors {
        let id = vector["id"].as_str().unwrap();
        assert_eq!(vector["time_unit"], "ms");
        for (nth, step) in vector["steps"].as_array().unwrap().iter().enumerate() {
            clock.set(at(begin, step));
            let args = &step["args"];
            let mut arguments = vec!["cl.throttle".to_owned(), id.to_owned()];
            arguments.extend(["max_burst", "count", "period_s"].map(|name| argument(&args[name])));
            arguments.extend(args.get("quantity").map(argument));
            compare(&client.call(&arguments), &step["expect"], &format!("{id} step {nth}"));
        }
    }
}

fn at(begin: Time, step: &Value) -> Time {
    begin + Span::from_millis(step["at"].as_u64().unwrap())
}

fn compare(ours: &RespReply, expect: &Value, at: &str) {
    if let Some(error) = expect["error"].as_str() {
        // redis-cell fails after it has written; here an excessive refund fills the key.
        match error.contains("setting key expire") {
            true => assert_eq!(ours, &RespReply::ints(&[0, 5, 5, -1, 0]), "{at}"),
            false => assert_eq!(ours.error(), error, "{at}"),
        }
        return;
    }
    let theirs: Vec<i64> = serde_json::from_value(expect["reply"].clone()).unwrap();
    let ours: Vec<i64> = ours.items().iter().map(RespReply::int).collect();
    assert_eq!(ours[..3], theirs[..3], "{at}");
    // redis-cell truncates to milliseconds, and tells a limited client to retry at once.
    for (ours, theirs) in ours[3..].iter().zip(&theirs[3..]) {
        assert!(ours == theirs || (*ours == 1 && *theirs == 0), "{at}: {ours}, not {theirs}");
    }
    assert!(ours[0] == 0 || ours[3] != 0, "{at}: limited, and the retry time is 0");
}

#[test]
fn all_spellings_of_a_limit_share_the_counter_of_a_key() {
    let clock = ManualClock::new();
    let server = start_with(RULES, |config| config.clock = Some((&clock).into()));
    let mut client = RespClient::connect(server.resp());
    assert_eq!(client.call_text("CL.THROTTLE ann 4 10 60"), RespReply::ints(&[0, 5, 4, -1, 6]));
    client.send("cl.throttle ann 4 10 60\r\n");
    assert_eq!(client.read(), RespReply::ints(&[0, 5, 3, -1, 12]));
    assert_eq!(client.call_text("CL.THROTTLE ann 4 10 60 1"), RespReply::ints(&[0, 5, 2, -1, 18]));
    let left = client.call(&["TG.PEEK", "ann", "10/min burst 5"]);
    assert_eq!(left.field("remaining"), &RespReply::Int(2));
    // Another limit is another counter.
    assert_eq!(client.call_text("CL.THROTTLE ann 9 10 60"), RespReply::ints(&[0, 10, 9, -1, 6]));
}

#[test]
fn invalid_limits_are_errors() {
    let server = start_with(RULES, |_| {});
    let mut client = RespClient::connect(server.resp());
    for (words, message) in [
        ("CL.THROTTLE k 1 0 60", "Zero rates are not supported"),
        ("CL.THROTTLE k 1 1 0", "Zero rates are not supported"),
        ("CL.THROTTLE k 1 -5 1", "Zero rates are not supported"),
        ("CL.THROTTLE k -2 1 1", "max_burst"),
        ("CL.THROTTLE k 9223372036854775807 1 1", "ERR"),
        ("CL.THROTTLE k 1 9223372036854775807 1", "ERR"),
        ("CL.THROTTLE k 1 1 9223372036854775807", "ERR"),
        ("CL.THROTTLE k 1 1 9223372036854775808", "Couldn't parse as integer"),
        ("CL.THROTTLE k 1 1", "wrong number of arguments for 'cl.throttle' command"),
        ("CL.THROTTLE k 1 1 1 1 1", "wrong number of arguments for 'cl.throttle' command"),
    ] {
        let reply = client.call_text(words);
        assert!(reply.error().contains(message), "{words}: {reply:?}");
    }
    // Any quantity can be refused or refunded, however large.
    for (quantity, limited) in [(i64::MAX, 1), (i64::MIN, 0)] {
        let reply = client.call_text(&format!("CL.THROTTLE k 1 1 1 {quantity}"));
        assert_eq!(reply, RespReply::ints(&[limited, 2, 2, -1, 0]));
    }
}
