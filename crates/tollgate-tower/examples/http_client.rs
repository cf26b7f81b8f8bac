//! A client that waits when a service says so, instead of being refused.
//!
//! The service takes five requests in each window of a second. The client is told when nothing is
//! left, and waits. Takes about two seconds and prints:
//!
//! ```text
//! 12 requests, none refused
//! ```

use axum::{Router, routing::get};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tollgate_tower::{RateLimitLayer, client::PoliteLayer};
use tower::{Layer, ServiceExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rules = "rules: [{ name: all, limit: 5/s fixed }]".parse()?;
    let app = Router::new().route("/", get(|| async { "hello" }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let server = axum::serve(listener, app.layer(RateLimitLayer::from_rules(rules)));
    tokio::spawn(server.into_future());

    let client = Client::builder(TokioExecutor::new()).build_http::<String>();
    let client = PoliteLayer::new().layer(client);
    let mut refused = 0;
    for _ in 0..12 {
        let request = http::Request::get(&url).body(String::new())?;
        let reply = client.clone().oneshot(request).await?;
        refused += usize::from(reply.status() == 429);
    }
    println!(
        "12 requests, {} refused",
        if refused == 0 { "none".into() } else { refused.to_string() }
    );
    assert_eq!(refused, 0);
    Ok(())
}
