//! Requests that are held back instead of refused, under virtual time.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use tollgate::Limiter;
use tollgate::rules::RuleLimiter;
use tollgate::testing::ManualClock;
use tollgate_tower::{LimitedBody, RateLimit, RateLimitLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

type Answer = Response<LimitedBody<String>>;
type Waiting = Pin<Box<dyn Future<Output = Result<Answer, Infallible>>>>;

async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> {
    Ok(Response::new("answer".to_owned()))
}

/// A limiter whose clock is moved by hand.
fn limiter(rule: &str) -> (ManualClock, RuleLimiter) {
    let clock = ManualClock::new();
    let rules = format!("rules: [{{ name: r, {rule} }}]").parse().unwrap();
    let limiter = Limiter::builder().clock(&clock).build_rules(rules);
    (clock, limiter)
}

/// Asks so many times at once.
fn ask<I>(service: &RateLimit<I>, times: usize) -> Vec<Waiting>
where
    I: Service<Request<String>, Response = Response<String>, Error = Infallible>,
    I: Clone + Send + 'static,
    I::Future: Send,
{
    let one = |_| Box::pin(service.clone().oneshot(Request::new(String::new()))) as Waiting;
    (0..times).map(one).collect()
}

async fn is_answered(waiting: &mut Waiting) -> Option<Answer> {
    poll_fn(|context| match waiting.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(answer.ok()),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// How each is answered, and after how many milliseconds. Answers are taken to their end.
async fn answers(clock: &ManualClock, mut all: Vec<Waiting>) -> Vec<(u16, u64)> {
    let mut told = vec![None; all.len()];
    for ms in 0..5_000 {
        for (waiting, told) in all.iter_mut().zip(&mut told) {
            if told.is_none()
                && let Some(answer) = is_answered(waiting).await
            {
                *told = Some((answer.status().as_u16(), ms));
            }
        }
        if told.iter().all(Option::is_some) {
            break;
        }
        clock.advance(Duration::from_millis(1));
    }
    told.into_iter().map(|told| told.expect("an answer")).collect()
}

#[tokio::test]
async fn rules_that_delay_hold_requests_back() {
    let (clock, limiter) = limiter("limit: 10/s burst 1, then: delay up to 250ms");
    let service = RateLimitLayer::new(limiter).layer(service_fn(answer));
    let told = answers(&clock, ask(&service, 5)).await;
    assert_eq!(told, [(200, 0), (200, 100), (200, 200), (429, 0), (429, 0)]);
}

#[tokio::test]
async fn a_queue_has_so_many_places() {
    let (clock, limiter) = limiter("limit: 10/s burst 1, then: queue 2 up to 1s lifo");
    let service = RateLimitLayer::new(limiter).layer(service_fn(answer));
    let told = answers(&clock, ask(&service, 4)).await;
    assert_eq!(told, [(200, 0), (200, 200), (200, 100), (429, 0)]);
}

#[tokio::test]
async fn a_layer_that_waits_holds_back_what_rules_refuse() {
    let (clock, limiter) = limiter("limit: 1/s");
    let layer = RateLimitLayer::new(limiter).wait_up_to(Duration::from_secs(2));
    let told = answers(&clock, ask(&layer.layer(service_fn(answer)), 4)).await;
    assert_eq!(told, [(200, 0), (200, 1_000), (200, 2_000), (429, 0)]);
}

#[tokio::test]
async fn a_place_among_those_in_flight_is_waited_for() {
    let (clock, limiter) = limiter("limit: 1 concurrent");
    let layer = RateLimitLayer::new(limiter).wait_up_to(Duration::from_secs(1));
    let service = layer.layer(service_fn(answer));
    let mut all = ask(&service, 3);
    let first = is_answered(&mut all[0]).await.unwrap();
    assert!(is_answered(&mut all[1]).await.is_none());
    assert!(is_answered(&mut all[2]).await.is_none());
    clock.advance(Duration::from_millis(10));
    drop(first);
    assert!(is_answered(&mut all[2]).await.is_none(), "nobody is overtaken");
    let second = is_answered(&mut all[1]).await.unwrap();
    assert_eq!(second.status(), 200);
    clock.advance(Duration::from_millis(990));
    let third = is_answered(&mut all[2]).await.unwrap();
    assert_eq!(third.status(), 429, "a second, and no longer");
}

#[tokio::test]
async fn a_window_is_waited_for() {
    let (clock, limiter) = limiter("limit: 1/min fixed");
    let layer = RateLimitLayer::new(limiter).wait_up_to(Duration::from_secs(60));
    let service = layer.layer(service_fn(answer));
    let mut all = ask(&service, 2);
    assert_eq!(is_answered(&mut all[0]).await.unwrap().status(), 200);
    assert!(is_answered(&mut all[1]).await.is_none());
    clock.advance(Duration::from_secs(60));
    assert_eq!(is_answered(&mut all[1]).await.unwrap().status(), 200);
}

#[tokio::test]
async fn who_leaves_while_waiting_holds_nothing() {
    let (_, limiter) = limiter("limit: [1/s, 5 concurrent], then: delay up to 10s");
    let left = || {
        let explained = limiter.explain(&tollgate::Request::empty());
        [0, 1].map(|limit| explained.rules[0].limits[limit].remaining)
    };
    let service = RateLimitLayer::new(limiter.clone()).layer(service_fn(answer));
    let mut all = ask(&service, 3);
    drop(is_answered(&mut all[0]).await.unwrap());
    let before = left();
    assert!(is_answered(&mut all[1]).await.is_none());
    assert_eq!(left()[1], before[1] - 1);
    drop(all.remove(1));
    assert_eq!(left(), before);
    // Not even asked for, it holds nothing either.
    drop(service.clone().call(Request::new(String::new())));
    assert_eq!(left(), before);
    assert!(limiter.waiting().is_empty());
}
