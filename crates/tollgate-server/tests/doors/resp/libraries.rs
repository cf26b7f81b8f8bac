//! Rate-limit libraries, unmodified: the same calls on a real Redis and on the door, equal results.

use tollgate_rig::Redis;

use super::RULES;
use crate::support::{node_in, python_in, start};

/// Runs a program on Redis and on the door and compares what it prints.
fn compare(run: impl Fn(&str) -> String) {
    let (redis, server) = (Redis::start(), start(RULES));
    let theirs = run(&redis.port().to_string());
    let ours = run(&server.resp().port().to_string());
    assert!(theirs.lines().count() > 10, "{theirs}");
    for (number, (theirs, ours)) in theirs.lines().zip(ours.lines()).enumerate() {
        assert_eq!(ours, theirs, "line {number}");
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
}

#[test]
fn rate_limit_redis_works_as_with_redis() {
    compare(|port| node_in("limiters", "resp/libraries/rate_limit_redis.mjs", &[port]));
}

#[test]
fn rate_limiter_flexible_works_as_with_redis() {
    compare(|port| node_in("limiters", "resp/libraries/rate_limiter_flexible.mjs", &[port]));
}

#[test]
fn python_limits_works_as_with_redis() {
    for group in ["limits-5", "limits-4", "limits-3"] {
        compare(|port| python_in(group, "resp/libraries/limits_library.py", &[port]));
    }
}

#[test]
fn upstash_ratelimit_works_as_with_redis() {
    let script = "resp/libraries/upstash.mjs";
    compare(|port| node_in("limiters", script, &[port, "upstash-ratelimit-2.0"]));
}

#[test]
fn the_scripts_of_the_newest_upstash_ratelimit_are_known() {
    // They have a flag that only Upstash's own server accepts, so that Redis cannot run them.
    let server = start(RULES);
    let port = server.resp().port().to_string();
    let [newest, older] = ["@upstash/ratelimit", "upstash-ratelimit-2.0"]
        .map(|version| node_in("limiters", "resp/libraries/upstash.mjs", &[&port, version]));
    let refused_early =
        |output: &str| output.lines().filter(|line| line.contains("[false,")).count();
    assert!(
        refused_early(&newest) > 3 && newest.lines().count() == older.lines().count(),
        "{newest}"
    );
}
