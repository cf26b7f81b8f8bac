//! Recorded traces of redis-cell, replayed through a socket.

use std::net::SocketAddr;

use serde_json::Value;
use tollgate::testing::ManualClock;
use tollgate::{Span, Time};
use tollgate_rig::Redis;

use super::RULES;
use super::client::{RespClient, RespReply};
use crate::support::{components, start_with};

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
    // Another limit has the same counter, as in redis-cell: the arrival time is 18 s ahead.
    assert_eq!(client.call_text("CL.THROTTLE ann 9 10 60"), RespReply::ints(&[0, 10, 6, -1, 24]));
    assert_eq!(client.call_text("CL.THROTTLE ann 4 60 60"), RespReply::ints(&[1, 5, 0, 20, 24]));
    assert_eq!(client.call_text("CL.THROTTLE ann 9 10 60 0"), RespReply::ints(&[0, 10, 6, -1, 24]));
    // A limit of TG.LIMIT has its own.
    let left = client.call(&["TG.PEEK", "ann", "10/min burst 5"]);
    assert_eq!(left.field("remaining"), &RespReply::Int(5));
}

/// A server with the module redis-cell.
fn start_redis_cell() -> Redis {
    let module = components().join("libredis_cell.so");
    Redis::start_with(&["--loadmodule", module.to_str().unwrap()])
}

/// Makes the same call on redis-cell and here, and compares the replies; returns whether it passed.
///
/// Two differences are intended. Times are rounded up, so a limited client is never told to retry at
/// once. A refund never goes above full, where redis-cell fails after it has written.
fn compare_with_real(theirs: &mut RespClient, ours: &mut RespClient, words: &str) -> bool {
    let (theirs, ours) = (theirs.call_text(words), ours.call_text(words));
    if let RespReply::Error(error) = &theirs {
        assert!(error.contains("expire"), "{words}: {error}");
        assert_eq!(ours.items()[0], RespReply::Int(0), "{words}");
        return true;
    }
    let numbers = |reply: &RespReply| -> Vec<i64> {
        let RespReply::Array(items) = reply else { panic!("{words}: {reply:?}") };
        items.iter().map(RespReply::int).collect()
    };
    let (theirs, ours) = (numbers(&theirs), numbers(&ours));
    assert_eq!(ours[..3], theirs[..3], "{words}: {ours:?}, not {theirs:?}");
    for (ours, theirs) in ours[3..].iter().zip(&theirs[3..]) {
        // The two calls are not made at the same time, and redis-cell rounds down.
        let is_same = if *theirs == -1 { *ours == -1 } else { (0..=2).contains(&(ours - theirs)) };
        assert!(is_same, "{words}: {ours}, not {theirs}");
    }
    ours[0] == 0
}

#[test]
fn a_rate_that_follows_load_admits_as_many_as_redis_cell() {
    let (redis, server) = (start_redis_cell(), start_with(RULES, |_| {}));
    let mut theirs = RespClient::connect(SocketAddr::from(([127, 0, 0, 1], redis.port())));
    let mut ours = RespClient::connect(server.resp());
    let mut passed = 0;
    for call in 0..300 {
        let words = format!("CL.THROTTLE load 15 {} 3600", 30 + call);
        passed += u32::from(compare_with_real(&mut theirs, &mut ours, &words));
    }
    assert!((10..=30).contains(&passed), "{passed}");
}

#[test]
fn calls_with_changing_parameters_match_redis_cell() {
    let (redis, server) = (start_redis_cell(), start_with(RULES, |_| {}));
    let mut theirs = RespClient::connect(SocketAddr::from(([127, 0, 0, 1], redis.port())));
    let mut ours = RespClient::connect(server.resp());
    let mut dice = fastrand::Rng::with_seed(20);
    let mut passed = 0;
    for _ in 0..400 {
        let key = ["a", "b", "c"][dice.usize(..3)];
        let (burst, count) = (dice.u32(..20), 1 + dice.u32(..50));
        let period = [3_600, 86_400, 1_000_000][dice.usize(..3)];
        let quantity = [1, 1, 1, 2, 0, 5, 30, -1, -3][dice.usize(..9)];
        let words = format!("CL.THROTTLE {key} {burst} {count} {period} {quantity}");
        passed += u32::from(compare_with_real(&mut theirs, &mut ours, &words));
    }
    assert!((50..350).contains(&passed), "{passed}");
    // What else a client does with a key.
    for words in ["EXISTS a b c none", "DEL none", "EXPIRE none 5", "TTL none", "PTTL none"] {
        assert_eq!(ours.call_text(words), theirs.call_text(words), "{words}");
    }
    for key in ["a", "b", "c"] {
        let [theirs_ttl, ours_ttl] =
            [&mut theirs, &mut ours].map(|client| client.call_text(&format!("TTL {key}")).int());
        assert!(theirs_ttl.abs_diff(ours_ttl) <= 2, "{key}: {ours_ttl}, not {theirs_ttl}");
        let words = format!("DEL {key}");
        assert_eq!(ours.call_text(&words), theirs.call_text(&words), "{words}");
        assert!(compare_with_real(&mut theirs, &mut ours, &format!("CL.THROTTLE {key} 0 1 3600")));
    }
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
