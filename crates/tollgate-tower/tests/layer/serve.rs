//! Real servers on free ports, and a minimal client.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate_tower::RateLimitLayer;

/// The maximum time of any step of a test, long enough for a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A response: the status and the received text.
#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl RawResponse {
    /// Returns the value of a header; names are in lower case, as hyper writes them.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let head = self.text.split("\r\n\r\n").next()?;
        head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// Serves a router until the test ends.
pub(crate) async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// Serves "hello" on every path, behind a layer.
pub(crate) async fn hello(layer: RateLimitLayer) -> SocketAddr {
    serve(Router::new().fallback(any(|| async { "hello" })).layer(layer)).await
}

/// Sends raw bytes, and reads until the server closes the connection.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> RawResponse {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut received = Vec::new();
        // A server that closes before it has read everything resets the connection.
        let _ = stream.read_to_end(&mut received).await;
        String::from_utf8(received).unwrap()
    };
    let text = tokio::time::timeout(DEADLINE, exchange).await.unwrap();
    let status = text.get(9..12).and_then(|status| status.parse().ok());
    RawResponse { status: status.unwrap_or_else(|| panic!("no response: {text:?}")), text }
}

/// Sends a GET request with header lines, each ended by `\r\n`.
pub(crate) async fn get(address: SocketAddr, target: &str, headers: &str) -> RawResponse {
    let head = format!("GET {target} HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n");
    raw(address, format!("{head}{headers}\r\n").as_bytes()).await
}

/// Runs a future that never has to wait.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("the future waits"),
    }
}
