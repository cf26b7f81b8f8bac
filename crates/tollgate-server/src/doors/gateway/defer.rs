//! Deferred requests: storing them, and the address that reports their status to clients.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Body as _;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, EXPECT, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER,
    UPGRADE,
};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;
use tollgate_rules::Decision;

use super::forwarded::ResolvedClient;
use super::inspect_body::InspectedBody;
use super::proxy_request::GatewayBody;
use super::upload::Upload;
use super::upstreams::UpstreamError;
use super::{GatewayConnection, local_response};
use crate::clock;
use crate::deferred::{Deferred, DeferredQueueKey, ItemId, NewItem, QueueError, StoredHead};
use crate::headers::DecisionSummary;
use crate::net::{BodyBuffer, BodyBufferError, BodyMemory, BufferedBody};
use crate::telemetry::{DecisionOutcome, DoorName};

/// The reason why a request is not forwarded.
pub(super) enum StopReason {
    Refused(Box<Response<GatewayBody>>),
    Deferred(Box<QueueTicket>),
}

/// A request that is to be deferred, and its queue.
pub(super) struct QueueTicket {
    deferred: Arc<Deferred>,
    queue_key: DeferredQueueKey,
    /// The decision that refused the request; `None` if it only waits behind others.
    decision: Option<Decision>,
}

/// Checks the path prefix of the status of deferred requests.
pub(super) fn check_prefix(prefix: &str) -> Result<(), String> {
    let is_normalized = prefix.starts_with('/')
        && prefix.ends_with('/')
        && prefix.len() > 1
        && super::forward_target::forward_target(prefix).is_ok_and(|sound| sound == prefix);
    match is_normalized {
        true => Ok(()),
        false => Err(format!(
            "{prefix:?} is no path prefix for the status of deferred requests; write it as \
             /.tollgate/deferred/"
        )),
    }
}

impl GatewayConnection {
    /// Returns a ticket if requests of the same key are queued: a later request must not overtake
    /// them. Needs no store, and costs nothing while the queue is empty.
    #[inline]
    pub(super) fn ticket_behind_queue(
        &self,
        head: &Parts,
        resolved: &ResolvedClient,
        inspected: &InspectedBody,
    ) -> Option<Box<QueueTicket>> {
        let deferred = self.gateway.context.deferred.as_ref()?;
        match deferred.index().is_empty() {
            true => None,
            false => self.find_queue(deferred, head, resolved, inspected),
        }
    }

    #[cold]
    fn find_queue(
        &self,
        deferred: &Arc<Deferred>,
        head: &Parts,
        resolved: &ResolvedClient,
        inspected: &InspectedBody,
    ) -> Option<Box<QueueTicket>> {
        let domain = self.gateway.options.domain.as_deref();
        let request_head = inspected.body_fields.add_to(resolved.request_head(head, domain));
        let limiter = self.gateway.context.decisions.limiter();
        let (rules, clock) = (limiter.rules(), limiter.clock());
        let matched = rules.matched(&request_head.request(), clock.date(clock.now()));
        let mut queue_keys = matched.into_iter().filter_map(DeferredQueueKey::from_rule);
        let queue_key = queue_keys.find(|queue_key| deferred.index().has_untried(queue_key))?;
        let fits = can_wait(head, &inspected.upload, deferred.options.body);
        fits.then(|| {
            Box::new(QueueTicket { deferred: deferred.clone(), queue_key, decision: None })
        })
    }

    /// Returns the ticket of a refused request; `None` if it stays refused.
    #[cold]
    pub(super) fn ticket(
        &self,
        head: &Parts,
        body: &Upload,
        decision: &Decision,
    ) -> Option<Box<QueueTicket>> {
        let queue_key = DeferredQueueKey::from_decision(decision)?;
        let context = &self.gateway.context;
        let Some(deferred) = context.deferred.clone() else {
            self.gateway.warn_without_queue();
            return None;
        };
        if !can_wait(head, body, deferred.options.body) {
            let telemetry = context.decisions.telemetry();
            telemetry.record_outcome(DecisionOutcome::Denied, DoorName::Gateway, decision);
            return None;
        }
        Some(Box::new(QueueTicket { deferred, queue_key, decision: Some(decision.clone()) }))
    }

