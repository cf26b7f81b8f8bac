//! The polite client with services that the layer limits.

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
use tollgate_rules::RuleLimiter;
use tollgate_tower::RateLimitLayer;
use tollgate_tower::client::{Polite, PoliteError, PoliteLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::serve::hello;

fn to(host: &str) -> Request<String> {
    Request::get(format!("http://{host}/")).body(String::new()).unwrap()
}

/// Returns a service behind a rule whose clock follows tokio's virtual time.
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
    let limiter = RuleLimiter::builder().clock(&clock).build(rules);
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
async fn the_client_waits_instead_of_being_refused() {
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
        // The response headers report an exhausted limit before the next request.
        assert_eq!(refusals, 0, "{rule}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_below_a_second_neither_refuse_the_client_nor_slow_it_down() {
    for (rule, per_second) in [
        ("limit: 1000/s burst 1", 1000_u32),
        ("limit: 100/s burst 2", 100),
        ("limit: 20/s burst 3", 20),
        ("limit: 10/100ms", 100),
        ("limit: 10/100ms fixed", 100),
        ("limit: 4/500ms log", 8),
    ] {
        let client = PoliteLayer::new().layer(limited(rule));
        let began = Instant::now();
        for number in 0..3 * per_second {
            let reply = client.clone().oneshot(to("a.example")).await.unwrap();
            assert_eq!(reply.status(), 200, "{rule}: request {number}");
        }
        // Sleeps are whole milliseconds, so each may take one more.
        let most = Duration::from_secs(3) + Duration::from_millis(1) * 3 * per_second;
        assert!(began.elapsed() <= most, "{rule}: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn without_rate_limit_headers_the_client_waits_after_a_refusal() {
    let limited = limited("limit: 2/min fixed");
    let without_headers = service_fn(move |request| {
        let limited = limited.clone();
        async move {
            let mut reply = limited.oneshot(request).await?;
            reply.headers_mut().remove("ratelimit");
            Ok::<_, Infallible>(reply)
        }
    });
    let client = PoliteLayer::new().layer(without_headers);
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(client.clone().oneshot(to("a.example")).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429, 200, 200, 429]);
}

/// Returns a client of a service that refuses and counts all requests.
fn start_refusing(
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
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = requests.clone();
    let service = service_fn(move |_: Request<String>| {
        counter.fetch_add(1, Ordering::Relaxed);
        let reply = Response::builder().status(503).header("retry-after", retry_after);
        std::future::ready(Ok::<_, Infallible>(reply.body(String::new()).unwrap()))
    });
    (requests, PoliteLayer::new().wait_up_to(Duration::from_secs(10)).layer(service))
}

#[tokio::test(start_paused = true)]
async fn the_client_waits_for_the_retry_time_of_a_host() {
    let (requests, client) = start_refusing("5");
    let send = |host: &'static str| client.clone().oneshot(to(host));
    assert_eq!(send("a.example").await.unwrap().status(), 503);
    let began = Instant::now();
    assert_eq!(send("A.example").await.unwrap().status(), 503);
    assert!(began.elapsed() >= Duration::from_secs(5), "the client did not wait");
    let began = Instant::now();
    assert_eq!(send("b.example").await.unwrap().status(), 503);
    assert_eq!(began.elapsed(), Duration::ZERO, "other hosts are not affected");
    assert_eq!(requests.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_request_with_an_excessive_wait_is_not_sent() {
    let (requests, client) = start_refusing("99999999999999999999999");
    let send = || client.clone().oneshot(to("a.example"));
    assert_eq!(send().await.unwrap().status(), 503);
    let PoliteError::TooLong(too_long) = send().await.unwrap_err() else {
        panic!("the request was sent")
    };
    assert_eq!(too_long.host, "a.example");
    assert_eq!(too_long.wait, Duration::from_secs(3600), "capped");
    assert_eq!(requests.load(Ordering::Relaxed), 1);
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!(send().await.unwrap().status(), 503);
}

#[tokio::test]
async fn the_client_obeys_its_own_limiter() {
    let clock = ManualClock::new();
    let limit = "1/min".parse::<tollgate::Limit>().unwrap();
    let limiter = Limiter::builder().limit(limit).clock(&clock).build_keyed();
    let polite = PoliteLayer::new().limiter(limiter).wait_up_to(Duration::from_secs(90));
    let client = polite.layer(service_fn(async |_: Request<String>| {
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    let send = |host: &'static str| client.clone().oneshot(to(host));
    send("a.example").await.unwrap();
    send("b.example").await.unwrap();
    let waiting = tokio::spawn(send("a.example"));
    while clock.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    let PoliteError::TooLong(too_long) = send("a.example").await.unwrap_err() else { panic!() };
    assert_eq!(too_long.wait, Duration::from_secs(120));
    clock.advance(Duration::from_secs(60));
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_client_works_over_a_real_socket() {
    let clock = ManualClock::new();
    let rules = "rules: [{ name: r, limit: 1/h fixed }]".parse().unwrap();
    let limiter = RuleLimiter::builder().clock(&clock).build(rules);
    let address = hello(RateLimitLayer::new(limiter)).await;
    let client = Client::builder(TokioExecutor::new()).build_http::<String>();
    let client = PoliteLayer::new().wait_up_to(Duration::ZERO).layer(client);
    let send = || client.clone().oneshot(to(&address.to_string()));
    assert_eq!(send().await.unwrap().status(), 200);
    // The first response reports an exhausted limit, so the second request is not sent.
    let error = send().await.unwrap_err();
    assert!(error.to_string().contains("is to be left alone"), "{error}");
}
