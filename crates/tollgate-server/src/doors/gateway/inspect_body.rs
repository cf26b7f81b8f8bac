//! Reads the body of a request, for rules that use its fields.
//!
//! A body is read only if rules of its route use fields of it, it is JSON, and it is not too long.
//! It is then read completely before the decision, and forwarded unchanged. Fields that cannot be
//! read are unknown, and rules do not take that for cheap; a request with an ambiguous field is
//! rejected.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};
use hyper::http::request::Parts;
use tokio::time::timeout;
use tollgate_rules::Request;
use tollgate_tower::json::JsonFields;

use super::Gateway;
use super::body_fields::RequestBodyFields;
use super::upload::Upload;
use super::upstreams::UpstreamError;

/// The prefix of attributes that are fields of the body.
const BODY: &str = "body.";
/// The maximum size of all buffered bodies, in bytes. Above that no more are read.
const MAX_BUFFERED: usize = 64 << 20;

/// The body of a request, and the fields that were read from it.
#[derive(Debug)]
pub(super) struct InspectedBody {
    pub(super) upload: Upload,
    pub(super) body_fields: RequestBodyFields,
}

/// The reason why a request is rejected.
#[derive(Debug)]
pub(super) enum InspectError {
    /// The body did not arrive in time, or broke off.
    Client(UpstreamError),
    /// The field of this name could be read in two ways.
    Ambiguous(String),
}

impl InspectedBody {
    fn skipped(body: Incoming, is_unknown: bool) -> InspectedBody {
        InspectedBody {
            upload: Upload::new(body),
            body_fields: RequestBodyFields { values: Vec::new(), is_unknown },
        }
    }
}

/// Reads the fields of a body that rules use.
pub(super) async fn inspect_body(
    gateway: &Gateway,
    head: &Parts,
    body: Incoming,
) -> Result<InspectedBody, InspectError> {
    if body.is_end_stream() {
        return Ok(InspectedBody::skipped(body, false));
    }
    let names = wanted(gateway, head);
    let Some(fields) = JsonFields::new(BODY, names.iter().map(String::as_str)) else {
        return Ok(InspectedBody::skipped(body, false));
    };
    let most = gateway.options.read_body;
    let expected = body.size_hint().upper().map_or(most, |bytes| bytes as usize);
    if expected > most || !is_json(head) {
        return Ok(InspectedBody::skipped(body, true));
    }
    let Some(mut reservation) = BufferReservation::take(&gateway.bodies, expected) else {
        return Ok(InspectedBody::skipped(body, true));
    };
    let (frames, rest) = read(body, most, gateway.options.upload_timeout).await?;
    let length = frames.iter().filter_map(Frame::data_ref).map(Bytes::len).sum();
    reservation.shrink(length);
    let mut body_fields = RequestBodyFields { values: Vec::new(), is_unknown: true };
    if rest.is_none()
        && let Ok(found) = fields.read(&whole(&frames, length))
    {
        if let Some(name) = found.ambiguous() {
            return Err(InspectError::Ambiguous(name.to_owned()));
        }
        body_fields.is_unknown = !found.is_complete();
        let values = found.values().map(|(name, value)| (name.to_owned(), value.clone()));
        body_fields.values = values.collect();
    }
    Ok(InspectedBody { upload: Upload::of(frames, rest, reservation), body_fields })
}

/// Returns the fields that rules of the request's route use.
fn wanted(gateway: &Gateway, head: &Parts) -> Vec<String> {
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut request = Request::new(head.method.as_str(), target);
    if let Some(domain) = &gateway.options.domain {
        request = request.domain(domain);
    }
    gateway.context.decisions.limiter().rules().attributes_read(&request, BODY)
}

fn is_json(head: &Parts) -> bool {
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    let is_json = kind == "application/json" || kind.ends_with("+json");
    is_json && !head.headers.contains_key(CONTENT_ENCODING)
}

/// The frames that were read, and the rest of a body that is too long.
type ReadFrames = (VecDeque<Frame<Bytes>>, Option<Incoming>);

async fn read(
    mut body: Incoming,
    most: usize,
    pause: std::time::Duration,
) -> Result<ReadFrames, InspectError> {
    let mut frames = VecDeque::new();
    let mut length = 0;
    loop {
        let frame = timeout(pause, body.frame()).await;
        let frame = frame.map_err(|_| InspectError::Client(UpstreamError::SlowClient))?;
        let Some(frame) = frame else { return Ok((frames, None)) };
        let frame = frame.map_err(|_| InspectError::Client(UpstreamError::BadClient))?;
        length += frame.data_ref().map_or(0, Bytes::len);
        frames.push_back(frame);
        if length > most {
            return Ok((frames, Some(body)));
        }
    }
}

/// Joins the data frames.
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

/// The number of bytes buffered at the moment.
#[derive(Debug, Default)]
pub(super) struct BufferedBodies(AtomicUsize);

/// A share of the buffer memory for one body, returned on drop.
#[derive(Debug)]
pub(super) struct BufferReservation {
    bodies: Arc<BufferedBodies>,
    bytes: usize,
}

impl BufferReservation {
    fn take(bodies: &Arc<BufferedBodies>, bytes: usize) -> Option<BufferReservation> {
        let before = bodies.0.fetch_add(bytes, Ordering::Relaxed);
        let reservation = BufferReservation { bodies: bodies.clone(), bytes };
        (before + bytes <= MAX_BUFFERED).then_some(reservation)
    }

    fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        self.bodies.0.fetch_sub(less, Ordering::Relaxed);
    }
}

impl Drop for BufferReservation {
    fn drop(&mut self) {
        self.bodies.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_comes_back_and_is_bounded() {
        let bodies = Arc::new(BufferedBodies::default());
        let mut large = BufferReservation::take(&bodies, MAX_BUFFERED).unwrap();
        assert!(BufferReservation::take(&bodies, 1).is_none());
        large.shrink(MAX_BUFFERED - 1);
        assert!(BufferReservation::take(&bodies, 2).is_none());
        assert!(BufferReservation::take(&bodies, 1).is_some());
        drop(large);
        assert_eq!(bodies.0.load(Ordering::Relaxed), 0);
    }
}