    /// Stores a request and returns the response to its client.
    pub(super) async fn defer(
        &self,
        head: &Parts,
        resolved: &ResolvedClient,
        inspected: InspectedBody,
        ticket: QueueTicket,
    ) -> Response<GatewayBody> {
        let QueueTicket { deferred, queue_key, decision } = ticket;
        let ahead = deferred.index().queue_len(&queue_key);
        let (domain, rule) = (queue_key.domain.clone(), queue_key.rule.clone());
        let kept = self.keep(head, resolved, inspected, &deferred, queue_key).await;
        let telemetry = self.gateway.context.decisions.telemetry();
        let outcome =
            if kept.is_ok() { DecisionOutcome::Deferred } else { DecisionOutcome::Denied };
        match &decision {
            Some(decision) => telemetry.record_outcome(outcome, DoorName::Gateway, decision),
            None => telemetry.record_queued(&domain, &rule, outcome),
        }
        match kept {
            Ok(id) => accepted(&deferred, id, ahead, decision.as_ref()),
            Err(refusal) => *refusal,
        }
    }

    async fn keep(
        &self,
        head: &Parts,
        resolved: &ResolvedClient,
        inspected: InspectedBody,
        deferred: &Arc<Deferred>,
        queue_key: DeferredQueueKey,
    ) -> Result<ItemId, Box<Response<GatewayBody>>> {
        let InspectedBody { upload: body, mut body_fields } = inspected;
        // A token that is valid now may have expired when the request is sent.
        let verified = resolved.identity.attributes();
        body_fields.values.extend(verified.map(|(name, value)| (name.to_owned(), value.clone())));
        let most = deferred.options.body;
        let memory = BodyMemory::new(&self.gateway.context.bodies, resolved.client);
        let options = &self.gateway.options;
        let read = read(body, BodyBuffer::new(&memory, most), options.upload_timeout);
        let read = timeout(options.read_body_timeout, read).await;
        let late = |_| Err(Unread::Client(UpstreamError::SlowClient));
        let (body, trailers) = match read.unwrap_or_else(late) {
            Ok(read) => read,
            Err(Unread::TooLong) => return Err(Box::new(too_long(most))),
            Err(Unread::NoMemory) => {
                let reason = "too many bodies of this client are being received".into();
                return Err(Box::new(unkept(&QueueError::Full(reason))));
            }
            Err(Unread::Client(error)) => {
                return Err(Box::new(local_response::failed(head.version, &error)));
            }
        };
        // The memory of the body is reserved until the request is stored.
        let (body, _reservation) = body.into_parts();
        let (peer, is_encrypted) = self.peer.parts();
        let trouble = |error: getrandom::Error| QueueError::Unavailable(error.to_string());
        let kept = async {
            let id = ItemId::new().map_err(trouble)?;
            let head =
                StoredHead::new(head, peer, is_encrypted, body_fields).with_trailers(&trailers);
            let added_ms = clock::unix_ms();
            deferred
                .add(NewItem { id, queue_key: Arc::new(queue_key), head, body, added_ms })
                .await?;
            Ok(id)
        };
        kept.await.map_err(|error: QueueError| Box::new(unkept(&error)))
    }

