//! Costs that are known only with the response: tokens of a model, plain and streamed.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::{Notify, mpsc};
use tollgate_rules::{RuleLimiter, RuleLimiterBuilder, SettledAs, Value};
use tollgate_tower::RateLimitLayer;
use tower::{Layer, ServiceExt, service_fn};

use super::serve::ready;

const RULES: &str = "
attributes: [max_tokens]
rules:
  - name: tokens
    cost: { reserve: max_tokens, else: 40, settle: response.body.usage.total_tokens }
    limit: 100 tokens/year
";

fn number(request: &Request<Body>, name: &str) -> u64 {
    request.headers()[name].to_str().unwrap().parse().unwrap()
}

/// A body that is sent event by event.
struct EventStream(mpsc::UnboundedReceiver<Bytes>);

impl futures_core::Stream for EventStream {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn layer() -> (RuleLimiter, RateLimitLayer) {
    layer_with(RuleLimiter::builder())
}

fn layer_with(builder: RuleLimiterBuilder) -> (RuleLimiter, RateLimitLayer) {
    let limiter = builder.build(RULES.parse().unwrap());
    let max = |head: &http::request::Parts| {
        let max = head.headers.get("x-max-tokens")?.to_str().ok()?;
        max.parse::<i64>().ok().map(Value::from)
    };
    (limiter.clone(), RateLimitLayer::new(limiter).attribute("max_tokens", max))
}

fn left(limiter: &RuleLimiter) -> u64 {
    let request = tollgate_rules::Request::new("GET", "/").attribute("max_tokens", 1);
    ready(limiter.explain(&request)).rules[0].limits[0].remaining
}

#[tokio::test]
async fn concurrent_reservations_stay_within_the_limit() {
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
            let builder = Response::builder();
            let response = match tokens % 2 {
                0 => builder.header("content-type", "application/json").body(Body::from(usage)),
                _ => {
                    let (events, body) = mpsc::unbounded_channel();
                    for data in [r#"{"usage":null}"#, &usage, "[DONE]"] {
                        events.send(Bytes::from(format!("data: {data}\n\n"))).unwrap();
                    }
                    let body = Body::new(StreamBody::new(EventStream(body)));
                    builder.header("content-type", "text/event-stream").body(body)
                }
            };
            Ok::<_, Infallible>(response.unwrap())
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
                let response = service.oneshot(request).await.unwrap();
                let status = response.status();
                response.into_body().collect().await.unwrap();
                (status == 200).then_some(max)
            })
        };
        let calls: Vec<_> = (0..64).map(call).collect();
        // Every call is refused or in flight before the first is answered.
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
async fn a_disconnected_stream_is_charged_the_usage_received_so_far() {
    let outcomes = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let recorded = outcomes.clone();
    let (limiter, layer) = layer_with(
        RuleLimiter::builder().on_settled(move |_, _, settled| recorded.lock().push(settled)),
    );
    let (events, body) = mpsc::unbounded_channel();
    let body = Arc::new(parking_lot::Mutex::new(Some(EventStream(body))));
    let service = layer.layer(service_fn(move |_: Request<Body>| {
        let body = body
            .lock()
            .take()
            .map_or_else(Body::empty, |events| Body::new(StreamBody::new(events)));
        async move {
            let response = Response::builder().header("content-type", "text/event-stream");
            Ok::<_, Infallible>(response.body(body).unwrap())
        }
    }));
    let send = || service.clone().oneshot(Request::new(Body::empty()));
    let mut stream = send().await.unwrap().into_body();
    assert_eq!(left(&limiter), 59, "40 without an estimate");
    let first = "data: {\"usage\":{\"total_tokens\":3}}\n\n";
    events.send(Bytes::from(first)).unwrap();
    let frame = stream.frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), first, "frames are passed on at once");
    drop(stream);
    assert_eq!(left(&limiter), 96);
    drop(send().await.unwrap());
    assert_eq!(left(&limiter), 96 - 40, "a response without usage");
    assert_eq!(*outcomes.lock(), [SettledAs::Refunded, SettledAs::Kept]);
}
