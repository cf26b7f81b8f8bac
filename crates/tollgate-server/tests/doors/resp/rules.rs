//! Deciding by rules and by limits brought along: the `TG.` commands.

use tollgate::testing::ManualClock;

use super::RULES;
use super::wire::{Client, Reply};
use crate::support::{Running, start, start_with};

fn frozen() -> Running {
    start_with(RULES, |config| config.clock = Some((&ManualClock::new()).into()))
}

#[test]
fn rules_decide() {
    let server = frozen();
    let mut client = Client::connect(server.resp());
    let login = ["TG.CHECK", "shop", "route", "POST /login", "ip", "203.0.113.7"];
    for left in [1, 0] {
        let decision = client.ask(&login);
        assert_eq!(decision.field("allowed"), &Reply::Int(1));
        assert_eq!(decision.field("rule"), &Reply::bulk("login"));
        assert_eq!(decision.field("code"), &Reply::Int(200));
        assert_eq!(decision.field("remaining"), &Reply::Int(left));
    }
    let denied = client.ask(&login);
    assert_eq!(denied.field("allowed"), &Reply::Int(0));
    assert_eq!(denied.field("code"), &Reply::Int(429));
    assert_eq!(denied.field("reason"), &Reply::bulk("over_limit"));
    assert_eq!(denied.field("retry_after_ms"), &Reply::Int(30_000));
    let limit = &denied.field("limits").items()[0];
    for (name, value) in [
        ("rule", Reply::bulk("login")),
        ("limit", Reply::Int(2)),
        ("window_s", Reply::Int(60)),
        ("remaining", Reply::Int(0)),
        ("reset_after_ms", Reply::Int(60_000)),
        ("mode", Reply::bulk("enforce")),
    ] {
        assert_eq!(limit.field(name), &value, "{name}");
    }
    let other = client.ask(&["TG.CHECK", "shop", "route", "GET /"]);
    assert_eq!(other.field("reason"), &Reply::bulk("unmatched"));
    assert_eq!(other.field("rule"), &Reply::Null);
    for command in ["TG.CHECK", "TG.PEEK", "TG.RESET"] {
        let unknown = client.ask(&[command, "shpo", "route", "GET /"]);
        assert_eq!(unknown.error(), "ERR there is no domain \"shpo\"; there are: shop");
    }
}

#[test]
fn whoever_asks_is_the_client_unless_told_otherwise() {
    let server = frozen();
    let mut client = Client::connect(server.resp());
    let mut ask = |more: &[&str]| {
        let login = [&["TG.CHECK", "shop", "COST", "2", "route", "POST /login"], more].concat();
        client.ask(&login)
    };
    assert_eq!(ask(&[]).field("allowed"), &Reply::Int(1));
    assert_eq!(ask(&["ip", "127.0.0.1"]).field("allowed"), &Reply::Int(0));
    assert_eq!(ask(&["ip", "::ffff:127.0.0.1"]).field("allowed"), &Reply::Int(0));
    assert_eq!(ask(&["ip", "192.0.2.1"]).field("allowed"), &Reply::Int(1));
    assert_eq!(ask(&["ip", "nobody"]).error(), "ERR the attribute ip is no address");
}

#[test]
fn counters_are_read_and_forgotten() {
    let server = frozen();
    let mut client = Client::connect(server.resp());
    let by_rules = ["shop", "route", "POST /login", "ip", "192.0.2.1"];
    let by_limit = ["ann", "2/min"];
    for (decide, about) in [("TG.CHECK", &by_rules[..]), ("TG.LIMIT", &by_limit[..])] {
        let mut ask = |verb: &str| client.ask(&[&[verb], about].concat());
        assert_eq!(ask("TG.PEEK").field("remaining"), &Reply::Int(2));
        ask(decide);
        ask(decide);
        let denied = ask(decide);
        assert_eq!(denied.field("allowed"), &Reply::Int(0));
        assert_eq!(denied.field("retry_after_ms"), &Reply::Int(30_000));
        assert_eq!(ask("TG.PEEK").field("remaining"), &Reply::Int(0));
        assert_eq!(ask("TG.RESET").field("remaining"), &Reply::Int(2));
        assert_eq!(ask(decide).field("remaining"), &Reply::Int(1));
    }
}

#[test]
fn costs_and_waits_are_told() {
    let server = frozen();
    let mut client = Client::connect(server.resp());
    let spent = client.ask(&["TG.LIMIT", "ann", "10/s burst 20", "COST", "15"]);
    assert_eq!(spent.field("remaining"), &Reply::Int(5));
    assert_eq!(spent.field("reset_after_ms"), &Reply::Int(1_500));
    let never = client.ask(&["TG.LIMIT", "ann", "10/s burst 20", "cost", "21"]);
    assert_eq!(never.field("allowed"), &Reply::Int(0));
    assert_eq!(never.field("retry_after_ms"), &Reply::Null);
    let paced = ["TG.LIMIT", "ann", "10/s leaky burst 5"];
    assert_eq!(client.ask(&paced).field("wait_ms"), &Reply::Int(0));
    assert_eq!(client.ask(&paced).field("wait_ms"), &Reply::Int(100));
    // Less than a millisecond is one.
    let quick = ["TG.LIMIT", "ann", "1M/s burst 1"];
    client.ask(&quick);
    assert_eq!(client.ask(&quick).field("retry_after_ms"), &Reply::Int(1));
}

#[test]
fn no_more_are_told_to_wait_than_a_line_has_places() {
    let rule = "{ name: even, limit: 5/s leaky burst 1, then: queue 1 up to 2s }";
    let clock = ManualClock::new();
    let server = start_with(&format!("domain: shop\nrules: [{rule}]"), |config| {
        config.clock = Some((&clock).into());
    });
    let mut client = Client::connect(server.resp());
    let mut waits = || {
        let answer = client.ask(&["TG.CHECK", "shop"]);
        (answer.field("allowed").clone(), answer.field("wait_ms").clone())
    };
    let said = [(); 3].map(|()| waits());
    let told = |allowed, wait| (Reply::Int(allowed), Reply::Int(wait));
    assert_eq!(said, [told(1, 0), told(1, 200), told(0, 0)]);
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let server = start(RULES);
    let mut client = Client::connect(server.resp());
    let many: Vec<String> = (0..130).map(|number| number.to_string()).collect();
    let many: Vec<&str> =
        ["TG.CHECK", "shop"].into_iter().chain(many.iter().map(String::as_str)).collect();
    for (arguments, says) in [
        (&["TG.LIMIT", "k", "10/m"][..], "did you mean \"10/min\"?"),
        (&["TG.LIMIT", "k", "5 concurrent"], "/v1/reserve"),
        (&["TG.LIMIT", "k", "10/s", "COST"], "TG.LIMIT key limit [COST n]"),
        (&["TG.LIMIT", "k", "10/s", "COST", "-1"], "whole number"),
        (&["TG.CHECK", "shop", "COST", "x"], "whole number"),
        (&["TG.CHECK", "shop", "user"], "pairs"),
        (&["TG.PEEK", "k", "10/s", "x", "y"], "pairs"),
        (&many, "more than 64 attributes"),
        (&["TG.CHECK"], "wrong number of arguments for 'tg.check' command"),
    ] {
        let reply = client.ask(arguments);
        assert!(reply.error().contains(says), "{arguments:?}: {reply:?}");
    }
    let bytes: [&[u8]; 4] = [b"TG.CHECK", b"shop", b"user", b"\xff"];
    assert!(client.ask(&bytes).error().contains("UTF-8"));
}
