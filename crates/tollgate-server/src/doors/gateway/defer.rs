//! Requests that are kept for later instead of being refused, and the address at which clients ask
//! what became of them.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
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
use tollgate::rules::{Decision, DeferLine};
use tollgate_tower::arrival::Arrival;

use super::forwarded::Known;
use super::look::Looked;
use super::pass::Body;
use super::upload::Upload;
use super::upstreams::UpstreamError;
use super::{Visitor, answer};
use crate::clock;
use crate::deferred::{Deferred, Head, ItemId, NewItem, QueueError};
use crate::headers::Answer;
use crate::telemetry::{DoorName, Outcome};

/// Why a request does not go on.
pub(super) enum Halt {
    Refused(Box<Response<Body>>),
    Deferred(Box<Turn>),
}

/// A request that is to be kept for later.
pub(super) struct Turn {
    deferred: Arc<Deferred>,
    line: DeferLine,
    /// What it was refused by; nothing if others wait already.
    decision: Option<Decision>,
}

/// Whether requests under this path can be kept from upstreams.
pub(super) fn check_prefix(prefix: &str) -> Result<(), String> {
    let is_sound = prefix.starts_with('/')
        && prefix.ends_with('/')
        && prefix.len() > 1
        && tollgate::rules::sound_path(prefix).is_ok_and(|sound| sound == prefix);
    match is_sound {
        true => Ok(()),
        false => Err(format!(
            "{prefix:?} is no prefix for what is told of deferred requests; write it as \
             /.tollgate/deferred/"
        )),
    }
}

impl Visitor {
    /// The turn of a request whose key has others waiting: who came later must not go first. Asks
    /// no store, and costs nothing while nobody waits.
    #[inline]
    pub(super) fn turn_behind_others(
        &self,
        head: &Parts,
        known: &Known,
        looked: &Looked,
    ) -> Option<Box<Turn>> {
        let deferred = self.gateway.context.deferred.as_ref()?;
        match deferred.lines().are_empty() {
            true => None,
            false => self.line_with_others(deferred, head, known, looked),
        }
    }

    #[cold]
    fn line_with_others(
        &self,
        deferred: &Arc<Deferred>,
        head: &Parts,
        known: &Known,
        looked: &Looked,
    ) -> Option<Box<Turn>> {
        let domain = self.gateway.options.domain.as_deref();
        let arrival = looked.said.of(Arrival::new(head).peer(known.client).domain(domain));
        let mut lines =
            self.gateway.context.engine.limiter().deferring(&arrival.request()).into_iter();
        let line = lines.find(|line| deferred.lines().is_waiting(line))?;
        let fits = can_wait(head, &looked.upload, deferred.options.body);
        fits.then(|| Box::new(Turn { deferred: deferred.clone(), line, decision: None }))
    }

    /// The turn of a request that was refused; none if it stays refused.
    #[cold]
    pub(super) fn turn(
        &self,
        head: &Parts,
        body: &Upload,
        decision: &Decision,
    ) -> Option<Box<Turn>> {
        let line = decision.defer_line()?;
        let context = &self.gateway.context;
        let Some(deferred) = context.deferred.clone() else {
            self.gateway.say_that_nothing_is_kept();
            return None;
        };
        if !can_wait(head, body, deferred.options.body) {
            let telemetry = context.engine.telemetry();
            telemetry.turned_out(Outcome::Denied, DoorName::Gateway, decision);
            return None;
        }
        Some(Box::new(Turn { deferred, line, decision: Some(decision.clone()) }))
    }

    /// Keeps a request, and tells its client so.
    pub(super) async fn defer(&self, head: &Parts, looked: Looked, turn: Turn) -> Response<Body> {
        let Turn { deferred, line, decision } = turn;
        let ahead = deferred.lines().length(&line);
        let (domain, rule) = (line.domain.clone(), line.rule.clone());
        let kept = self.keep(head, looked, &deferred, line).await;
        let telemetry = self.gateway.context.engine.telemetry();
        let outcome = if kept.is_ok() { Outcome::Deferred } else { Outcome::Denied };
        match &decision {
            Some(decision) => telemetry.turned_out(outcome, DoorName::Gateway, decision),
            None => telemetry.stood_in_line(&domain, &rule, outcome),
        }
        match kept {
            Ok(id) => accepted(&deferred, id, ahead, decision.as_ref()),
            Err(refusal) => *refusal,
        }
    }

    async fn keep(
        &self,
        head: &Parts,
        looked: Looked,
        deferred: &Arc<Deferred>,
        line: DeferLine,
    ) -> Result<ItemId, Box<Response<Body>>> {
        let Looked { upload: body, said } = looked;
        let most = deferred.options.body;
        let announced = body.size_hint().upper().map_or(most, |upper| upper as usize).min(most);
        let room = deferred.reading.try_acquire_many(1 + (announced >> 10) as u32);
        let Ok(_room) = room else {
            return Err(Box::new(unkept(&QueueError::Full("too many are being read".into()))));
        };
        let pause = self.gateway.options.upload_timeout;
        let (body, trailers) = match read(body, most, pause).await {
            Ok(read) => read,
            Err(Unread::TooLong) => return Err(Box::new(too_long(most))),
            Err(Unread::Client(error)) => {
                return Err(Box::new(answer::failed(head.version, &error)));
            }
        };
        let (peer, is_secret) = self.peer.kept();
        let trouble = |error: getrandom::Error| QueueError::Trouble(error.to_string());
        let kept = async {
            let id = ItemId::new().map_err(trouble)?;
            let head = Head::new(head, peer, is_secret, said).trailed_by(&trailers);
            let added_ms = clock::unix_ms();
            deferred.add(NewItem { id, line: Arc::new(line), head, body, added_ms }).await?;
            Ok(id)
        };
        kept.await.map_err(|error: QueueError| Box::new(unkept(&error)))
    }

