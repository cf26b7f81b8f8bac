//! Requests that stand in line for limits they share with other nodes.
#![recursion_limit = "256"]

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tollgate::rules::{Decision, RuleLimiter};
use tollgate::{Limiter, Request};
use tollgate_redis::{Options, RedisStore};
use tollgate_rig::Redis;

/// More patient than a real caller: the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(20);

type Node = RuleLimiter<RedisStore>;
type Waiting<'n> = Pin<Box<dyn Future<Output = Decision> + 'n>>;

async fn node(redis: &Redis, rule: &str) -> Node {
    let options: Options = redis.url().parse().unwrap();
    let store = RedisStore::connect(options.timeout(DEADLINE).unwrap()).await.unwrap();
    let rules = format!("rules: [{{ name: r, on_error: deny, {rule} }}]").parse().unwrap();
    let limiter = Limiter::builder().store(store).build_rules(rules);
    within(async {
        while limiter.preview(&Request::empty()).await.without_store().is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    limiter
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("in time")
}

/// Somebody who stands in line.
async fn stands(node: &Node) -> Waiting<'_> {
    let mut waiting: Waiting<'_> = Box::pin(async { node.admit(&Request::empty()).await });
    let in_line = poll_fn(|context| {
        assert!(waiting.as_mut().poll(context).is_pending(), "it waits");
        match node.waiting().is_empty() {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    });
    within(in_line).await;
    waiting
}

#[tokio::test]
async fn a_place_that_another_node_gives_back_is_found() {
    let redis = Redis::start();
    let rule = "limit: 1 concurrent, then: queue 5 up to 1min";
    let (one, other) = (node(&redis, rule).await, node(&redis, rule).await);
    let held = one.admit(&Request::empty()).await;
    assert!(held.allowed);
    let waiting = stands(&other).await;
    one.done(&held, Duration::from_millis(1), false).await.unwrap();
    let decision = within(waiting).await;
    assert!(decision.allowed && !decision.wait.is_zero());
    assert!(other.waiting().is_empty());
}

#[tokio::test]
async fn who_leaves_gives_its_turn_back_to_the_store() {
    let redis = Redis::start();
    let node = node(&redis, "limit: 1/h burst 1, then: queue 5 up to 3h").await;
    assert!(node.admit(&Request::empty()).await.allowed);
    let turn = async || node.preview(&Request::empty()).await.wait.as_secs_f64().round();
    let first = turn().await;
    drop(stands(&node).await);
    assert!(node.waiting().is_empty());
    assert!(turn().await > first + 3_000.0, "not yet");
    // Whoever comes next takes it along.
    drop(stands(&node).await);
    node.renew_due().await;
    let after = turn().await;
    assert!((first - 100.0..=first).contains(&after), "{after} s, and {first} s before");
}

#[tokio::test]
async fn a_place_that_is_kept_outlives_its_lease() {
    let redis = Redis::start();
    let node = node(&redis, "limit: 1 concurrent lease 10s").await;
    let held = node.admit(&Request::empty()).await;
    let left = async || node.preview(&Request::empty()).await.retry_after.unwrap();
    let keeping = node.keep(&held).expect("it has a place");
    let later = async {
        while left().await > Duration::from_millis(9_800) {
            tokio::task::yield_now().await;
        }
    };
    within(later).await;
    node.renew(&held).await.unwrap();
    assert!(left().await > Duration::from_millis(9_800), "it starts anew");
    drop(keeping);
    node.done(&held, Duration::from_secs(1), false).await.unwrap();
    assert!(node.admit(&Request::empty()).await.allowed);
}
