//! Shared counters: all or none, exactly once, and removed when they no longer matter.

use std::time::Duration;

use tollgate::{Action, Check, CounterId, Limit, Limiter, Span, Store, StoreCall, StoreErrorKind};
use tollgate_redis::{Options, RedisStore};
use tollgate_rig::{Cluster, Proxy, Redis};

/// Connects with a long time-out, since the machine may be busy.
async fn connect(url: &str) -> RedisStore {
    let options: Options = url.parse().unwrap();
    let options = options.timeout(Duration::from_secs(20)).unwrap();
    let store = RedisStore::connect(options).await.unwrap();
    answers(&store).await;
    store
}

/// Waits until the store answers.
async fn answers(store: &RedisStore) {
    let (limit, deadline) = (limit("1/s"), Duration::from_secs(20));
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    let asking = async {
        let checks = [Check::new(CounterId::new(0), "any key", &limit, 0)];
        while store.run(StoreCall { action: Action::Peek, checks: &checks }).await.is_err() {
            tick.tick().await;
        }
    };
    tokio::time::timeout(deadline, asking).await.expect("the store answers");
}

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

fn cluster_url(cluster: &Cluster) -> String {
    let nodes = cluster.nodes().iter().map(|node| format!("127.0.0.1:{}", node.port()));
    format!("redis+cluster://{}", nodes.collect::<Vec<_>>().join(","))
}

/// The third of three limits refuses: the first two are not charged.
async fn a_third_denies(store: &RedisStore, keys: [&str; 3]) {
    let limits = ["100/h", "50/h fixed first_hit", "2/h"].map(limit);
    let check = |i: usize| Check::new(CounterId::new(i as u64), keys[i], &limits[i], 1);
    let checks = [check(0), check(1), check(2)];
    let passed = |verdicts: tollgate::Verdicts| verdicts.iter().all(|verdict| verdict.allowed);
    assert!(passed(store.decide(&checks).await.unwrap()));
    assert!(passed(store.decide(&checks).await.unwrap()));
    for _ in 0..5 {
        let verdicts = store.decide(&checks).await.unwrap();
        assert_eq!([0, 1, 2].map(|i| verdicts[i].allowed), [true, true, false]);
        assert_eq!([0, 1].map(|i| verdicts[i].remaining), [98, 48]);
    }
    let peek = StoreCall { action: Action::Peek, checks: &checks };
    let left = store.run(peek).await.unwrap();
    assert_eq!([0, 1, 2].map(|i| left[i].remaining), [98, 48, 0]);
}

#[tokio::test]
async fn one_refusal_charges_nothing() {
    let redis = Redis::start();
    let store = connect(&redis.url()).await;
    a_third_denies(&store, ["acme", "acme|eu", "acme|eu|ann"]).await;
    a_third_denies(&store, ["org", "team", "user"]).await;
}

/// Keys of one identity share a slot; the others are refunded.
#[tokio::test]
async fn one_refusal_charges_nothing_in_a_cluster() {
    let cluster = Cluster::start(3, 0);
    let store = connect(&cluster_url(&cluster)).await;
    a_third_denies(&store, ["acme", "acme|eu", "acme|eu|ann"]).await;
    a_third_denies(&store, ["org", "team", "user"]).await;
}

#[tokio::test]
async fn any_number_of_limits_on_one_identity_is_one_round_trip() {
    let redis = Redis::start();
    let store = connect(&redis.url()).await;
    let limits =
        ["100/s", "1000/min", "10000/h fixed first_hit", "5000/h sliding", "900/h log"].map(limit);
    let checks: Vec<Check<'_>> = (0..)
        .zip(&limits)
        .map(|(i, limit)| Check::new(CounterId::new(i), "acme|ann", limit, 1))
        .collect();
    store.decide(&checks).await.unwrap();
    let calls = || -> u64 {
        let stats = redis.command(&["INFO", "commandstats"]).unwrap().text();
        let of = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
        let calls = |name: &str| -> u64 {
            stats.lines().filter(|line| line.starts_with(name)).filter_map(of).sum()
        };
        // A node sends a heartbeat every second.
        calls("cmdstat_fcall:") - calls("cmdstat_zadd:")
    };
    let before = calls();
    for _ in 0..10 {
        assert!(store.decide(&checks).await.unwrap().iter().all(|verdict| verdict.allowed));
    }
    assert_eq!(calls() - before, 10);
}

