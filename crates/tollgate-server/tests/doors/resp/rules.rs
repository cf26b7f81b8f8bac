//! The `TG.` commands: decisions by rules and by inline limits.

use tollgate::testing::ManualClock;

use super::RULES;
use super::client::{RespClient, RespReply};
use crate::support::{TestServer, start, start_with};

fn start_with_frozen_clock() -> TestServer {
    start_with(RULES, |config| config.clock = Some((&ManualClock::new()).into()))
}

#[test]
fn rules_decide() {
    let server = start_with_frozen_clock();
    let mut client = RespClient::connect(server.resp());
    let login = ["TG.CHECK", "shop", "route", "POST /login", "ip", "203.0.113.7"];
    for left in [1, 0] {
        let decision = client.call(&login);
        assert_eq!(decision.field("allowed"), &RespReply::Int(1));
        assert_eq!(decision.field("rule"), &RespReply::bulk("login"));
        assert_eq!(decision.field("code"), &RespReply::Int(200));
        assert_eq!(decision.field("remaining"), &RespReply::Int(left));
    }
    let denied = client.call(&login);
    assert_eq!(denied.field("allowed"), &RespReply::Int(0));
    assert_eq!(denied.field("code"), &RespReply::Int(429));
    assert_eq!(denied.field("reason"), &RespReply::bulk("over_limit"));
    assert_eq!(denied.field("retry_after_ms"), &RespReply::Int(30_000));
    let limit = &denied.field("limits").items()[0];
    for (name, value) in [
        ("rule", RespReply::bulk("login")),
        ("limit", RespReply::Int(2)),
        ("window_s", RespReply::Int(60)),
        ("remaining", RespReply::Int(0)),
        ("reset_after_ms", RespReply::Int(60_000)),
        ("mode", RespReply::bulk("enforce")),
        ("policy", RespReply::bulk("login")),
    ] {
        assert_eq!(limit.field(name), &value, "{name}");
    }
    let other = client.call(&["TG.CHECK", "shop", "route", "GET /"]);
    assert_eq!(other.field("reason"), &RespReply::bulk("unmatched"));
    assert_eq!(other.field("rule"), &RespReply::Null);
    assert_eq!(client.call(&["AUTH", &server.admin_token()]), RespReply::ok());
    for command in ["TG.CHECK", "TG.PEEK", "TG.RESET"] {
        let unknown = client.call(&[command, "shpo", "route", "GET /"]);
        assert_eq!(unknown.error(), "ERR there is no domain \"shpo\"; there are: shop");
    }
}

#[test]
fn several_inline_limits_are_decided_together() {
    let server = start_with_frozen_clock();
    let mut client = RespClient::connect(server.resp());
    let mut call = |words: &[&str]| client.call(&[&["TG.LIMIT", "ann"], words].concat());
    let first = call(&["10/h", "2/day", "COST", "2"]);
    assert_eq!(first.field("remaining"), &RespReply::Int(0), "of the tightest");
    let denied = call(&["10/h", "2/day"]);
    assert_eq!(denied.field("allowed"), &RespReply::Int(0));
    assert_eq!(denied.field("retry_after_ms"), &RespReply::Int(43_200_000));
    // The refusal charged nothing, and each limit has the counter that it has alone.
    assert_eq!(call(&["10/h"]).field("remaining"), &RespReply::Int(7));
    for (words, expected) in [
        (&["10/h", "x"][..], "ERR "),
        (&["10/h", "10 / h"], "ERR the limit 10/h is there twice"),
        (&["10/h", "3 concurrent"], "ERR a concurrency limit needs a client"),
        (&["10/h", "5/h", "COST", "x"], "ERR COST is not a whole number"),
        (
            &["1/h", "2/h", "3/h", "4/h", "5/h", "6/h", "7/h", "8/h", "9/h"],
            "ERR there are more than 8",
        ),
    ] {
        assert!(call(words).error().starts_with(expected), "{words:?}");
    }
}

#[test]
fn attributes_are_spelled_as_in_rules() {
    let rules = "domain: shop\nrules: [{ name: org, per: 'header[\"x-org\"]', limit: 9/h }]";
    let server = start_with(rules, |config| config.clock = Some((&ManualClock::new()).into()));
    let mut client = RespClient::connect(server.resp());
    let names = ["header[\"x-org\"]", "header['X-Org']", "header[x-org]", "header.x-org"];
    for (left, name) in (5..9).rev().zip(names) {
        let decision = client.call(&["TG.CHECK", "shop", name, "acme"]);
        assert_eq!(decision.field("remaining"), &RespReply::Int(left), "{name}");
    }
}

