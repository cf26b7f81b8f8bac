//! Bans that nodes share: one node bans, all refuse, any node lists and lifts.

use std::pin::Pin;
use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate_redis::{Options, RedisStore};
use tollgate_rig::{Flavour, Redis};
use tollgate_rules::{Decision, Reason, Request, RuleLimiter};

const PATIENT: Duration = Duration::from_secs(20);

fn rules(consistency: &str) -> String {
    format!(
        "
defaults: {{ consistency: {consistency} }}
attributes: [user]
rules:
  - {{ name: api, per: user, limit: 2/h, then: 'ban [1min, 1h] after 2 denials in 1min' }}
"
    )
}

async fn node(redis: &Redis, rules: &str) -> RuleLimiter<RedisStore> {
    let options: Options = redis.url().parse().unwrap();
    let store = RedisStore::connect(options.timeout(PATIENT).unwrap()).await.unwrap();
    RuleLimiter::builder().store(store).build(rules.parse().unwrap())
}

fn user(name: &str) -> Request<'_> {
    Request::empty().attribute("user", name)
}

/// Boxed, because a decision at a store is a large future.
fn ask<'a>(
    node: &'a RuleLimiter<RedisStore>,
    request: &'a Request<'_>,
) -> Pin<Box<dyn Future<Output = Decision> + Send + 'a>> {
    Box::pin(node.decide(request))
}

/// Asks until a node gives the wanted answer: changes of other nodes arrive a moment later.
async fn eventually(node: &RuleLimiter<RedisStore>, name: &str, wanted: Reason) {
    let asking = async {
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        while ask(node, &user(name)).await.reason != wanted {
            tick.tick().await;
        }
    };
    tokio::time::timeout(PATIENT, asking).await.unwrap_or_else(|_| panic!("never {wanted:?}"));
}

async fn share(redis: &Redis, consistency: &str) {
    let rules = rules(consistency);
    let (one, other) = (node(redis, &rules).await, node(redis, &rules).await);
    let mut begun = 0;
    for _ in 0..8 {
        begun += u32::from(ask(&one, &user("mallory")).await.starts_ban());
    }
    assert_eq!(begun, 1);
    eventually(&other, "mallory", Reason::Banned).await;
    assert!(ask(&other, &user("ann")).await.allowed);
    for node in [&one, &other] {
        let bans = node.bans().list().await.unwrap();
        let shown: Vec<_> = bans.iter().map(|ban| (&*ban.rule, &*ban.key, ban.rung)).collect();
        assert_eq!(shown, [("api", "mallory", 1)]);
        assert!(bans[0].until > node.clock().now());
    }
    assert_eq!(
        (one.bans().banned_keys(), other.bans().banned_keys()),
        (1, 0),
        "each counts its own"
    );
    assert_eq!(other.bans().lift(None, "api", "mallory").await.unwrap(), Some(true));
    assert!(one.bans().list().await.unwrap().is_empty());
    assert_eq!(one.bans().banned_keys(), 0);
    // The limit is still exhausted: it refuses, and one refusal is not enough for a ban.
    eventually(&one, "mallory", Reason::OverLimit).await;
}

#[tokio::test]
async fn a_ban_of_one_node_applies_to_all() {
    for flavour in Flavour::ALL {
        share(&Redis::start_flavour(flavour), "strict").await;
    }
}

/// With local decisions, bans arrive a moment later.
#[tokio::test]
async fn a_ban_is_shared_where_limits_are_leased() {
    share(&Redis::start(), "leased").await;
}

/// A ban is exact to the microsecond, as in memory, by a manual clock.
#[tokio::test]
async fn a_ban_in_redis_is_exact() {
    let redis = Redis::start();
    let clock = ManualClock::new();
    let options: Options = redis.url().parse().unwrap();
    let options = options.timeout(PATIENT).unwrap();
    let store = RedisStore::connect_at(options, &clock).await.unwrap();
    let rules =
        "attributes: [user]\nrules: [{ name: api, per: user, limit: 1/s, then: 'ban [1min, 1h]' }]";
    let limiter = RuleLimiter::builder().store(store).clock(&clock).build(rules.parse().unwrap());
    for length in [60, 3600, 3600] {
        while ask(&limiter, &user("mallory")).await.allowed {}
        let banned = ask(&limiter, &user("mallory")).await;
        assert_eq!(banned.retry_after, Some(Duration::from_secs(length)));
        clock.advance(Duration::from_secs(length) - Duration::from_micros(1));
        assert_eq!(ask(&limiter, &user("mallory")).await.reason, Reason::Banned);
        clock.advance(Duration::from_micros(1));
    }
    assert!(ask(&limiter, &user("mallory")).await.allowed);
}

/// Of equal ids that reach several nodes at the same time, one is charged.
#[tokio::test]
async fn a_retry_at_another_node_is_charged_once() {
    let redis = Redis::start();
    let rules =
        "attributes: [id, user]\nrules: [{ name: orders, per: user, limit: 100/h, dedupe: id }]";
    let nodes = [node(&redis, rules).await, node(&redis, rules).await];
    for number in 0..20 {
        let id = number.to_string();
        let request = user("ann").attribute("id", &*id);
        let (one, other) = tokio::join!(ask(&nodes[0], &request), ask(&nodes[1], &request));
        assert!(one.allowed && other.allowed);
        assert_eq!(one.limits().count() + other.limits().count(), 1, "one of them was charged");
    }
    let last = ask(&nodes[0], &user("ann").attribute("id", "last")).await;
    assert_eq!(last.tightest().unwrap().verdict.remaining, 79);
}
