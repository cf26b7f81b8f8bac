//! Tokens of a language model behind the layer: each call reserves what it may use, and settles for
//! what the last event of its streamed answer says.
//!
//! ```text
//! 60 reserved, 7 used: 200
//! 60 reserved, 7 used: 200
//! 90 reserved: 429, as 86 are left
//! ```

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header::CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::post};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tollgate_tower::RateLimitLayer;

const RULES: &str = "
attributes: [max_tokens]
rules:
  - name: tokens
    route: POST /v1/chat
    limit: 100 tokens/h
    cost: { reserve: max_tokens, else: 100, settle: response.body.usage.total_tokens }
";

/// Answers event by event; only the last one tells what it cost.
async fn chat() -> Response {
    let events =
        ["{\"delta\":\"Hel\"}", "{\"delta\":\"lo\"}", "{\"usage\":{\"total_tokens\":7}}", "[DONE]"];
    let frames = events.map(|data| Frame::data(Bytes::from(format!("data: {data}\n\n"))));
    let body = StreamBody::new(Each(frames.into_iter()));
    ([(CONTENT_TYPE, "text/event-stream")], Body::new(body)).into_response()
}

/// What a client says in the head of its request; the body is the service's own.
fn max_tokens(headers: &HeaderMap) -> Option<i64> {
    headers.get("x-max-tokens")?.to_str().ok()?.parse().ok()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let layer = RateLimitLayer::from_rules(RULES.parse()?)
        .attribute("max_tokens", |head| max_tokens(&head.headers));
    let app = Router::new().route("/v1/chat", post(chat)).layer(layer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>());
    tokio::spawn(server.into_future());

    // Everything below is the client.
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let ask = async |max: u64| {
        let request = http::Request::post(format!("http://{address}/v1/chat"))
            .header("x-max-tokens", max)
            .body(Empty::new())?;
        let answer = client.request(request).await?;
        let status = answer.status().as_u16();
        answer.into_body().collect().await?;
        Ok::<u16, Box<dyn std::error::Error>>(status)
    };
    for _ in 0..2 {
        let status = ask(60).await?;
        println!("60 reserved, 7 used: {status}");
        assert_eq!(status, 200);
    }
    let status = ask(90).await?;
    println!("90 reserved: {status}, as 86 are left");
    assert_eq!(status, 429);
    Ok(())
}

/// Frames, one after the other.
struct Each<I>(I);

impl<I: Iterator<Item = Frame<Bytes>> + Unpin> futures_core::Stream for Each<I> {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.next().map(Ok))
    }
}