/// The reply is lost after the server has executed the call: the client does not repeat it.
#[tokio::test]
async fn a_lost_reply_is_charged_once() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port());
    let store = connect(&proxy.url()).await;
    let limit = limit("1000/day fixed first_hit");
    let checks = [Check::new(CounterId::new(1), "ann", &limit, 1)];
    assert_eq!(store.decide(&checks).await.unwrap()[0].remaining, 999);
    proxy.swallow_replies(true);
    let error = store.decide(&checks).await.unwrap_err();
    assert!(
        matches!(error.kind(), StoreErrorKind::Unreachable | StoreErrorKind::TimedOut),
        "{error}"
    );
    proxy.swallow_replies(false);
    answers(&store).await;
    let peek = StoreCall { action: Action::Peek, checks: &checks };
    assert_eq!(store.run(peek).await.unwrap()[0].remaining, 998);
}

#[tokio::test]
async fn limiters_of_one_name_count_together() {
    let redis = Redis::start();
    let limiter = |store: RedisStore, name: &str| {
        Limiter::builder().limit(limit("3/h")).store(store).name(name).build_keyed()
    };
    let one = limiter(connect(&redis.url()).await, "mail");
    let other = limiter(connect(&redis.url()).await, "mail");
    let apart = limiter(connect(&redis.url()).await, "calls");
    for mail in [&one, &other, &one] {
        assert!(mail.decide("ann", 1).await.unwrap()[0].allowed);
    }
    assert!(!other.decide("ann", 1).await.unwrap()[0].allowed);
    assert!(apart.decide("ann", 1).await.unwrap()[0].allowed);
    one.run(Action::Reset, "ann", 0).await.unwrap();
    // A refund of another node is seen when the store is asked, and at the retry time at the
    // latest.
    assert!(one.decide("ann", 1).await.unwrap()[0].allowed);
}

#[tokio::test]
async fn a_crashed_holder_frees_its_permit() {
    let redis = Redis::start();
    let limit = limit("1 concurrent lease 300ms");
    let check = |lease| Check { lease, ..Check::new(CounterId::new(1), "job", &limit, 1) };
    let crashed = connect(&redis.url()).await;
    assert!(crashed.decide(&[check(1)]).await.unwrap()[0].allowed);
    drop(crashed);
    let store = connect(&redis.url()).await;
    assert!(!store.decide(&[check(2)]).await.unwrap()[0].allowed);
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    let freed = async {
        while !store.decide(&[check(2)]).await.unwrap()[0].allowed {
            tick.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), freed).await.expect("the lease runs out");
    let done = Action::Release { rtt: Span::ZERO, dropped: false };
    store.run(StoreCall { action: done, checks: &[check(2)] }).await.unwrap();
    assert!(store.decide(&[check(3)]).await.unwrap()[0].allowed);
}

/// A limit that needs fractions of a microsecond is refused with an explanation.
#[tokio::test]
async fn limits_that_redis_cannot_count_are_refused_with_a_reason() {
    let redis = Redis::start();
    let store = connect(&redis.url()).await;
    let odd = limit("5/1500ns fixed");
    let error = store.decide(&[Check::new(CounterId::new(1), "a", &odd, 1)]).await.unwrap_err();
    assert!(error.to_string().contains("whole"), "{error}");
    let counter = limit("5/1500ns burst 9");
    assert!(
        store.decide(&[Check::new(CounterId::new(2), "a", &counter, 1)]).await.unwrap()[0].allowed
    );
}

#[tokio::test]
async fn every_key_expires() {
    let redis = Redis::start();
    let store = connect(&redis.url()).await;
    let texts = [
        "5/h",
        "5/h burst 9 initial 2",
        "5/h interval",
        "5/h fixed",
        "5/day calendar",
        "5/h sliding",
        "5/h log",
        "5/h sliding slots 6",
        "5/h warmup 1h",
        "3 concurrent",
        "5/h fixed count_denied",
    ];
    for (counter, text) in (0..).zip(texts) {
        let limit = limit(text);
        for cost in [1, 1, 7, 1 << 53] {
            for action in [Action::Take { max_wait: Span::MAX }, Action::Spend] {
                let check = Check::new(CounterId::new(counter), text, &limit, cost);
                store.run(StoreCall { action, checks: &[check] }).await.unwrap();
            }
        }
    }
    let keys = redis.command(&["KEYS", "tollgate:*"]).unwrap();
    assert!(keys.list().len() >= texts.len(), "{keys:?}");
    for key in keys.list() {
        let left = redis.command(&["PTTL", &key.text()]).unwrap().int().unwrap();
        assert!(left > 0, "{}: {left}", key.text());
    }
}
