//! Sends deferred requests, decided and forwarded like those of connected clients.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{Request, Response};
use tollgate_rules::Decision;
use tollgate_tower::lifecycle::{ObservedBody, RequestEnd, RequestLifecycle, observe};
use tollgate_tower::request_head::RequestHead;

use super::forwarded::{ConnectionPeer, ResolvedClient};
use super::upload::Upload;
use super::upstreams::{UpstreamBody, UpstreamResponse};
use super::{Gateway, RequestBodyFields, hop_headers};
use crate::deferred::{
    Delivery, RequestSender, StartedAttempt, StoredHead, StoredResponse, any_defers,
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header that marks a deferred request with the number of its attempt.
const DEFERRED: HeaderName = HeaderName::from_static("tollgate-deferred");

/// The maximum size of a response body that is stored, in bytes; a longer one is not stored.
const KEPT_ANSWER: usize = 64 << 10;
/// The maximum size of a response body that is read so that its connection can be reused.
const MOST_READ: usize = 8 << 20;

/// A deferred request, restored from the queue.
struct RestoredRequest {
    parts: Parts,
    peer: ConnectionPeer,
    resolved: ResolvedClient,
    body_fields: RequestBodyFields,
}

impl Gateway {
    fn restored(&self, head: &StoredHead) -> Option<RestoredRequest> {
        let parts = head.parts()?;
        let peer = ConnectionPeer::new(head.peer, head.is_encrypted);
        let resolved = peer.resolve_client(&parts.headers, || self.trusted_proxies());
        Some(RestoredRequest { parts, peer, resolved, body_fields: head.body_fields.clone() })
    }

    fn request_head<'a>(&'a self, restored: &'a RestoredRequest) -> RequestHead<'a> {
        let domain = self.options.domain.as_deref();
        let request_head = restored.resolved.request_head(&restored.parts, domain);
        restored.body_fields.add_to(request_head)
    }

    async fn receive(&self, sent: UpstreamResponse, mut lifecycle: RequestLifecycle) -> Delivery {
        let UpstreamResponse { response, connection, load, .. } = sent;
        lifecycle.responded(response.status(), response.headers());
        let retry_after = retry_after(response.headers());
        let status = response.status().as_u16();
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).map(str::to_owned);
        let pause = self.options.pause_timeout;
        let response = response.map(|body| {
            ObservedBody::new(UpstreamBody::new(body, connection, None, load, pause), lifecycle)
        });
        let body = read(response).await;
        let response = StoredResponse { status, content_type: kind, body };
        Delivery::Answered { response, retry_after }
    }
}

impl RequestSender for Gateway {
    type Permit = RequestLifecycle;

    fn defers(&self) -> bool {
        any_defers(&self.context.decisions.limiter().rules())
    }

    async fn preview(&self, head: &StoredHead) -> Option<Decision> {
        let restored = self.restored(head)?;
        let request_head = self.request_head(&restored);
        Some(self.context.decisions.limiter().decide(&request_head.request().dry_run()).await)
    }

    async fn decide(&self, head: &StoredHead) -> Option<(Decision, RequestLifecycle)> {
        let restored = self.restored(head)?;
        let request_head = self.request_head(&restored);
        let mut decision = self.context.decisions.limiter().decide(&request_head.request()).await;
        let lifecycle = observe(decision.take_admission(), &request_head);
        Some((decision, lifecycle))
    }

    async fn deliver(
        &self,
        name: String,
        begun: StartedAttempt,
        lifecycle: RequestLifecycle,
    ) -> Delivery {
        let kept = self.restored(&begun.head).zip(begun.head.trailers());
        let Some((RestoredRequest { mut parts, peer, resolved, .. }, trailers)) = kept else {
            return Delivery::Unsent("what was kept of it is no request".to_owned());
        };
        hop_headers::prepare_request(&mut parts.headers);
        self.passed_headers.remove_others(&mut parts.headers, resolved.is_untrusted());
        peer.write_forwarded(&mut parts.headers, &resolved);
        if let Some(via) = &self.via {
            via.add(&mut parts.headers, parts.version);
        }
        if !parts.headers.contains_key(IDEMPOTENCY_KEY) {
            let name = HeaderValue::try_from(name).ok();
            parts.headers.extend(name.map(|name| (IDEMPOTENCY_KEY, name)));
        }
        parts.headers.insert(DEFERRED, HeaderValue::from(begun.attempt));
        let decisions = &self.context.decisions;
        let before = decisions.clock().now();
        let request = Request::from_parts(parts, Upload::whole(begun.body, trailers));
        let sent = self.upstreams.send(None, request).await;
        decisions.telemetry().record_upstream_duration(decisions.clock().now().since(before));
        match sent {
            Ok(sent) => self.receive(sent, lifecycle).await,
            Err(error) => {
                lifecycle.end(RequestEnd::Failed);
                match error.is_unsent() {
                    true => Delivery::Unsent(error.to_string()),
                    false => Delivery::Unanswered(error.to_string()),
                }
            }
        }
    }
}

/// Reads a response body; returns it if it is complete and short enough to store.
async fn read(response: Response<ObservedBody<UpstreamBody>>) -> Option<Bytes> {
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

/// Returns the `Retry-After` of an upstream, if it is in seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}
