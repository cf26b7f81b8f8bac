//! Steps of the server's wall clock by an hour, in every mode and for every algorithm, on real servers
//! with functions and without.

use std::future::Future;
use std::time::Duration;

use tollgate::{
    Action, Check, Consistency, CounterId, Limit, Retry, Span, Store, StoreCall, Verdict,
};
use tollgate_redis::{Options, RedisStore};
use tollgate_rig::{Flavour, Redis, Setup};

const HOUR: i64 = 3_600;

/// Limits of every algorithm that recover within two seconds.
const LIMITS: [&str; 12] = [
    "10/s",
    "10/s burst 5 gcra",
    "10/s leaky burst 10",
    "10/s interval",
    "10/s pay_later",
    "10/s fixed",
    "10/s fixed first_hit",
    "10/s sliding",
    "10/s sliding slots 10",
    "10/s log",
    "10/s warmup 1s",
    "3 concurrent lease 1s",
];

const MODES: [Consistency; 3] = [Consistency::Strict, Consistency::Leased, Consistency::Synced];

async fn connect(redis: &Redis) -> RedisStore {
    let options: Options = redis.url().parse().unwrap();
    let options = options.timeout(Duration::from_secs(20)).unwrap();
    RedisStore::connect(options).await.unwrap()
}

fn check(limit: &Limit, number: usize, mode: Consistency) -> Check<'_> {
    let lease = tollgate::state::new_lease();
    let check = Check::new(CounterId::new(number as u64), "acme", limit, 1);
    Check { consistency: mode, lease, ..check }
}

async fn run(store: &RedisStore, action: Action, check: Check<'_>) -> Verdict {
    store.run(StoreCall { action, checks: &[check] }).await.unwrap()[0]
}

async fn take(store: &RedisStore, check: Check<'_>) -> Verdict {
    run(store, Action::Take { max_wait: Span::ZERO }, check).await
}

/// Takes one after the other until one is refused; returns the number of those that passed.
async fn spend_all(store: &RedisStore, limit: &Limit, number: usize, mode: Consistency) -> usize {
    let mut passed = 0;
    while take(store, check(limit, number, mode)).await.allowed {
        passed += 1;
        assert!(passed < 100_000, "{limit} never refuses");
    }
    passed
}

/// Asks repeatedly until the answer is yes. The time is far less than the step of the clock, and far
/// more than any limit needs.
async fn until<F: Future<Output = bool>>(what: &str, mut done: impl FnMut() -> F) {
    let asking = async {
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        while !done().await {
            tick.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), asking).await.expect(what);
}

/// Before the fix, every one of these keys was refused for almost an hour.
async fn a_step_back_locks_no_key_out(flavour: Flavour) {
    let redis = Setup::new(flavour).settable_clock().start();
    let store = connect(&redis).await;
    let limits: Vec<Limit> = LIMITS.iter().map(|text| text.parse().unwrap()).collect();
    let numbered = || MODES.iter().flat_map(|mode| limits.iter().map(move |l| (l, *mode))).zip(0..);
    for ((limit, mode), number) in numbered() {
        spend_all(&store, limit, number, mode).await;
    }
    redis.step_clock(-HOUR);
    for ((limit, mode), number) in numbered() {
        let what = format!("{limit} {mode:?} passes again");
        until(&what, || async { take(&store, check(limit, number, mode)).await.allowed }).await;
    }
}

#[tokio::test]
async fn a_step_back_locks_no_key_out_with_functions() {
    a_step_back_locks_no_key_out(Flavour::Valkey).await;
}

#[tokio::test]
async fn a_step_back_locks_no_key_out_without_functions() {
    a_step_back_locks_no_key_out(Flavour::Redis62).await;
}

