//! Looking into the body of a request, for rules that name its fields.
//!
//! Only where rules about its route do, only if it is JSON, and only up to a bound: then the whole
//! body is read before anything is decided, and sent on as it came. What cannot be read stays
//! unknown, which rules do not take for cheap; what another reader could read differently goes no
//! further.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};
use hyper::http::request::Parts;
use tokio::time::timeout;
use tollgate::Request;
use tollgate_tower::json::Fields;

use super::Gateway;
use super::said::Said;
use super::upload::Upload;
use super::upstreams::UpstreamError;

/// What stands before the names of fields.
const BODY: &str = "body.";
/// All bodies that are kept at once, in bytes. Above that no more are read.
const HEAVIEST: usize = 64 << 20;

/// A body that was looked into, if it was to be.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) upload: Upload,
    pub(super) said: Said,
}

/// Why a request goes no further.
#[derive(Debug)]
pub(super) enum LookError {
    /// It did not come, or broke off.
    Client(UpstreamError),
    /// This field could be read in two ways.
    Ambiguous(String),
}

impl Looked {
    fn not(body: Incoming, is_unknown: bool) -> Looked {
        Looked { upload: Upload::new(body), said: Said { values: Vec::new(), is_unknown } }
    }
}

/// Looks into a body, if rules ask for it.
pub(super) async fn look(
    gateway: &Gateway,
    head: &Parts,
    body: Incoming,
) -> Result<Looked, LookError> {
    if body.is_end_stream() {
        return Ok(Looked::not(body, false));
    }
    let names = wanted(gateway, head);
    let Some(fields) = Fields::new(BODY, names.iter().map(String::as_str)) else {
        return Ok(Looked::not(body, false));
    };
    let most = gateway.options.read_body;
    let expected = body.size_hint().upper().map_or(most, |bytes| bytes as usize);
    if expected > most || !is_json(head) {
        return Ok(Looked::not(body, true));
    }
    let Some(mut room) = Room::take(&gateway.bodies, expected) else {
        return Ok(Looked::not(body, true));
    };
    let (frames, rest) = read(body, most, gateway.options.upload_timeout).await?;
    let length = frames.iter().filter_map(Frame::data_ref).map(Bytes::len).sum();
    room.shrink(length);
    let mut said = Said { values: Vec::new(), is_unknown: true };
    if rest.is_none()
        && let Ok(found) = fields.read(&whole(&frames, length))
    {
        if let Some(name) = found.ambiguous() {
            return Err(LookError::Ambiguous(name.to_owned()));
        }
        said.is_unknown = !found.is_complete();
        let values = found.values().map(|(name, value)| (name.to_owned(), value.clone()));
        said.values = values.collect();
    }
    Ok(Looked { upload: Upload::of(frames, rest, room), said })
}

/// The fields that rules about the route of a request look at.
fn wanted(gateway: &Gateway, head: &Parts) -> Vec<String> {
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut request = Request::new(head.method.as_str(), target);
    if let Some(domain) = &gateway.options.domain {
        request = request.domain(domain);
    }
    gateway.context.engine.limiter().body_fields(&request)
}

fn is_json(head: &Parts) -> bool {
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    let is_json = kind == "application/json" || kind.ends_with("+json");
    is_json && !head.headers.contains_key(CONTENT_ENCODING)
}

/// What was read of a body, and what is left if that was too much.
type Read = (VecDeque<Frame<Bytes>>, Option<Incoming>);

async fn read(
    mut body: Incoming,
    most: usize,
    pause: std::time::Duration,
) -> Result<Read, LookError> {
    let mut frames = VecDeque::new();
    let mut length = 0;
    loop {
        let frame = timeout(pause, body.frame()).await;
        let frame = frame.map_err(|_| LookError::Client(UpstreamError::SlowClient))?;
        let Some(frame) = frame else { return Ok((frames, None)) };
        let frame = frame.map_err(|_| LookError::Client(UpstreamError::BadClient))?;
        length += frame.data_ref().map_or(0, Bytes::len);
        frames.push_back(frame);
        if length > most {
            return Ok((frames, Some(body)));
        }
    }
}

/// All of it in one piece.
fn whole(frames: &VecDeque<Frame<Bytes>>, length: usize) -> Bytes {
    let mut pieces = frames.iter().filter_map(Frame::data_ref);
    match (pieces.next(), pieces.next()) {
        (Some(only), None) => only.clone(),
        _ => {
            let mut whole = BytesMut::with_capacity(length);
            frames.iter().filter_map(Frame::data_ref).for_each(|it| whole.extend_from_slice(it));
            whole.freeze()
        }
    }
}

/// How much of bodies is kept at the moment.
#[derive(Debug, Default)]
pub(super) struct Bodies(AtomicUsize);

/// Room for one of them, given back with it.
#[derive(Debug)]
pub(super) struct Room {
    bodies: Arc<Bodies>,
    bytes: usize,
}

impl Room {
    fn take(bodies: &Arc<Bodies>, bytes: usize) -> Option<Room> {
        let before = bodies.0.fetch_add(bytes, Ordering::Relaxed);
        let room = Room { bodies: bodies.clone(), bytes };
        (before + bytes <= HEAVIEST).then_some(room)
    }

    fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        self.bodies.0.fetch_sub(less, Ordering::Relaxed);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.bodies.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_comes_back_and_is_bounded() {
        let bodies = Arc::new(Bodies::default());
        let mut large = Room::take(&bodies, HEAVIEST).unwrap();
        assert!(Room::take(&bodies, 1).is_none());
        large.shrink(HEAVIEST - 1);
        assert!(Room::take(&bodies, 2).is_none());
        assert!(Room::take(&bodies, 1).is_some());
        drop(large);
        assert_eq!(bodies.0.load(Ordering::Relaxed), 0);
    }
}
