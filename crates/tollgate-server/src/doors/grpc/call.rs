//! One call of the method that is asked all the time: bytes in, bytes out.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use prost::Message;
use tonic::Code;

use super::Inside;
use super::answer::Extras;
use super::ask::ask;
use super::question::Question;
use super::status::Status;

/// The method.
pub(super) const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// Before every message: whether it is compressed, and its length.
pub(super) const PREFIX: usize = 5;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Answers a call. Whoever asked may be gone meanwhile; then there is nobody to tell.
pub(super) async fn answer(
    door: Arc<Inside>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    if !is_grpc(&request) {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let _ = respond.send_response(response, true);
        return;
    }
    match decide(&door, request).await {
        Ok(Some(message)) => {
            let mut response = Response::new(());
            response.headers_mut().insert(CONTENT_TYPE, GRPC);
            let Ok(mut stream) = respond.send_response(response, false) else { return };
            let mut trailers = HeaderMap::with_capacity(1);
            trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
            let _ = stream.send_data(message, false).and_then(|()| stream.send_trailers(trailers));
        }
        Ok(None) => {}
        Err(status) => refuse(&mut respond, &status),
    }
}

/// Answers with a status alone.
pub(super) fn refuse(respond: &mut SendResponse<Bytes>, status: &Status) {
    let mut response = Response::new(());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC);
    headers.insert(GRPC_STATUS, HeaderValue::from(status.code as i32));
    if let Ok(message) = HeaderValue::try_from(status.encoded_message()) {
        headers.insert(GRPC_MESSAGE, message);
    }
    let _ = respond.send_response(response, true);
}

fn is_grpc(request: &Request<RecvStream>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    // `application/grpc+proto` is the same, `application/grpc-web` is not.
    let is_grpc = kind.and_then(|kind| kind.strip_prefix(b"application/grpc"));
    is_grpc.is_some_and(|rest| rest.is_empty() || rest[0] == b'+' || rest[0] == b';')
        && request.method() == Method::POST
}

/// The framed answer; none if the caller went away before the question was complete.
async fn decide(door: &Inside, request: Request<RecvStream>) -> Result<Option<Bytes>, Status> {
    if !door.admits(request.headers()) {
        let message = "a token is needed: authorization: Bearer …";
        return Err(Status::new(Code::Unauthenticated, message));
    }
    let config = &door.context.config;
    let Some(message) = read(request.into_body(), config.bounds.body).await? else {
        return Ok(None);
    };
    let question = Question::read(&message)?;
    let extras = Extras { headers: config.envoy_headers };
    let answer = ask(&door.context.engine, &question, extras).await?;
    let length = answer.encoded_len();
    let mut framed = BytesMut::with_capacity(PREFIX + length);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    answer.encode_raw(&mut framed);
    Ok(Some(framed.freeze()))
}

/// The one message of a request; none if the caller went away.
async fn read(mut body: RecvStream, most: usize) -> Result<Option<Bytes>, Status> {
    let mut whole = Bytes::new();
    let mut parts = BytesMut::new();
    while let Some(part) = body.data().await {
        let Ok(part) = part else { return Ok(None) };
        match (whole.is_empty(), parts.is_empty()) {
            (true, true) => whole = part,
            _ => {
                if parts.is_empty() {
                    parts.extend_from_slice(&whole);
                }
                parts.extend_from_slice(&part);
            }
        }
        let read = if parts.is_empty() { &whole[..] } else { &parts[..] };
        check_prefix(read, most)?;
        if body.is_end_stream() {
            break;
        }
    }
    let mut message = if parts.is_empty() { whole } else { parts.freeze() };
    // Only now may the client send as much again: what it has under way fits into the window of
    // its connection, however many streams it opens.
    let _ = body.flow_control().release_capacity(message.len());
    if message.len() < PREFIX {
        return Err(Status::new(Code::InvalidArgument, "the message is cut off"));
    }
    let prefix = message.split_to(PREFIX);
    match message.len() == length(&prefix) {
        true => Ok(Some(message)),
        false => Err(Status::new(Code::InvalidArgument, "the message is cut off")),
    }
}

/// Whether what has come so far may become a message.
fn check_prefix(read: &[u8], most: usize) -> Result<(), Status> {
    let Some(prefix) = read.get(..PREFIX) else { return Ok(()) };
    let length = length(prefix);
    let (code, message) = if prefix[0] != 0 {
        (Code::Unimplemented, "compressed messages are not read: send them as they are".into())
    } else if length > most {
        (Code::ResourceExhausted, format!("a message has at most {most} bytes"))
    } else if read.len() > PREFIX + length {
        (Code::InvalidArgument, "one message is asked for, and there is more".into())
    } else {
        return Ok(());
    };
    Err(Status::new(code, message))
}

fn length(prefix: &[u8]) -> usize {
    prefix[1..PREFIX].iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
}