/// The clock is set back while the server is down, and its counters survive on disk.
#[tokio::test]
async fn a_step_back_while_stopped_locks_no_key_out() {
    let persistent = ["--appendonly", "yes", "--appendfsync", "always"];
    let redis = Setup::new(Flavour::Valkey).args(persistent).settable_clock().start();
    let store = connect(&redis).await;
    let hourly: Limit = "1000/h".parse().unwrap();
    let limits: Vec<Limit> = LIMITS.iter().map(|text| text.parse().unwrap()).collect();
    for (limit, number) in limits.iter().zip(0..) {
        spend_all(&store, limit, number, Consistency::Strict).await;
    }
    assert!(spend_all(&store, &hourly, 99, Consistency::Strict).await >= 1_000);
    redis.kill();
    redis.step_clock(-HOUR);
    redis.restart();
    for (limit, number) in limits.iter().zip(0..) {
        let what = format!("{limit} passes again");
        until(&what, || async {
            let checks = [check(limit, number, Consistency::Strict)];
            store.decide(&checks).await.is_ok_and(|verdicts| verdicts[0].allowed)
        })
        .await;
    }
    // The counters were read from disk: a longer limit is still spent.
    let remaining =
        run(&store, Action::Peek, check(&hourly, 99, Consistency::Strict)).await.remaining;
    assert!(remaining < 100, "{remaining}");
}

/// A step forward refills a limit once, and the step back gives nothing on top.
#[tokio::test]
async fn a_step_forward_gives_at_most_one_burst() {
    for mode in MODES {
        let redis = Setup::new(Flavour::Valkey).settable_clock().start();
        let store = connect(&redis).await;
        for (text, number) in
            ["1000/h", "1000/h fixed", "1000/h sliding", "1000/h log"].into_iter().zip(0..)
        {
            let limit: Limit = text.parse().unwrap();
            let first = spend_all(&store, &limit, number, mode).await;
            redis.step_clock(2 * HOUR);
            // A node learns of the step when it next hears from the server.
            store.flush().await;
            run(&store, Action::Peek, check(&limit, 77, Consistency::Strict)).await;
            let second = spend_all(&store, &limit, number, mode).await;
            redis.step_clock(0);
            run(&store, Action::Peek, check(&limit, 77, Consistency::Strict)).await;
            let third = spend_all(&store, &limit, number, mode).await;
            // A token takes 3.6 s to refill; the test may take some seconds.
            assert!(first <= 1_020 && second <= 1_020, "{text} {mode:?}: {first}, then {second}");
            assert!(third <= 20, "{text} {mode:?}: {third} after the step back");
        }
    }
}

/// A debt, such as a ban, is neither prolonged by the step nor forgiven.
#[tokio::test]
async fn a_step_back_keeps_debts() {
    let redis = Setup::new(Flavour::Valkey).settable_clock().start();
    let store = connect(&redis).await;
    for (text, number) in
        ["1000/s burst 1", "1000/s warmup 1s", "1000/s fixed"].into_iter().zip(0..)
    {
        let limit: Limit = text.parse().unwrap();
        let ban = Check { cost: 600_000, ..check(&limit, number, Consistency::Strict) };
        run(&store, Action::Spend, ban).await;
        for offset in [-HOUR, -2 * HOUR] {
            redis.step_clock(offset);
            let verdict = take(&store, check(&limit, number, Consistency::Strict)).await;
            let Retry::After(span) = verdict.retry else { panic!("{text}: {verdict:?}") };
            let (least, most) = (Span::from_secs(480), Span::from_secs(620));
            assert!((least..=most).contains(&span), "{text}: {span}");
        }
        // The next debt is spent right after a step forward by two hours.
        redis.step_clock(0);
    }
}

/// Nodes that are gone do not stay registered for the length of a step.
#[tokio::test]
async fn a_step_back_keeps_the_number_of_nodes() {
    let redis = Setup::new(Flavour::Valkey).settable_clock().start();
    let (first, second) = (connect(&redis).await, connect(&redis).await);
    until("two nodes", || async { first.nodes() == 2 }).await;
    redis.command(&["ZADD", "tollgate:nodes", "9999999999000000", "a node of the future"]).unwrap();
    redis.step_clock(-HOUR);
    until("the future is forgotten", || async {
        let listed = redis.command(&["ZRANGE", "tollgate:nodes", "0", "-1"]).unwrap().text();
        !listed.contains("future") && first.nodes() == 2 && second.nodes() == 2
    })
    .await;
}