#[test]
fn the_peer_is_the_client_unless_ip_is_given() {
    let server = start_with_frozen_clock();
    let mut client = RespClient::connect(server.resp());
    let mut call = |more: &[&str]| {
        let login = [&["TG.CHECK", "shop", "COST", "2", "route", "POST /login"], more].concat();
        client.call(&login)
    };
    assert_eq!(call(&[]).field("allowed"), &RespReply::Int(1));
    assert_eq!(call(&["ip", "127.0.0.1"]).field("allowed"), &RespReply::Int(0));
    assert_eq!(call(&["ip", "::ffff:127.0.0.1"]).field("allowed"), &RespReply::Int(0));
    assert_eq!(call(&["ip", "192.0.2.1"]).field("allowed"), &RespReply::Int(1));
    assert_eq!(call(&["ip", "not-an-address"]).error(), "ERR the attribute ip is no address");
}

#[test]
fn counters_are_read_and_reset() {
    let server = start_with_frozen_clock();
    let mut client = RespClient::connect(server.resp());
    assert_eq!(client.call(&["AUTH", &server.admin_token()]), RespReply::ok());
    let by_rules = ["shop", "route", "POST /login", "ip", "192.0.2.1"];
    let by_limit = ["ann", "2/min"];
    for (decide, about) in [("TG.CHECK", &by_rules[..]), ("TG.LIMIT", &by_limit[..])] {
        let mut call = |verb: &str| client.call(&[&[verb], about].concat());
        assert_eq!(call("TG.PEEK").field("remaining"), &RespReply::Int(2));
        call(decide);
        call(decide);
        let denied = call(decide);
        assert_eq!(denied.field("allowed"), &RespReply::Int(0));
        assert_eq!(denied.field("retry_after_ms"), &RespReply::Int(30_000));
        assert_eq!(call("TG.PEEK").field("remaining"), &RespReply::Int(0));
        assert_eq!(call("TG.RESET").field("remaining"), &RespReply::Int(2));
        assert_eq!(call(decide).field("remaining"), &RespReply::Int(1));
    }
}

#[test]
fn replies_contain_costs_and_waits() {
    let server = start_with_frozen_clock();
    let mut client = RespClient::connect(server.resp());
    let spent = client.call(&["TG.LIMIT", "ann", "10/s burst 20", "COST", "15"]);
    assert_eq!(spent.field("remaining"), &RespReply::Int(5));
    assert_eq!(spent.field("reset_after_ms"), &RespReply::Int(1_500));
    let never = client.call(&["TG.LIMIT", "ann", "10/s burst 20", "cost", "21"]);
    assert_eq!(never.field("allowed"), &RespReply::Int(0));
    assert_eq!(never.field("retry_after_ms"), &RespReply::Null);
    let paced = ["TG.LIMIT", "ann", "10/s leaky burst 5"];
    assert_eq!(client.call(&paced).field("wait_ms"), &RespReply::Int(0));
    assert_eq!(client.call(&paced).field("wait_ms"), &RespReply::Int(100));
    // Spans below a millisecond are rounded up.
    let quick = ["TG.LIMIT", "ann", "1M/s burst 1"];
    client.call(&quick);
    assert_eq!(client.call(&quick).field("retry_after_ms"), &RespReply::Int(1));
}

#[test]
fn no_more_requests_are_delayed_than_the_queue_holds() {
    let rule = "{ name: even, limit: 5/s leaky burst 1, then: queue 1 up to 2s }";
    let clock = ManualClock::new();
    let server = start_with(&format!("domain: shop\nrules: [{rule}]"), |config| {
        config.clock = Some((&clock).into());
    });
    let mut client = RespClient::connect(server.resp());
    let mut waits = || {
        let reply = client.call(&["TG.CHECK", "shop"]);
        (reply.field("allowed").clone(), reply.field("wait_ms").clone())
    };
    let replies = [(); 3].map(|()| waits());
    let reply = |allowed, wait| (RespReply::Int(allowed), RespReply::Int(wait));
    assert_eq!(replies, [reply(1, 0), reply(1, 200), reply(0, 0)]);
}

#[test]
fn errors_are_one_line() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    let many: Vec<String> = (0..130).map(|number| number.to_string()).collect();
    let many: Vec<&str> =
        ["TG.CHECK", "shop"].into_iter().chain(many.iter().map(String::as_str)).collect();
    for (arguments, message) in [
        (&["TG.LIMIT", "k", "10/m"][..], "did you mean \"10/min\"?"),
        (&["TG.LIMIT", "k", "5 concurrent"], "/v1/reserve"),
        (&["TG.LIMIT", "k", "10/s", "COST"], "TG.LIMIT key limit [limit ...] [COST n]"),
        (&["TG.LIMIT", "k", "10/s", "COST", "-1"], "whole number"),
        (&["TG.CHECK", "shop", "COST", "x"], "whole number"),
        (&["TG.CHECK", "shop", "user"], "pairs"),
        (&["TG.PEEK", "k", "10/s", "x", "y"], "pairs"),
        (&many, "more than 64 attributes"),
        (&["TG.CHECK"], "wrong number of arguments for 'tg.check' command"),
    ] {
        let reply = client.call(arguments);
        assert!(reply.error().contains(message), "{arguments:?}: {reply:?}");
    }
    let bytes: [&[u8]; 4] = [b"TG.CHECK", b"shop", b"user", b"\xff"];
    assert!(client.call(&bytes).error().contains("UTF-8"));
}
