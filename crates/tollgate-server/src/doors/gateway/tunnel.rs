//! Tunnels: connections that switch to another protocol, such as WebSocket.
//!
//! A client requests a protocol, the upstream agrees, and only then are their bytes forwarded
//! unread. HTTP inside a tunnel would bypass the limiter, so that is not forwarded.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{HeaderMap, Version};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};
use tokio::time::sleep;
use tollgate_tower::lifecycle::{RequestEnd, RequestLifecycle};

use super::hop_headers::tokens;
use super::upstreams::{UpstreamConnection, UpstreamLoad};
use crate::net::Drain;
use crate::net::http::ConnectionActivity;

/// The maximum time for both connections to switch.
const CHANGE_OVER: Duration = Duration::from_secs(10);

/// Returns the protocol that a request may switch to. It must have no body, because the bytes after
/// the head belong to the new protocol.
pub(super) fn requested_protocol(head: &Parts, has_body: bool) -> Option<HeaderValue> {
    let asks =
        || tokens(&head.headers, &CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"));
    if head.version != Version::HTTP_11
        || has_body
        || !head.headers.contains_key(UPGRADE)
        || !asks()
    {
        return None;
    }
    let mut protocols = tokens(&head.headers, &UPGRADE);
    let (only, second) = (protocols.next()?, protocols.next());
    let name = only.split('/').next().unwrap_or_default();
    let around = ["h2c", "h2", "http", "tls", "connect-udp", "connect-ip"];
    let is_around = around.iter().any(|around| name.eq_ignore_ascii_case(around));
    if second.is_some() || name.is_empty() || is_around {
        return None;
    }
    HeaderValue::from_str(only).ok()
}

/// Writes the header fields of a switch to a protocol.
pub(super) fn announce(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// Returns whether an upstream switches to the requested protocol.
pub(super) fn agrees(headers: &HeaderMap, protocol: &HeaderValue) -> bool {
    let mut agreed = headers.get_all(UPGRADE).iter();
    let (only, second) = (agreed.next(), agreed.next());
    second.is_none()
        && only.is_some_and(|only| only.as_bytes().eq_ignore_ascii_case(protocol.as_bytes()))
}

/// A client connection and an upstream connection that are joined.
pub(super) struct Tunnel {
    pub(super) client: OnUpgrade,
    pub(super) upstream: OnUpgrade,
    /// The upstream connection, until the switch.
    pub(super) connection: Option<UpstreamConnection>,
    /// The lifecycle of the request, whose permits are held until the end.
    pub(super) lifecycle: RequestLifecycle,
    pub(super) load: UpstreamLoad,
}

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}

impl Tunnel {
    /// Forwards bytes until one side ends, the tunnel is idle for too long, or the drain time is over.
    pub(super) async fn run(
        self,
        activity: &Arc<ConnectionActivity>,
        drain: &Drain,
        bounds: TunnelTimeouts,
    ) {
        let Tunnel { client, upstream, connection, lifecycle, load: _load } = self;
        // A tunnel is a request in progress, so that its connection does not give way to a new one.
        let _request = activity.slot.start_request();
        let changed = async {
            let finished = async {
                if let Some(connection) = connection {
                    connection.finish().await;
                }
            };
            tokio::join!(client, upstream, finished)
        };
        let Ok((Ok(client), Ok(upstream), ())) = tokio::time::timeout(CHANGE_OVER, changed).await
        else {
            return lifecycle.end(RequestEnd::Failed);
        };
        let mut client = ActivityStream { stream: TokioIo::new(client), activity };
        let mut upstream = ActivityStream { stream: TokioIo::new(upstream), activity };
        let passed = pin!(copy_bidirectional(&mut client, &mut upstream));
        let drained = async {
            drain.closing().await;
            sleep(bounds.drain).await;
        };
        tokio::select! {
            _ = passed => {}
            () = silence(activity, bounds.silence) => {}
            () = drained => {}
        }
        lifecycle.end(RequestEnd::Complete);
    }
}

/// The time limits of a tunnel.
#[derive(Clone, Copy, Debug)]
pub(super) struct TunnelTimeouts {
    pub(super) silence: Duration,
    /// The time after the server began to drain.
    pub(super) drain: Duration,
}

/// Waits until a tunnel has been idle for too long.
async fn silence(activity: &ConnectionActivity, most: Duration) {
    activity.slot.touch();
    loop {
        match most.checked_sub(Duration::from_millis(activity.slot.idle_ms())) {
            Some(left) if !left.is_zero() => sleep(left).await,
            _ => return,
        }
    }
}

/// A stream that records its reads as activity.
struct ActivityStream<'p, S> {
    stream: S,
    activity: &'p ConnectionActivity,
}

impl<S: AsyncRead + Unpin> AsyncRead for ActivityStream<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if read.is_ready() {
            self.activity.slot.touch();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ActivityStream<'_, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_no_way_around_the_limiter_may_be_asked_for() {
        let wanted = |connection: &str, upgrade: &str, has_body| {
            let request = hyper::Request::get("/").header(CONNECTION, connection);
            let head = request.header(UPGRADE, upgrade).body(()).unwrap().into_parts().0;
            requested_protocol(&head, has_body).is_some()
        };
        assert!(wanted("keep-alive, Upgrade", "websocket", false));
        assert!(wanted("upgrade", "SPDY/3.1", false));
        assert!(!wanted("upgrade", "websocket", true));
        assert!(!wanted("keep-alive", "websocket", false));
        for around in ["h2c", "H2C", "HTTP/2.0", "TLS/1.2", "websocket, h2c", "", "h2c, websocket"]
        {
            assert!(!wanted("upgrade", around, false), "{around}");
        }
    }
}
