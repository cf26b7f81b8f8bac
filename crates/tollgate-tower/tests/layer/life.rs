//! The life of a request: outcomes are counted, and permits are released however it ends.

use std::convert::Infallible;
use std::pin::pin;
use std::task::Poll;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::get as on_get;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use tollgate::{MemoryStore, Store, StoreCall, StoreError, Verdicts};
use tollgate_rules::RuleLimiter;
use tollgate_tower::{Peer, RateLimitLayer};
use tower::{Layer, ServiceExt, service_fn};

use super::serve::{get, serve};

fn with_one_permit() -> (RuleLimiter, RateLimitLayer) {
    let rules = "rules: [{ name: db, limit: 1 concurrent }]".parse().unwrap();
    let limiter = RuleLimiter::new(rules);
    (limiter.clone(), RateLimitLayer::new(limiter))
}

fn is_free(limiter: &RuleLimiter) -> bool {
    limiter.decide_now(&tollgate_rules::Request::empty()).allowed
}

#[tokio::test]
async fn outcomes_are_counted() {
    let rules = "rules: [{ name: login, per: ip, limit: 2/h, count: response.status == 401 }]";
    let layer = RateLimitLayer::from_rules(rules.parse().unwrap());
    let app = Router::new()
        .route("/right", on_get(|| async { "welcome" }))
        .route("/wrong", on_get(|| async { (StatusCode::UNAUTHORIZED, "no") }))
        .layer(layer);
    let address = serve(app).await;
    let mut statuses = Vec::new();
    for path in ["/right", "/wrong", "/right", "/right", "/wrong", "/right"] {
        statuses.push(get(address, path, "").await.status);
    }
    assert_eq!(statuses, [200, 401, 200, 200, 401, 429]);
}

#[tokio::test]
async fn a_permit_is_released_at_the_end_of_the_body() {
    let (limiter, layer) = with_one_permit();
    let service = layer.layer(service_fn(async |_: Request<Body>| {
        Ok::<_, Infallible>(Response::new(Body::from("four")))
    }));
    let reply = service.clone().oneshot(Request::new(Body::empty())).await.unwrap();
    assert!(!is_free(&limiter), "the body is not sent yet");
    let refused = service.clone().oneshot(Request::new(Body::empty())).await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(reply.into_body().collect().await.unwrap().to_bytes(), "four");
    assert!(is_free(&limiter));
}

#[tokio::test]
async fn a_permit_is_released_when_the_client_disconnects() {
    let (limiter, layer) = with_one_permit();
    let service = layer.layer(service_fn(async |_: Request<Body>| {
        Ok::<_, Infallible>(Response::new(Body::from("never read")))
    }));
    let reply = service.clone().oneshot(Request::new(Body::empty())).await.unwrap();
    assert!(!is_free(&limiter));
    drop(reply);
    assert!(is_free(&limiter), "during the body");

    let stuck = layer.layer(service_fn(async |_: Request<Body>| {
        std::future::pending::<()>().await;
        Ok::<_, Infallible>(Response::new(Body::empty()))
    }));
    let mut call = Box::pin(stuck.oneshot(Request::new(Body::empty())));
    let polled = std::future::poll_fn(|context| Poll::Ready(pin!(&mut call).poll(context))).await;
    assert!(polled.is_pending() && !is_free(&limiter));
    drop(call);
    assert!(is_free(&limiter), "before the response");
}

#[tokio::test]
async fn a_permit_is_released_when_the_service_fails() {
    let (limiter, layer) = with_one_permit();
    let service = layer.layer(service_fn(async |_: Request<Body>| {
        Err::<Response<Body>, _>(std::io::Error::other("broken"))
    }));
    let error = service.oneshot(Request::new(Body::empty())).await.unwrap_err();
    assert_eq!(error.to_string(), "broken");
    assert!(is_free(&limiter));

    let broken = layer.layer(service_fn(async |_: Request<Body>| {
        let frames = [Ok(Bytes::from("some")), Err("broken")];
        let body = http_body_util::StreamBody::new(frame_stream(frames));
        Ok::<_, Infallible>(Response::new(body))
    }));
    let reply = broken.oneshot(Request::new(Body::empty())).await.unwrap();
    assert_eq!(reply.into_body().collect().await.unwrap_err(), "broken");
    assert!(is_free(&limiter), "during the body");
}

/// Returns a stream of the given frames.
fn frame_stream<const N: usize>(
    frames: [Result<Bytes, &'static str>; N],
) -> impl futures_core::Stream<Item = Result<http_body::Frame<Bytes>, &'static str>> {
    struct FrameStream<I>(I);
    impl<I: Iterator + Unpin> futures_core::Stream for FrameStream<I> {
        type Item = I::Item;
        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> Poll<Option<I::Item>> {
            Poll::Ready(self.0.next())
        }
    }
    FrameStream(frames.into_iter().map(|frame| frame.map(http_body::Frame::data)))
}

#[tokio::test]
async fn nested_layers_all_send_headers() {
    let inner = RateLimitLayer::per_key("5/h".parse().unwrap(), |_| Some("a".to_owned()));
    let outer = RateLimitLayer::per_ip("9/h".parse().unwrap());
    let app = Router::new().route("/", on_get(|| async { "hi" })).layer(inner).layer(outer);
    let request = Request::get("/").extension(Peer([192, 0, 2, 1].into())).body(Body::empty());
    let reply = app.oneshot(request.unwrap()).await.unwrap();
    let policies: Vec<_> = reply.headers().get_all("ratelimit-policy").iter().collect();
    assert_eq!(policies, [r#""per-key";q=5;w=3600"#, r#""per-ip";q=9;w=3600"#]);
}

/// A store in memory that answers only when it is polled again, as a remote store does.
#[derive(Debug)]
struct RemoteStore(MemoryStore);

impl Store for RemoteStore {
    async fn run(&self, call: StoreCall<'_>) -> Result<Verdicts, StoreError> {
        tokio::task::yield_now().await;
        self.0.run(call).await
    }
}

#[tokio::test]
async fn a_remote_store_decides_and_gets_permits_back() {
    let rules = "rules: [{ name: r, limit: [3/h, 1 concurrent] }]".parse().unwrap();
    let limiter = RuleLimiter::builder().store(RemoteStore(MemoryStore::new())).build(rules);
    let service =
        RateLimitLayer::new(limiter.clone()).layer(service_fn(async |_: Request<Body>| {
            Ok::<_, Infallible>(Response::new(Body::from("hello")))
        }));
    let send = || service.clone().oneshot(Request::new(Body::empty()));
    let first = send().await.unwrap();
    assert_eq!((first.status().as_u16(), send().await.unwrap().status().as_u16()), (200, 429));
    drop(first);
    // The permit is returned to the store in the background.
    let free = async {
        while send().await.unwrap().status() == 429 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(super::serve::DEADLINE, free).await.unwrap();
}