    /// Returns the status of a deferred request.
    pub(super) async fn deferred_status(&self, method: &Method, id: &str) -> Response<GatewayBody> {
        if ![Method::GET, Method::HEAD].contains(method) {
            let detail = "what became of a deferred request is asked for with GET";
            let mut response = local_response::problem(
                StatusCode::METHOD_NOT_ALLOWED,
                "method-not-allowed",
                detail,
            );
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let found = match (&self.gateway.context.deferred, ItemId::parse(id)) {
            (Some(deferred), Some(id)) => deferred.status(id).await,
            _ => Ok(None),
        };
        match found {
            Ok(Some(document_json)) => document(StatusCode::OK, &document_json),
            Ok(None) => {
                let detail = "there is no such deferred request, or it was done long ago";
                local_response::problem(StatusCode::NOT_FOUND, "not-found", detail)
            }
            Err(error) => unkept(&error),
        }
    }
}

/// Returns whether a request can be deferred: not if it switches to another protocol, expects `100
/// Continue`, is a gRPC call, which has no 202, or is too long.
fn can_wait(head: &Parts, body: &Upload, most: usize) -> bool {
    let is_grpc = || {
        let kind = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
    };
    !head.headers.contains_key(EXPECT)
        && !head.headers.contains_key(UPGRADE)
        && body.size_hint().lower() <= most as u64
        && !is_grpc()
}

/// The reason why a body was not read to its end.
enum Unread {
    TooLong,
    NoMemory,
    Client(UpstreamError),
}

/// Reads a body to its end, with its trailers.
async fn read(
    mut body: Upload,
    mut whole: BodyBuffer,
    pause: Duration,
) -> Result<(BufferedBody, HeaderMap), Unread> {
    let mut trailers = HeaderMap::new();
    loop {
        let frame = timeout(pause, body.frame()).await;
        let frame = frame.map_err(|_| Unread::Client(UpstreamError::SlowClient))?;
        match frame.map(|frame| frame.map(hyper::body::Frame::into_data)) {
            None => return Ok((whole.finish(), trailers)),
            Some(Err(_)) => return Err(Unread::Client(UpstreamError::BadClient)),
            Some(Ok(Ok(data))) => match whole.push(&data) {
                Ok(()) => {}
                Err(BodyBufferError::TooLarge) => return Err(Unread::TooLong),
                Err(BodyBufferError::NoMemory) => return Err(Unread::NoMemory),
            },
            Some(Ok(Err(frame))) => trailers.extend(frame.into_trailers().unwrap_or_default()),
        }
    }
}

/// Returns the response to a deferred request.
fn accepted(
    deferred: &Deferred,
    id: ItemId,
    ahead: usize,
    decision: Option<&Decision>,
) -> Response<GatewayBody> {
    let location = format!("{}{id}", deferred.options.prefix);
    let position = deferred.index().position(id).unwrap_or(ahead);
    let mut document_json = json!({
        "id": id.to_string(),
        "state": "queued",
        "status_url": location,
        "position": position,
    });
    let wait = decision.and_then(|decision| estimate(decision, position));
    if let Some(wait) = wait {
        document_json["estimated_ms"] = json!(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    }
    let mut response = document(StatusCode::ACCEPTED, &document_json);
    let headers = response.headers_mut();
    headers.extend(HeaderValue::try_from(location).ok().map(|location| (LOCATION, location)));
    let seconds = wait.map_or(1, |wait| wait.as_secs() + 1);
    headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// Estimates when a request is sent: when its limit allows the first one, plus the pace of the
/// rest.
fn estimate(decision: &Decision, position: usize) -> Option<Duration> {
    let limits = DecisionSummary::new(decision).limits;
    let pace = limits
        .iter()
        .filter_map(|limit| Some(limit.window_s? as f64 / limit.limit.max(1) as f64))
        .fold(0.0, f64::max);
    let rest = Duration::try_from_secs_f64(pace * position as f64).ok()?;
    decision.retry_after?.checked_add(rest)
}

fn document(status: StatusCode, document_json: &Value) -> Response<GatewayBody> {
    let mut response = Response::new(local_response::whole(document_json.to_string().into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the response to a request that could not be deferred.
fn unkept(error: &QueueError) -> Response<GatewayBody> {
    let (code, what) = match error {
        QueueError::Full(_) => ("deferred-full", "no more requests can be kept for later"),
        QueueError::Unavailable(_) => {
            ("deferred-unavailable", "requests cannot be kept for later now")
        }
    };
    let detail = format!("{what}: {error}; this one was not accepted, try again later");
    let mut response = local_response::problem(StatusCode::SERVICE_UNAVAILABLE, code, &detail);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
    response
}

fn too_long(most: usize) -> Response<GatewayBody> {
    let detail = format!(
        "the request is over its limit, and its body is longer than what is kept for later: \
         {most} bytes"
    );
    local_response::problem(StatusCode::PAYLOAD_TOO_LARGE, "too-large", &detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_path_with_one_spelling() {
        for sound in ["/.tollgate/deferred/", "/later/"] {
            assert_eq!(check_prefix(sound), Ok(()));
        }
        for rejection in ["", "/", "later/", "/later", "/a//b/", "/a/../b/", "/%61/"] {
            assert!(check_prefix(rejection).is_err(), "{rejection}");
        }
    }
}
