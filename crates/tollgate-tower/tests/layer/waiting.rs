//! Requests that are delayed instead of refused, under virtual time.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use tollgate::testing::ManualClock;
use tollgate_rules::RuleLimiter;
use tollgate_tower::{LimitedBody, RateLimit, RateLimitLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::serve::ready;

type LimitedResponse = Response<LimitedBody<String>>;
type WaitingRequest = Pin<Box<dyn Future<Output = Result<LimitedResponse, Infallible>>>>;

async fn hello(_: Request<String>) -> Result<Response<String>, Infallible> {
    Ok(Response::new("hello".to_owned()))
}

/// Returns a limiter with one rule and its manual clock.
fn limiter(rule: &str) -> (ManualClock, RuleLimiter) {
    let clock = ManualClock::new();
    let rules = format!("rules: [{{ name: r, {rule} }}]").parse().unwrap();
    let limiter = RuleLimiter::builder().clock(&clock).build(rules);
    (clock, limiter)
}

/// Creates requests that are not polled yet.
fn requests<I>(service: &RateLimit<I>, times: usize) -> Vec<WaitingRequest>
where
    I: Service<Request<String>, Response = Response<String>, Error = Infallible>,
    I: Clone + Send + 'static,
    I::Future: Send,
{
    let one = |_| Box::pin(service.clone().oneshot(Request::new(String::new()))) as WaitingRequest;
    (0..times).map(one).collect()
}

async fn poll_once(waiting: &mut WaitingRequest) -> Option<LimitedResponse> {
    poll_fn(|context| match waiting.as_mut().poll(context) {
        Poll::Ready(response) => Poll::Ready(response.ok()),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Polls requests to their end; returns the status of each and its wait in milliseconds.
async fn outcomes(clock: &ManualClock, mut all: Vec<WaitingRequest>) -> Vec<(u16, u64)> {
    let mut found = vec![None; all.len()];
    for ms in 0..5_000 {
        for (waiting, outcome) in all.iter_mut().zip(&mut found) {
            if outcome.is_none()
                && let Some(response) = poll_once(waiting).await
            {
                *outcome = Some((response.status().as_u16(), ms));
            }
        }
        if found.iter().all(Option::is_some) {
            break;
        }
        clock.advance(Duration::from_millis(1));
    }
    found.into_iter().map(|outcome| outcome.expect("a response")).collect()
}

#[tokio::test]
async fn rules_can_delay_requests() {
    let (clock, limiter) = limiter("limit: 10/s burst 1, then: delay up to 250ms");
    let service = RateLimitLayer::new(limiter).layer(service_fn(hello));
    let found = outcomes(&clock, requests(&service, 5)).await;
    assert_eq!(found, [(200, 0), (200, 100), (200, 200), (429, 0), (429, 0)]);
}

#[tokio::test]
async fn a_queue_has_a_bounded_length() {
    let (clock, limiter) = limiter("limit: 10/s burst 1, then: queue 2 up to 1s lifo");
    let service = RateLimitLayer::new(limiter).layer(service_fn(hello));
    let found = outcomes(&clock, requests(&service, 4)).await;
    assert_eq!(found, [(200, 0), (200, 200), (200, 100), (429, 0)]);
}

#[tokio::test]
async fn a_layer_can_wait_for_limits_of_rules_that_refuse() {
    let (clock, limiter) = limiter("limit: 1/s");
    let layer = RateLimitLayer::new(limiter).wait_up_to(Duration::from_secs(2));
    let found = outcomes(&clock, requests(&layer.layer(service_fn(hello)), 4)).await;
    assert_eq!(found, [(200, 0), (200, 1_000), (200, 2_000), (429, 0)]);
}

#[tokio::test]
async fn a_layer_can_wait_for_a_permit() {
    let (clock, limiter) = limiter("limit: 1 concurrent");
    let layer = RateLimitLayer::new(limiter).wait_up_to(Duration::from_secs(1));
    let service = layer.layer(service_fn(hello));
    let mut all = requests(&service, 3);
    let first = poll_once(&mut all[0]).await.unwrap();
    assert!(poll_once(&mut all[1]).await.is_none());
    assert!(poll_once(&mut all[2]).await.is_none());
    clock.advance(Duration::from_millis(10));
    drop(first);
    assert!(poll_once(&mut all[2]).await.is_none(), "requests wait in order");
    let second = poll_once(&mut all[1]).await.unwrap();
    assert_eq!(second.status(), 200);
    clock.advance(Duration::from_millis(990));
    let third = poll_once(&mut all[2]).await.unwrap();
    assert_eq!(third.status(), 429, "the maximum wait is over");
}

#[tokio::test]
async fn a_layer_can_wait_for_the_next_window() {
    let (clock, limiter) = limiter("limit: 1/min fixed");
    let layer = RateLimitLayer::new(limiter).wait_up_to(Duration::from_secs(60));
    let service = layer.layer(service_fn(hello));
    let mut all = requests(&service, 2);
    assert_eq!(poll_once(&mut all[0]).await.unwrap().status(), 200);
    assert!(poll_once(&mut all[1]).await.is_none());
    clock.advance(Duration::from_secs(60));
    assert_eq!(poll_once(&mut all[1]).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_cancelled_request_releases_its_permit_and_queue_position() {
    let (_, limiter) = limiter("limit: [1/s, 5 concurrent], then: delay up to 10s");
    let left = || {
        let explained = ready(limiter.explain(&tollgate_rules::Request::empty()));
        [0, 1].map(|limit| explained.rules[0].limits[limit].remaining)
    };
    let service = RateLimitLayer::new(limiter.clone()).layer(service_fn(hello));
    let mut all = requests(&service, 3);
    drop(poll_once(&mut all[0]).await.unwrap());
    let before = left();
    assert!(poll_once(&mut all[1]).await.is_none());
    assert_eq!(left()[1], before[1] - 1);
    drop(all.remove(1));
    assert_eq!(left(), before);
    // A request that was never polled takes nothing.
    drop(service.clone().call(Request::new(String::new())));
    assert_eq!(left(), before);
    assert!(limiter.status().queues().is_empty());
}
