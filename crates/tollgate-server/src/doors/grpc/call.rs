//! The fast path of `ShouldRateLimit`: one call, from frames to frames.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use prost::Message;
use tonic::Code;

use super::GrpcServices;
use super::decide::{ResponseOptions, decide};
use super::request::EnvoyRequest;
use super::response_headers::EnvoyHeaderStyle;
use super::status::GrpcStatus;
use crate::access::Permission;
use crate::net::{BodyBuffer, BodyBufferError, BodyMemory, BufferedBody};

/// The path of the method.
pub(super) const SHOULD_RATE_LIMIT: &str =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// The size of the prefix of a message: a compression flag and the length.
pub(super) const PREFIX_BYTES: usize = 5;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Runs a call and sends its response; if the client has left meanwhile, sending is a no-op.
pub(super) async fn respond(
    services: Arc<GrpcServices>,
    memory: BodyMemory,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    if !is_grpc(&request) {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let _ = respond.send_response(response, true);
        return;
    }
    match run(&services, &memory, request).await {
        Ok(Some(message)) => {
            let mut response = Response::new(());
            response.headers_mut().insert(CONTENT_TYPE, GRPC);
            let Ok(mut stream) = respond.send_response(response, false) else { return };
            let mut trailers = HeaderMap::with_capacity(1);
            trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
            let _ = stream.send_data(message, false).and_then(|()| stream.send_trailers(trailers));
        }
        Ok(None) => {}
        Err(status) => send_status(&mut respond, &status),
    }
}

/// Sends a response that consists of a status alone.
pub(super) fn send_status(respond: &mut SendResponse<Bytes>, status: &GrpcStatus) {
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
    let content_type = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    // `application/grpc+proto` is gRPC too; `application/grpc-web` is another protocol.
    let suffix = content_type.and_then(|value| value.strip_prefix(b"application/grpc"));
    suffix.is_some_and(|rest| rest.is_empty() || rest[0] == b'+' || rest[0] == b';')
        && request.method() == Method::POST
}

/// Returns the framed response; `None` if the client left before its request was complete.
async fn run(
    services: &GrpcServices,
    memory: &BodyMemory,
    request: Request<RecvStream>,
) -> Result<Option<Bytes>, GrpcStatus> {
    let token = services.token(request.headers());
    services.authorize(token, Permission::Decide)?;
    let config = &services.context.config;
    let message = read_message(request.into_body(), memory, config.bounds.body).await?;
    let Some(message) = message else { return Ok(None) };
    let request = EnvoyRequest::from_protobuf(&message[PREFIX_BYTES..])?;
    if request.has_refunds() {
        services.authorize(token, Permission::Change)?;
    }
    let options = ResponseOptions { headers: EnvoyHeaderStyle::new(config) };
    let response = decide(&services.context.decisions, &request, options).await?;
    let length = response.encoded_len();
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + length);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    response.encode_raw(&mut framed);
    Ok(Some(framed.freeze()))
}

/// Reads the one message of a request; returns `None` if the client left.
///
/// A message that does not come in one piece takes from the memory of its client.
async fn read_message(
    mut body: RecvStream,
    memory: &BodyMemory,
    max_bytes: usize,
) -> Result<Option<BufferedBody>, GrpcStatus> {
    let mut parts: Option<BodyBuffer> = None;
    let mut message = BufferedBody::default();
    while let Some(part) = body.data().await {
        let Ok(part) = part else { return Ok(None) };
        let is_whole = parts.is_none() && body.is_end_stream();
        let received = if is_whole {
            message = part.into();
            &message[..]
        } else {
            let most = max_bytes.saturating_add(PREFIX_BYTES);
            let parts = parts.get_or_insert_with(|| BodyBuffer::new(memory, most));
            parts.push(&part).map_err(unread)?;
            parts.as_slice()
        };
        check_prefix(received, max_bytes)?;
        if body.is_end_stream() {
            break;
        }
    }
    let message = parts.map_or(message, BodyBuffer::finish);
    // Only now may the client send more: its unfinished requests fit into the window of the
    // connection, however many streams it opens.
    let _ = body.flow_control().release_capacity(message.len());
    match message.get(..PREFIX_BYTES).map(message_length) {
        Some(length) if message.len() == PREFIX_BYTES + length => Ok(Some(message)),
        _ => Err(GrpcStatus::new(Code::InvalidArgument, "the message is cut off")),
    }
}

/// Returns the error of a message that was not read.
fn unread(error: BodyBufferError) -> GrpcStatus {
    match error {
        BodyBufferError::TooLarge => {
            let message = "a request has exactly one message, and there is more";
            GrpcStatus::new(Code::InvalidArgument, message)
        }
        BodyBufferError::NoMemory => {
            let message = "too many messages of this client are being received; send fewer at once";
            GrpcStatus::new(Code::Unavailable, message)
        }
    }
}

/// Returns an error if the bytes so far cannot become a valid message.
fn check_prefix(read: &[u8], max_bytes: usize) -> Result<(), GrpcStatus> {
    let Some(prefix) = read.get(..PREFIX_BYTES) else { return Ok(()) };
    let length = message_length(prefix);
    let (code, message) = if prefix[0] != 0 {
        (Code::Unimplemented, "compressed messages are not read: send them as they are".into())
    } else if length > max_bytes {
        (Code::ResourceExhausted, format!("a message has at most {max_bytes} bytes"))
    } else if read.len() > PREFIX_BYTES + length {
        (Code::InvalidArgument, "a request has exactly one message, and there is more".into())
    } else {
        return Ok(());
    };
    Err(GrpcStatus::new(code, message))
}

fn message_length(prefix: &[u8]) -> usize {
    prefix[1..PREFIX_BYTES].iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
}
