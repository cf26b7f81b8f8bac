//! The polite client, against services that are limited by the layer.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::Instant;
use tollgate::Limiter;
use tollgate::testing::ManualClock;
use tollgate_tower::RateLimitLayer;
use tollgate_tower::client::{Polite, PoliteError, PoliteLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::serve::hello;

fn to(host: &str) -> Request<String> {
    Request::get(format!("http://{host}/")).body(String::new()).unwrap()
}

/// A service behind a limit whose clock goes with tokio's, which is virtual.
fn limited(
    rule: &str,
) -> impl Service<
    Request<String>,
    Response = Response<tollgate_tower::LimitedBody<String>>,
    Error = Infallible,
    Future: Send,
> + Clone
+ Send
+ 'static {
    let clock = ManualClock::new();
    let began = Instant::now();
    let rules = format!("rules: [{{ name: r, {rule} }}]").parse().unwrap();
    let limiter = Limiter::builder().clock(&clock).build_rules(rules);
    let layer = RateLimitLayer::new(limiter).attribute("moved", move |_| {
        let at = began.elapsed() - (clock.now().since(ManualClock::new().now())).into();
        clock.advance(at);
        Some(true)
    });
    layer.layer(service_fn(async |_: Request<String>| {
        Ok::<_, Infallible>(Response::new("hello".to_owned()))
    }))
}

#[tokio::test(start_paused = true)]
async fn never_two_refusals_in_a_row() {
    for rule in ["limit: 3/s", "limit: 10/min fixed", "limit: 5/10s sliding", "limit: 2/s burst 7"]
    {
        let client = PoliteLayer::new().layer(limited(rule));
        let mut refused_before = false;
        let mut refusals = 0;
        for _ in 0..50 {
            let reply = client.clone().oneshot(to("a.example")).await.unwrap();
            let refused = reply.status() == 429;
            assert!(!(refused && refused_before), "{rule}");
            refused_before = refused;
            refusals += usize::from(refused);
        }
        // It is told that nothing is left before it asks for more.
        assert_eq!(refusals, 0, "{rule}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_not_told_beforehand_is_refused_once() {
    let silent = limited("limit: 2/min fixed");
    let quiet = service_fn(move |request| {
        let silent = silent.clone();
        async move {
            let mut reply = silent.oneshot(request).await?;
            reply.headers_mut().remove("ratelimit");
            Ok::<_, Infallible>(reply)
        }
    });
    let client = PoliteLayer::new().layer(quiet);
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(client.clone().oneshot(to("a.example")).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429, 200, 200, 429]);
}

/// A service that refuses everything and counts.
fn refusing(
    retry_after: &'static str,
) -> (
    Arc<AtomicUsize>,
    Polite<
        impl Service<Request<String>, Response = Response<String>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
    >,
) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let service = service_fn(move |_: Request<String>| {
        counter.fetch_add(1, Ordering::Relaxed);
        let reply = Response::builder().status(503).header("retry-after", retry_after);
        std::future::ready(Ok::<_, Infallible>(reply.body(String::new()).unwrap()))
    });
    (asked, PoliteLayer::new().wait_up_to(Duration::from_secs(10)).layer(service))
}

#[tokio::test(start_paused = true)]
async fn a_service_that_wants_silence_gets_it() {
    let (asked, client) = refusing("5");
    let ask = |host: &'static str| client.clone().oneshot(to(host));
    assert_eq!(ask("a.example").await.unwrap().status(), 503);
    let began = Instant::now();
    assert_eq!(ask("A.example").await.unwrap().status(), 503);
    assert!(began.elapsed() >= Duration::from_secs(5), "waited");
    let began = Instant::now();
    assert_eq!(ask("b.example").await.unwrap().status(), 503);
    assert_eq!(began.elapsed(), Duration::ZERO, "others are not affected");
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn what_would_wait_too_long_is_not_sent() {
    let (asked, client) = refusing("99999999999999999999999");
    let ask = || client.clone().oneshot(to("a.example"));
    assert_eq!(ask().await.unwrap().status(), 503);
    let PoliteError::TooLong(too_long) = ask().await.unwrap_err() else { panic!("it was sent") };
    assert_eq!(too_long.host, "a.example");
    assert_eq!(too_long.wait, Duration::from_secs(3600), "capped");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!(ask().await.unwrap().status(), 503);
}

#[tokio::test]
async fn a_limit_of_ones_own_is_kept() {
    let clock = ManualClock::new();
    let limit = "1/min".parse::<tollgate::Limit>().unwrap();
    let limiter = Limiter::builder().limit(limit).clock(&clock).build_keyed();
    let polite = PoliteLayer::new().limiter(limiter).wait_up_to(Duration::from_secs(90));
    let client = polite.layer(service_fn(async |_: Request<String>| {
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    let ask = |host: &'static str| client.clone().oneshot(to(host));
    ask("a.example").await.unwrap();
    ask("b.example").await.unwrap();
    let waiting = tokio::spawn(ask("a.example"));
    while clock.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    let PoliteError::TooLong(too_long) = ask("a.example").await.unwrap_err() else { panic!() };
    assert_eq!(too_long.wait, Duration::from_secs(120));
    clock.advance(Duration::from_secs(60));
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn over_a_real_socket() {
    let clock = ManualClock::new();
    let rules = "rules: [{ name: r, limit: 1/h fixed }]".parse().unwrap();
    let limiter = Limiter::builder().clock(&clock).build_rules(rules);
    let address = hello(RateLimitLayer::new(limiter)).await;
    let client = Client::builder(TokioExecutor::new()).build_http::<String>();
    let client = PoliteLayer::new().wait_up_to(Duration::ZERO).layer(client);
    let ask = || client.clone().oneshot(to(&address.to_string()));
    assert_eq!(ask().await.unwrap().status(), 200);
    // Nothing is left, it was told: the second one is not even sent.
    let error = ask().await.unwrap_err();
    assert!(error.to_string().contains("is to be left alone"), "{error}");
}
