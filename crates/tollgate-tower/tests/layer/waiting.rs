//! Requests that are held back instead of refused, under virtual time.

use std::convert::Infallible;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use tokio::time::Instant;
use tollgate::Limiter;
use tollgate::rules::RuleLimiter;
use tollgate::testing::ManualClock;
use tollgate_tower::RateLimitLayer;
use tower::{Layer, ServiceExt, service_fn};

async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> {
    Ok(Response::new(String::new()))
}

/// A limiter whose clock is moved by hand, beside tokio's, which moves when nobody has work.
fn limiter(rule: &str) -> (ManualClock, RuleLimiter) {
    tokio::time::pause();
    let clock = ManualClock::new();
    let rules = format!("rules: [{{ name: r, {rule} }}]").parse().unwrap();
    let limiter = Limiter::builder().clock(&clock).build_rules(rules);
    (clock, limiter)
}

#[tokio::test]
async fn rules_that_delay_hold_requests_back() {
    let (_, limiter) = limiter("limit: 10/s burst 1, then: delay up to 250ms");
    let service = RateLimitLayer::new(limiter).layer(service_fn(answer));
    let began = Instant::now();
    let mut told = Vec::new();
    for _ in 0..5 {
        // The limiter's clock stands still, so each is further back in the line.
        let waits = Instant::now();
        let status = service.clone().oneshot(Request::new(String::new())).await.unwrap().status();
        told.push((status.as_u16(), waits.elapsed().as_millis()));
    }
    // tokio's timers are good to a millisecond.
    assert!(
        matches!(told[..], [(200, 0), (200, 100..=101), (200, 200..=201), (429, 0), (429, 0)]),
        "{told:?}"
    );
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn a_layer_that_waits_holds_back_what_rules_refuse() {
    let (_, limiter) = limiter("limit: 1/s");
    let layer = RateLimitLayer::new(limiter).wait_up_to(Duration::from_secs(2));
    let service = layer.layer(service_fn(answer));
    let mut told = Vec::new();
    for _ in 0..4 {
        let waits = Instant::now();
        let status = service.clone().oneshot(Request::new(String::new())).await.unwrap().status();
        told.push((status.as_u16(), waits.elapsed().as_secs()));
    }
    assert_eq!(told, [(200, 0), (200, 1), (200, 2), (429, 0)]);
}

#[tokio::test]
async fn a_window_is_waited_for() {
    let (clock, limiter) = limiter("limit: 1/min fixed");
    let layer = RateLimitLayer::new(limiter).wait_up_to(Duration::from_secs(60));
    let service = layer.layer(service_fn(answer));
    let ask = || service.clone().oneshot(Request::new(String::new()));
    assert_eq!(ask().await.unwrap().status(), 200);
    let mut waiting = Box::pin(ask());
    let polled =
        std::future::poll_fn(|context| Poll::Ready(pin!(&mut waiting).poll(context))).await;
    assert!(polled.is_pending());
    clock.advance(Duration::from_secs(60));
    assert_eq!(waiting.await.unwrap().status(), 200);
}

#[tokio::test]
async fn who_leaves_while_waiting_holds_nothing() {
    let (_, limiter) = limiter("limit: [1/s, 5 concurrent], then: delay up to 10s");
    let held = || limiter.explain(&tollgate::Request::empty()).rules[0].limits[1].remaining;
    let before = held();
    let service = RateLimitLayer::new(limiter.clone()).layer(service_fn(answer));
    let ask = || service.clone().oneshot(Request::new(String::new()));
    drop(ask().await.unwrap());
    let mut waiting = Box::pin(ask());
    let polled =
        std::future::poll_fn(|context| Poll::Ready(pin!(&mut waiting).poll(context))).await;
    assert!(polled.is_pending());
    assert_eq!(held(), before - 1);
    drop(waiting);
    assert_eq!(held(), before);
}
