//! Connections that go on in another protocol: WebSocket and others.
//!
//! A client asks, the upstream agrees, and only then are their bytes passed on unread. HTTP within
//! HTTP would be a way around the limiter, so that is not asked for.

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
use tollgate_tower::passage::{End, Passage};

use super::hops::tokens;
use super::upstreams::{Lane, Load};
use crate::net::Drain;
use crate::net::http::Pulse;

/// How long the two sides may take to change over.
const CHANGE_OVER: Duration = Duration::from_secs(10);

/// The protocol a request asks to go on in, if it may. Only without a body: what comes after the
/// head is of the new protocol.
pub(super) fn wanted(head: &Parts, has_body: bool) -> Option<HeaderValue> {
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

/// Says that the connection goes on in a protocol, or is to.
pub(super) fn announce(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// Whether an upstream goes on in the protocol it was asked for.
pub(super) fn agrees(headers: &HeaderMap, protocol: &HeaderValue) -> bool {
    let mut agreed = headers.get_all(UPGRADE).iter();
    let (only, second) = (agreed.next(), agreed.next());
    second.is_none()
        && only.is_some_and(|only| only.as_bytes().eq_ignore_ascii_case(protocol.as_bytes()))
}

/// Two connections that become one.
pub(super) struct Tunnel {
    pub(super) client: OnUpgrade,
    pub(super) upstream: OnUpgrade,
    /// The upstream's connection, until it is handed over.
    pub(super) lane: Option<Lane>,
    /// What the request holds is held until the end.
    pub(super) passage: Passage,
    pub(super) load: Load,
}

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}

impl Tunnel {
    /// Passes bytes on until one side ends, nothing was said for too long, the place is needed by
    /// somebody else, or the server has drained for as long as it may.
    pub(super) async fn run(self, pulse: &Arc<Pulse>, drain: &Drain, bounds: Times) {
        let Tunnel { client, upstream, lane, passage, load: _load } = self;
        let changed = async {
            let finished = async {
                if let Some(lane) = lane {
                    lane.finish().await;
                }
            };
            tokio::join!(client, upstream, finished)
        };
        let Ok((Ok(client), Ok(upstream), ())) = tokio::time::timeout(CHANGE_OVER, changed).await
        else {
            return passage.end(End::Broken);
        };
        let mut client = Heard { stream: TokioIo::new(client), pulse };
        let mut upstream = Heard { stream: TokioIo::new(upstream), pulse };
        let passed = pin!(copy_bidirectional(&mut client, &mut upstream));
        let drained = async {
            drain.closing().await;
            sleep(bounds.drain).await;
        };
        tokio::select! {
            _ = passed => {}
            () = silence(pulse, bounds.silence) => {}
            () = pulse.seat.wanted() => {}
            () = drained => {}
        }
        passage.end(End::Whole);
    }
}

/// How long a tunnel may last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) silence: Duration,
    /// After the server began to drain.
    pub(super) drain: Duration,
}

/// Done once nothing was said for so long.
async fn silence(pulse: &Pulse, most: Duration) {
    pulse.seat.heard();
    loop {
        match most.checked_sub(Duration::from_millis(pulse.seat.silent_ms())) {
            Some(left) if !left.is_zero() => sleep(left).await,
            _ => return,
        }
    }
}

/// A stream of which is noted that something was read.
struct Heard<'p, S> {
    stream: S,
    pulse: &'p Pulse,
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if read.is_ready() {
            self.pulse.seat.heard();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<'_, S> {
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
            wanted(&head, has_body).is_some()
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
