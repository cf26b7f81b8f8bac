//! Costs known only with the answer, behind the layer: tokens of a model, plain and streamed.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::{Notify, mpsc};
use tollgate::rules::{RuleLimiter, SettledAs, Value};
use tollgate::{Limiter, Request as Asked};
use tollgate_tower::RateLimitLayer;
use tower::{Layer, ServiceExt, service_fn};

const RULES: &str = "
rules:
  - name: tokens
    cost: { reserve: max_tokens, else: 40, settle: response.body.usage.total_tokens }
    limit: 100 tokens/year
";

fn number(request: &Request<Body>, name: &str) -> u64 {
    request.headers()[name].to_str().unwrap().parse().unwrap()
}

/// A body that comes event by event.
struct Events(mpsc::UnboundedReceiver<Bytes>);

impl futures_core::Stream for Events {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn layer() -> (RuleLimiter, RateLimitLayer) {
    let limiter = Limiter::from_rules(RULES.parse().unwrap());
    let max = |head: &http::request::Parts| {
        let max = head.headers.get("x-max-tokens")?.to_str().ok()?;
        max.parse::<i64>().ok().map(Value::from)
    };
    (limiter.clone(), RateLimitLayer::new(limiter).attribute("max_tokens", max))
}

fn left(limiter: &RuleLimiter) -> u64 {
    let asked = Asked::new("GET", "/").attribute("max_tokens", 1);
    limiter.explain(&asked).rules[0].limits[0].remaining
}

#[tokio::test]
async fn many_at_once_stay_within_the_limit() {
    let (limiter, layer) = layer();
    let (gate, used) = (Arc::new(Notify::new()), Arc::new(AtomicU64::new(0)));
    let in_flight = Arc::new(AtomicU64::new(0));
    let shared = (gate.clone(), used.clone(), in_flight.clone());
    let model = service_fn(move |request: Request<Body>| {
        let (gate, used, in_flight) = shared.clone();
        async move {
            in_flight.fetch_add(1, Ordering::SeqCst);
            gate.notified().await;
            let tokens = number(&request, "x-use");
            used.fetch_add(tokens, Ordering::SeqCst);
            let usage = format!(r#"{{"usage":{{"total_tokens":{tokens}}}}}"#);
            let response = Response::builder();
            let answer = match tokens % 2 {
                0 => response.header("content-type", "application/json").body(Body::from(usage)),
                _ => {
                    let (events, body) = mpsc::unbounded_channel();
                    for data in [r#"{"usage":null}"#, &usage, "[DONE]"] {
                        events.send(Bytes::from(format!("data: {data}\n\n"))).unwrap();
                    }
                    let body = Body::new(StreamBody::new(Events(body)));
                    response.header("content-type", "text/event-stream").body(body)
                }
            };
            Ok::<_, Infallible>(answer.unwrap())
        }
    });
    let service = layer.layer(model);
    loop {
        in_flight.store(0, Ordering::SeqCst);
        let before = used.load(Ordering::SeqCst);
        let call = |number: u64| {
            let (service, max) = (service.clone(), 10 + number * 7 % 31);
            let request = Request::post("/v1/chat")
                .header("x-max-tokens", max)
                .header("x-use", max / (1 + number % 3))
                .body(Body::empty())
                .unwrap();
            tokio::spawn(async move {
                let answer = service.oneshot(request).await.unwrap();
                let status = answer.status();
                answer.into_body().collect().await.unwrap();
                (status == 200).then_some(max)
            })
        };
        let calls: Vec<_> = (0..64).map(call).collect();
        // Every call gets as far as it can before the first is answered.
        while calls.iter().filter(|call| call.is_finished()).count() as u64
            + in_flight.load(Ordering::SeqCst)
            < 64
        {
            tokio::task::yield_now().await;
        }
        gate.notify_waiters();
        let mut reserved = 0;
        for call in calls {
            reserved += call.await.unwrap().unwrap_or(0);
        }
        assert!(before + reserved <= 100, "{before} used, {reserved} reserved");
        if reserved == 0 {
            break;
        }
    }
    let used = used.load(Ordering::SeqCst);
    assert!((51..=100).contains(&used), "{used}");
    assert_eq!(left(&limiter), 99 - used.min(99));
}

#[tokio::test]
async fn who_leaves_a_stream_is_charged_what_was_seen_by_then() {
    let (limiter, layer) = layer();
    let told = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let telling = told.clone();
    limiter.on_settled(move |_, _, settled| telling.lock().push(settled));
    let (events, body) = mpsc::unbounded_channel();
    let body = Arc::new(parking_lot::Mutex::new(Some(Events(body))));
    let service = layer.layer(service_fn(move |_: Request<Body>| {
        let body = body
            .lock()
            .take()
            .map_or_else(Body::empty, |events| Body::new(StreamBody::new(events)));
        async move {
            let answer = Response::builder().header("content-type", "text/event-stream");
            Ok::<_, Infallible>(answer.body(body).unwrap())
        }
    }));
    let ask = || service.clone().oneshot(Request::new(Body::empty()));
    let mut stream = ask().await.unwrap().into_body();
    assert_eq!(left(&limiter), 59, "40, as it does not say how many");
    let first = "data: {\"usage\":{\"total_tokens\":3}}\n\n";
    events.send(Bytes::from(first)).unwrap();
    let frame = stream.frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), first, "nothing is held back");
    drop(stream);
    assert_eq!(left(&limiter), 96);
    drop(ask().await.unwrap());
    assert_eq!(left(&limiter), 96 - 40, "an answer that says nothing");
    assert_eq!(*told.lock(), [SettledAs::Refunded, SettledAs::Kept]);
}
