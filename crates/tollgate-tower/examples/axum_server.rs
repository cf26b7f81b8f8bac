//! An axum server whose clients have three requests a minute each.
//!
//! ```text
//! 200 200 200 429: come back in 20 s
//! ```

use std::net::SocketAddr;

use axum::{Router, routing::get};
use http_body_util::Empty;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tollgate_tower::RateLimitLayer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(RateLimitLayer::per_ip("3/min".parse()?));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>());
    tokio::spawn(server.into_future());

    // Everything below is the client.
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<bytes::Bytes>>();
    let mut statuses = Vec::new();
    loop {
        let reply = client.get(format!("http://{address}/").parse()?).await?;
        statuses.push(reply.status().as_u16());
        if let Some(seconds) = reply.headers().get("retry-after") {
            let statuses: Vec<_> = statuses.iter().map(u16::to_string).collect();
            println!("{}: come back in {} s", statuses.join(" "), seconds.to_str()?);
            break;
        }
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    Ok(())
}
