//! A plain hyper server: each client's address is put where the layer finds it.
//!
//! ```text
//! 200 OK, 429 Too Many Requests
//! ```

use std::convert::Infallible;

use http::{Request, Response};
use http_body_util::{Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tollgate_tower::{Peer, RateLimitLayer};
use tower::{Layer, ServiceExt, service_fn};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = RateLimitLayer::per_ip("1/min".parse()?).layer(service_fn(hello));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let service = service.clone().map_request(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(Peer(peer.ip()));
                request
            });
            let http = hyper::server::conn::http1::Builder::new();
            let service = TowerToHyperService::new(service);
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
        }
    });

    // Everything below is the client.
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let ask = || client.get(format!("http://{address}/").parse().expect("an address"));
    let (first, second) = (ask().await?.status(), ask().await?.status());
    println!("{first}, {second}");
    assert_eq!((first.as_u16(), second.as_u16()), (200, 429));
    Ok(())
}
