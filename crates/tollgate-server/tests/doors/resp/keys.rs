//! Commands on keys: counters of `CL.THROTTLE` and keys of script libraries, in several databases.

use std::time::Duration;

use tollgate::testing::ManualClock;

use super::RULES;
use super::client::{RespClient, RespReply};
use crate::support::{start, start_with};

#[test]
fn counters_of_throttle_are_keys() {
    let clock = ManualClock::new();
    let server = start_with(RULES, |config| config.clock = Some((&clock).into()));
    let mut client = RespClient::connect(server.resp());
    for words in ["CL.THROTTLE a 4 1 60", "CL.THROTTLE a 4 1 60", "CL.THROTTLE b 9 10 3600"] {
        client.call_text(words);
    }
    for (words, expected) in [
        ("EXISTS a b none a", 3),
        ("TTL a", 120),
        ("PTTL b", 360_000),
        ("TTL none", -2),
        ("PEXPIRE a 5", 0),
        ("DEL a none", 1),
        ("EXISTS a", 0),
        ("UNLINK a b", 1),
    ] {
        assert_eq!(client.call_text(words), RespReply::Int(expected), "{words}");
    }
    assert_eq!(client.call_text("CL.THROTTLE a 4 1 60"), RespReply::ints(&[0, 5, 4, -1, 60]));
    clock.advance(Duration::from_secs(60));
    assert_eq!(client.call_text("EXISTS a"), RespReply::Int(0), "full equals absent");
}

#[test]
fn databases_have_separate_keys() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    for database in 0..16 {
        assert_eq!(client.call_text(&format!("SELECT {database}")), RespReply::ok());
        assert_eq!(client.call_text("EXISTS a n"), RespReply::Int(0), "{database}");
        // The second call would use a cached limit.
        for limited in [0, 1] {
            let reply = client.call_text("CL.THROTTLE a 0 1 3600");
            assert_eq!(reply.items()[0], RespReply::Int(limited), "{database}");
        }
        assert_eq!(client.call_text("INCR n"), RespReply::Int(1));
        let info = client.call_text("CLIENT INFO");
        assert!(matches!(info, RespReply::Bulk(text) if text.contains(&format!("db={database} "))));
    }
    assert_eq!(client.call_text("RESET"), RespReply::Simple("RESET".into()));
    assert_eq!(client.call_text("DEL a n"), RespReply::Int(2), "database 0 again");
    assert_eq!(client.call_text("SELECT 1"), RespReply::ok());
    assert_eq!(client.call_text("EXISTS a n"), RespReply::Int(2));
}

#[test]
fn plain_commands_work_on_whole_numbers() {
    let clock = ManualClock::new();
    let server = start_with(RULES, |config| config.clock = Some((&clock).into()));
    let mut client = RespClient::connect(server.resp());
    for (words, expected) in [
        ("GET n", RespReply::Null),
        ("SET n 5 EX 10", RespReply::ok()),
        ("SET n 6 NX", RespReply::Null),
        ("SET none 6 XX", RespReply::Null),
        ("GET n", RespReply::bulk("5")),
        ("INCRBY n 10", RespReply::Int(15)),
        ("DECR n", RespReply::Int(14)),
        ("DECRBY n 4", RespReply::Int(10)),
        ("INCR new", RespReply::Int(1)),
        ("TTL n", RespReply::Int(10)),
        ("TTL new", RespReply::Int(-1)),
        ("EXPIRE new 3", RespReply::Int(1)),
        ("PTTL new", RespReply::Int(3_000)),
        ("SET n 1 PX 1500", RespReply::ok()),
        ("PTTL n", RespReply::Int(1_500)),
        ("EXISTS n new", RespReply::Int(2)),
        ("DEL n", RespReply::Int(1)),
    ] {
        assert_eq!(client.call_text(words), expected, "{words}");
    }
    clock.advance(Duration::from_millis(3_001));
    assert_eq!(client.call_text("GET new"), RespReply::Null);
    for (words, error) in [
        ("SET n text", "ERR values are whole numbers here"),
        ("SET n 1 EX 0", "ERR invalid expire time in 'set' command"),
        ("SET n 1 EX 9223372036854775807", "ERR invalid expire time in 'set' command"),
        ("SET n 1 EX", "ERR syntax error"),
        ("SET n 1 NX XX", "ERR syntax error"),
        ("INCRBY n x", "ERR value is not an integer or out of range"),
        ("DECRBY n -9223372036854775808", "ERR value is not an integer or out of range"),
        ("EXPIRE n 9223372036854775807", "ERR invalid expire time in 'expire' command"),
    ] {
        assert!(client.call_text(words).error().starts_with(error), "{words}");
    }
}

#[test]
fn removing_keys_needs_the_role_of_a_reset() {
    let tokens = "ann:decide-0123456789\nbob:write-0123456789:write";
    let server = start_with(RULES, |config| config.data_tokens = Some(tokens.parse().unwrap()));
    let mut client = RespClient::connect(server.resp());
    let clear_keys = "EVALSHA f2994557f1daca13bfef97c2a31ca4b174e031ca 1 *";
    let changes =
        ["DEL a", "SET a 1", "DECR a", "INCRBY a -1", "CL.THROTTLE a 1 1 1 -1", clear_keys];
    let decisions = ["INCR a", "EXPIRE a 100", "TTL a", "EXISTS a", "GET a"];
    for (token, may_change) in [("decide-0123456789", false), ("write-0123456789", true)] {
        assert_eq!(client.call_text(&format!("AUTH {token}")), RespReply::ok());
        for (words, may) in decisions
            .iter()
            .map(|words| (words, true))
            .chain(changes.iter().map(|words| (words, may_change)))
        {
            let reply = client.call_text(words);
            let refused = matches!(&reply, RespReply::Error(error) if error.starts_with("NOPERM"));
            assert_eq!(refused, !may, "{token} {words}: {reply:?}");
        }
    }
    // A shorter expiry lowers a counter too.
    assert_eq!(client.call_text("SET a 1 EX 100"), RespReply::ok());
    assert_eq!(client.call_text("AUTH decide-0123456789"), RespReply::ok());
    assert!(client.call_text("EXPIRE a 1").error().starts_with("NOPERM"));
    assert_eq!(client.call_text("EXPIRE a 200"), RespReply::Int(1));
}
