//! Sends deferred requests on: asked for and sent like those of clients who are still there.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{Request, Response};
use tollgate::rules::Decision;
use tollgate_tower::arrival::Arrival;
use tollgate_tower::passage::{End, Followed, Passage, follow};

use super::forwarded::{Known, Peer};
use super::upload::Upload;
use super::upstreams::{Answer as Sent, UpstreamBody, UpstreamError};
use super::{Gateway, Said, hops};
use crate::deferred::{Answer, Begun, Courier, Delivered, Head};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Tells the upstream that a request was deferred, and which attempt this is.
const DEFERRED: HeaderName = HeaderName::from_static("tollgate-deferred");

/// What is kept of an answer's body, in bytes: a longer one is not kept at all.
const KEPT_ANSWER: usize = 64 << 10;
/// What is read of it, so that its connection can be used again.
const MOST_READ: usize = 8 << 20;

/// A request that was kept, as it arrived.
struct Arrived {
    parts: Parts,
    peer: Peer,
    known: Known,
    said: Said,
}

impl Gateway {
    fn arrived(&self, head: &Head) -> Option<Arrived> {
        let parts = head.parts()?;
        let peer = Peer::new(head.peer, head.is_secret);
        let known = peer.know(&parts.headers, || self.trusted_proxies());
        Some(Arrived { parts, peer, known, said: head.said.clone() })
    }

    fn arrival<'a>(&'a self, arrived: &'a Arrived) -> Arrival<'a> {
        let domain = self.options.domain.as_deref();
        let arrival = Arrival::new(&arrived.parts).peer(arrived.known.client).domain(domain);
        arrived.said.of(arrival)
    }

    async fn receive(&self, sent: Sent, mut passage: Passage) -> Delivered {
        let Sent { response, lane, load, .. } = sent;
        passage.answered(response.status(), response.headers());
        let retry_after = retry_after(response.headers());
        let status = response.status().as_u16();
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).map(str::to_owned);
        let pause = self.options.pause_timeout;
        let response = response
            .map(|body| Followed::new(UpstreamBody::new(body, lane, None, load, pause), passage));
        let body = read(response).await;
        Delivered::Answered { answer: Answer { status, kind, body }, retry_after }
    }
}

impl Courier for Gateway {
    type Leave = Passage;

    fn defers(&self) -> bool {
        self.context.engine.limiter().rules().defer()
    }

    async fn preview(&self, head: &Head) -> Option<Decision> {
        let arrived = self.arrived(head)?;
        let arrival = self.arrival(&arrived);
        Some(self.context.engine.limiter().preview(&arrival.request()).await)
    }

    async fn ask(&self, head: &Head) -> Option<(Decision, Passage)> {
        let arrived = self.arrived(head)?;
        let arrival = self.arrival(&arrived);
        let limiter = self.context.engine.limiter();
        let decision = limiter.ask(&arrival.request()).await;
        let passage = match decision.allowed {
            true => follow(limiter, decision.clone(), &arrival),
            false => Passage::unfollowed(),
        };
        Some((decision, passage))
    }

    async fn deliver(&self, name: String, begun: Begun, passage: Passage) -> Delivered {
        let kept = self.arrived(&begun.head).zip(begun.head.trailers());
        let Some((Arrived { mut parts, peer, known, .. }, trailers)) = kept else {
            return Delivered::Unsent("what was kept of it is no request".to_owned());
        };
        hops::renew(&mut parts.headers);
        peer.introduce(&mut parts.headers, known);
        if !parts.headers.contains_key(IDEMPOTENCY_KEY) {
            let name = HeaderValue::try_from(name).ok();
            parts.headers.extend(name.map(|name| (IDEMPOTENCY_KEY, name)));
        }
        parts.headers.insert(DEFERRED, HeaderValue::from(begun.attempt));
        let engine = &self.context.engine;
        let before = engine.clock().now();
        let request = Request::from_parts(parts, Upload::whole(begun.body, trailers));
        let sent = self.upstreams.send(None, request).await;
        engine.telemetry().upstream_took(engine.clock().now().since(before));
        match sent {
            Ok(sent) => self.receive(sent, passage).await,
            Err(error) => {
                passage.end(End::Broken);
                match error {
                    UpstreamError::Connect(_) => Delivered::Unsent(error.to_string()),
                    _ => Delivered::Unanswered(error.to_string()),
                }
            }
        }
    }
}

/// The body of an answer, if it is short enough to keep, and came whole.
async fn read(response: Response<Followed<UpstreamBody>>) -> Option<Bytes> {
    let mut body = response.into_body();
    let (mut kept, mut length) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        length += data.len();
        if length <= KEPT_ANSWER {
            kept.extend_from_slice(&data);
        } else if length > MOST_READ {
            return None;
        }
    }
    (length <= KEPT_ANSWER).then(|| kept.freeze())
}

/// When the upstream wants a request again, if it says so in seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}
