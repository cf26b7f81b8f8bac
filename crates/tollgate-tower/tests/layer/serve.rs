//! Real servers on free ports, and the plainest of clients.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate_tower::RateLimitLayer;

/// Generous: tests are not about how quick a machine is.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// An answer, as it came.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Reply {
    /// The value of a header; names are in lower case as hyper writes them.
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

/// Sends bytes as they are, and reads what comes back until the server closes.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> Reply {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        // A server that closes with bytes unread resets the connection: what came before counts.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    };
    let text = tokio::time::timeout(SOON, exchange).await.unwrap();
    let status = text.get(9..12).and_then(|status| status.parse().ok());
    Reply { status: status.unwrap_or_else(|| panic!("no answer: {text:?}")), text }
}

/// A GET with header lines, each ended by `\r\n`.
pub(crate) async fn get(address: SocketAddr, target: &str, headers: &str) -> Reply {
    let head = format!("GET {target} HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n");
    raw(address, format!("{head}{headers}\r\n").as_bytes()).await
}