    /// What became of a deferred request.
    pub(super) async fn tell_of_deferred(&self, method: &Method, id: &str) -> Response<Body> {
        if ![Method::GET, Method::HEAD].contains(method) {
            let detail = "what became of a deferred request is asked for with GET";
            let mut response =
                answer::problem(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let found = match (&self.gateway.context.deferred, ItemId::parse(id)) {
            (Some(deferred), Some(id)) => deferred.status(id).await,
            _ => Ok(None),
        };
        match found {
            Ok(Some(told)) => document(StatusCode::OK, &told),
            Ok(None) => {
                let detail = "there is no such deferred request, or it was done long ago";
                answer::problem(StatusCode::NOT_FOUND, "not-found", detail)
            }
            Err(error) => unkept(&error),
        }
    }
}

/// Whether a request can be kept: not one that goes on in another protocol, expects to be told to go
/// on, is a call of gRPC, which knows no 202, or is known to be too long.
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

/// Why a body was not read to its end.
enum Unread {
    TooLong,
    Client(UpstreamError),
}

/// A body to its end, and what comes after it.
async fn read(
    mut body: Upload,
    most: usize,
    pause: Duration,
) -> Result<(Bytes, HeaderMap), Unread> {
    let (mut whole, mut trailers) = (BytesMut::new(), HeaderMap::new());
    loop {
        let frame = timeout(pause, body.frame()).await;
        let frame = frame.map_err(|_| Unread::Client(UpstreamError::SlowClient))?;
        match frame.map(|frame| frame.map(hyper::body::Frame::into_data)) {
            None => return Ok((whole.freeze(), trailers)),
            Some(Err(_)) => return Err(Unread::Client(UpstreamError::BadClient)),
            Some(Ok(Ok(data))) if whole.len() + data.len() > most => return Err(Unread::TooLong),
            Some(Ok(Ok(data))) => whole.extend_from_slice(&data),
            Some(Ok(Err(frame))) => trailers.extend(frame.into_trailers().unwrap_or_default()),
        }
    }
}

/// The answer to a request that is kept.
fn accepted(
    deferred: &Deferred,
    id: ItemId,
    ahead: usize,
    decision: Option<&Decision>,
) -> Response<Body> {
    let place = format!("{}{id}", deferred.options.prefix);
    let position = deferred.lines().position(id).unwrap_or(ahead);
    let mut told = json!({
        "id": id.to_string(),
        "state": "queued",
        "status_url": place,
        "position": position,
    });
    let wait = decision.and_then(|decision| estimate(decision, position));
    if let Some(wait) = wait {
        told["estimated_ms"] = json!(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    }
    let mut response = document(StatusCode::ACCEPTED, &told);
    let headers = response.headers_mut();
    headers.extend(HeaderValue::try_from(place).ok().map(|place| (LOCATION, place)));
    let seconds = wait.map_or(1, |wait| wait.as_secs() + 1);
    headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// When a request is likely to be sent: when its limit allows the first, and its pace for the rest.
fn estimate(decision: &Decision, position: usize) -> Option<Duration> {
    let limits = Answer::of(decision).limits;
    let pace = limits
        .iter()
        .filter_map(|limit| Some(limit.window_s? as f64 / limit.limit.max(1) as f64))
        .fold(0.0, f64::max);
    let rest = Duration::try_from_secs_f64(pace * position as f64).ok()?;
    decision.retry_after?.checked_add(rest)
}

fn document(status: StatusCode, told: &Value) -> Response<Body> {
    let mut response = Response::new(answer::whole(told.to_string().into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The answer to a request that cannot be kept: nobody will send it.
fn unkept(error: &QueueError) -> Response<Body> {
    let (code, what) = match error {
        QueueError::Full(_) => ("deferred-full", "no more requests can be kept for later"),
        QueueError::Trouble(_) => ("deferred-unavailable", "requests cannot be kept for later now"),
    };
    let detail = format!("{what}: {error}; this one was not accepted, try again later");
    let mut response = answer::problem(StatusCode::SERVICE_UNAVAILABLE, code, &detail);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
    response
}

fn too_long(most: usize) -> Response<Body> {
    let detail = format!(
        "the request is over its limit, and its body is longer than what is kept for later: \
         {most} bytes"
    );
    answer::problem(StatusCode::PAYLOAD_TOO_LARGE, "too-large", &detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_path_that_nobody_can_spell_otherwise() {
        for sound in ["/.tollgate/deferred/", "/later/"] {
            assert_eq!(check_prefix(sound), Ok(()));
        }
        for unsound in ["", "/", "later/", "/later", "/a//b/", "/a/../b/", "/%61/"] {
            assert!(check_prefix(unsound).is_err(), "{unsound}");
        }
    }
}
