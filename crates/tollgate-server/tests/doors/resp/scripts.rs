//! `EVAL`, `EVALSHA` and `SCRIPT`.

use tollgate::testing::ManualClock;

use super::RULES;
use super::client::{RespClient, RespReply};
use crate::support::{start, start_with};

const THROTTLE: &str = "return redis.call('cl.throttle', KEYS[1], ARGV[1], 1, 3600)";

#[test]
fn a_script_that_only_throttles_runs() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    let reply = client.call(&["EVAL", THROTTLE, "1", "a", "1"]);
    assert_eq!(reply, RespReply::ints(&[0, 2, 1, -1, 3600]));
    let RespReply::Bulk(sha1) = client.call(&["SCRIPT", "LOAD", THROTTLE]) else {
        panic!("no hash");
    };
    let reply = client.call(&["EVALSHA", &sha1.to_uppercase(), "1", "a", "1"]);
    assert_eq!(reply, RespReply::ints(&[0, 2, 0, -1, 7200]));
    assert_eq!(client.call_text("CL.THROTTLE a 1 1 3600").items()[0], RespReply::Int(1));
    let known = client.call(&["SCRIPT", "EXISTS", &sha1, &"0".repeat(40)]);
    assert_eq!(known, RespReply::ints(&[1, 0]));
    // Other connections share it, until it is flushed.
    let mut other = RespClient::connect(server.resp());
    assert_eq!(other.call(&["EVALSHA", &sha1, "1", "b", "0"]).items()[0], RespReply::Int(0));
    assert_eq!(other.call_text("SCRIPT FLUSH ASYNC"), RespReply::ok());
    let gone = client.call(&["EVALSHA", &sha1, "1", "b", "0"]);
    assert_eq!(gone.error(), "NOSCRIPT No matching script. Please use EVAL.");
    for (values, error) in [
        (&["x", "a", "1"][..], "ERR value is not an integer or out of range"),
        (&["-1", "a", "1"], "ERR Number of keys can't be negative"),
        (&["3", "a", "1"], "ERR Number of keys can't be greater than number of args"),
        (&["1", "a"], "ERR Lua redis lib command arguments must be strings or integers"),
        (&["1", "a", "x"], "ERR Cell error: Store error: Couldn't parse as integer: x"),
    ] {
        let arguments = [&["EVAL", THROTTLE][..], values].concat();
        assert_eq!(client.call(&arguments).error(), error, "{values:?}");
    }
}

#[test]
fn an_unknown_script_is_an_error_that_lists_the_known_ones() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    for arguments in [
        &["EVAL", "return redis.call('GET', KEYS[1])", "1", "a"][..],
        &["SCRIPT", "LOAD", "return 1"],
    ] {
        let reply = client.call(arguments);
        for name in [
            "rate-limit-redis",
            "limits",
            "rate-limiter-flexible",
            "@upstash/ratelimit",
            "redis_rate",
            "cl.throttle",
        ] {
            assert!(reply.error().contains(name), "{reply:?}");
        }
    }
    assert!(client.call_text("SCRIPT KILL").error().starts_with("ERR unknown subcommand 'KILL'"));
}

#[test]
fn hostile_arguments_of_published_scripts_are_errors() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    let moving = "741eab638ba93ed71020bb821c45c022d0fa02c4";
    let flexible = "a1de965f42e177aa339706bd580f049065eca79a";
    let bucket = "d60be5bd3d83482ae229309f1f7425424f891204";
    let rate = "f52a5b566060d79fd321d695df55bc918339c4aa";
    for words in [
        format!("EVALSHA {moving} 1 a 1 1e12 60 1e12"),
        format!("EVALSHA {moving} 1 a 1 2000000 60 2000000"),
        format!("EVALSHA {moving} 1 a x 5 60 1"),
        format!("EVALSHA {moving} 1 a 1 5.5 60 1"),
        format!("EVALSHA {moving} 0 1 5 60 1"),
        format!("EVALSHA {moving} 1 a"),
        format!("EVALSHA {flexible} 1 a 1 0"),
        format!("EVALSHA {flexible} 1 a 1.5 10"),
        format!("EVALSHA {flexible} 1 a 1 99999999999999999"),
        format!("EVALSHA {bucket} 1 a nan 1 1 1 1"),
        format!("EVALSHA {bucket} 1 a 10 0 0 1 1"),
        format!("EVALSHA {rate} 1 a 10 0 1 1"),
    ] {
        let reply = client.call_text(&words);
        assert!(matches!(reply, RespReply::Error(_)), "{words}: {reply:?}");
        assert_eq!(client.call_text("PING"), RespReply::Simple("PONG".into()));
    }
    // Keys of one kind are not used as another.
    assert_eq!(client.call_text(&format!("EVALSHA {moving} 1 list 1 5 60 1")), RespReply::Int(1));
    for words in
        ["GET list".to_owned(), "INCR list".into(), format!("EVALSHA {bucket} 1 list 9 9 9 9 9")]
    {
        assert!(client.call_text(&words).error().starts_with("WRONGTYPE"), "{words}");
    }
}

/// The module of redis_rate is in no package registry of the tests, so the replies are computed by hand
/// from its algorithm: burst and rate are 10, the period is a second, and no time passes.
#[test]
fn redis_rate_has_the_replies_of_gcra() {
    let clock = ManualClock::new();
    let server = start_with(RULES, |config| config.clock = Some((&clock).into()));
    let mut client = RespClient::connect(server.resp());
    let (allow_n, at_most) =
        ("f52a5b566060d79fd321d695df55bc918339c4aa", "054143318f521948424aa25df61d7f7ba835a9d7");
    for (script, cost, expected) in [
        (allow_n, 1, (1, 9, "-1", 0.1)),
        (allow_n, 4, (4, 5, "-1", 0.5)),
        (allow_n, 0, (0, 5, "-1", 0.5)),
        (at_most, 2, (2, 3, "-1", 0.7)),
        (allow_n, 9, (0, 0, "0.6", 0.7)),
        (at_most, 9, (3, 0, "-1", 1.0)),
        (at_most, 1, (0, 0, "0.1", 1.0)),
        (allow_n, 1, (0, 0, "0.1", 1.0)),
    ] {
        let reply = client.call_text(&format!("EVALSHA {script} 1 rate:a 10 10 1 {cost}"));
        let [
            RespReply::Int(allowed),
            RespReply::Int(left),
            RespReply::Bulk(retry),
            RespReply::Bulk(reset),
        ] = reply.items()
        else {
            panic!("{reply:?}");
        };
        let near = |text: &str, value: f64| (text.parse::<f64>().unwrap() - value).abs() < 1e-6;
        // The fraction that is lost in doubles may cost one when it is cut off.
        assert!(*allowed == expected.0 && left.abs_diff(expected.1) <= 1, "{reply:?} {expected:?}");
        assert!(near(retry, expected.2.parse().unwrap()) && near(reset, expected.3), "{reply:?}");
    }
    assert_eq!(client.call_text("DEL rate:a"), RespReply::Int(1));
}
