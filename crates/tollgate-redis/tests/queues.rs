//! Requests that are queued for limits shared with other nodes.
#![recursion_limit = "256"]

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tollgate_redis::{Options, RedisStore};
use tollgate_rig::Redis;
use tollgate_rules::{Decision, Outcome, Request, RuleLimiter};

/// Longer than the time-out of a real caller, since the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(20);

type Node = RuleLimiter<RedisStore>;
type Waiting<'n> = Pin<Box<dyn Future<Output = Decision> + 'n>>;

async fn node(redis: &Redis, rule: &str) -> Node {
    let options: Options = redis.url().parse().unwrap();
    let store = RedisStore::connect(options.timeout(DEADLINE).unwrap()).await.unwrap();
    let rules = format!("rules: [{{ name: r, on_error: deny, {rule} }}]").parse().unwrap();
    let limiter = RuleLimiter::builder().store(store).build(rules);
    within(async {
        while limiter.decide(&Request::empty().dry_run()).await.without_store().is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    limiter
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("in time")
}

/// Starts a request that is queued.
async fn queued(node: &Node) -> Waiting<'_> {
    let mut waiting: Waiting<'_> = Box::pin(async { node.admit(&Request::empty()).await });
    let enqueued = poll_fn(|context| {
        assert!(waiting.as_mut().poll(context).is_pending(), "it must wait");
        match node.status().queues().is_empty() {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    });
    within(enqueued).await;
    waiting
}

#[tokio::test]
async fn a_permit_released_by_another_node_is_taken() {
    let redis = Redis::start();
    let rule = "limit: 1 concurrent, then: queue 5 up to 1min";
    let (one, other) = (node(&redis, rule).await, node(&redis, rule).await);
    let held = one.admit(&Request::empty()).await;
    assert!(held.allowed);
    let waiting = queued(&other).await;
    held.admission().unwrap().settle(Outcome::unknown()).await.unwrap();
    let decision = within(waiting).await;
    assert!(decision.allowed && !decision.wait.is_zero());
    assert!(other.status().queues().is_empty());
}

#[tokio::test]
async fn a_cancelled_request_returns_its_queue_position() {
    let redis = Redis::start();
    let node = node(&redis, "limit: 1/h burst 1, then: queue 5 up to 3h").await;
    assert!(node.admit(&Request::empty()).await.allowed);
    let turn = async || node.decide(&Request::empty().dry_run()).await.wait.as_secs_f64().round();
    let first = turn().await;
    drop(queued(&node).await);
    assert!(node.status().queues().is_empty());
    assert!(turn().await > first + 3_000.0, "not yet");
    // The next request on this key returns it to the store.
    drop(queued(&node).await);
    node.decide(&Request::empty().cost(0)).await;
    let after = turn().await;
    assert!((first - 100.0..=first).contains(&after), "{after} s, and {first} s before");
}

#[tokio::test]
async fn a_renewed_permit_outlives_its_lease() {
    let redis = Redis::start();
    let node = node(&redis, "limit: 1 concurrent lease 3s").await;
    let admission = node.admit(&Request::empty()).await.take_admission().expect("it has a permit");
    let mut maintenance = admission.maintenance().expect("nobody else has it");
    let left = async || node.decide(&Request::empty().dry_run()).await.retry_after.unwrap();
    let later = async {
        while left().await > Duration::from_millis(1_900) {
            tokio::task::yield_now().await;
        }
    };
    within(later).await;
    assert!(maintenance.run().await.is_some());
    assert!(left().await > Duration::from_millis(2_500), "it starts anew");
    admission.settle(Outcome::unknown().took(Duration::from_secs(1))).await.unwrap();
    assert_eq!(maintenance.run().await, None);
    assert!(node.admit(&Request::empty()).await.allowed);
}
