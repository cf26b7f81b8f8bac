//! Reads the body of a request, for rules that use its fields.
//!
//! A body is read only if rules of its route use fields of it, it is JSON, and it is not too long.
//! The body is then read completely before the decision, and forwarded unchanged. If it does not come with
//! its head, the rules that need no body are evaluated first. Fields that cannot be read are unknown,
//! and rules do not take that for cheap; a request with an ambiguous field is rejected.

use hyper::Response;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use hyper::http::request::Parts;
use tollgate_rules::Request;
use tollgate_tower::json::JsonFields;

use super::body_fields::RequestBodyFields;
use super::body_reader::{BodyReader, BodyTimeouts};
use super::forwarded::ResolvedClient;
use super::proxy_request::GatewayBody;
use super::upload::Upload;
use super::upstreams::UpstreamError;
use super::{Gateway, GatewayConnection, local_response};
use crate::net::BodyMemory;

/// The prefix of attributes that are fields of the body.
const BODY: &str = "body.";

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
    /// The client has no memory left for bodies.
    NoMemory,
    /// Rules refused it by its head.
    Refused(Box<Response<GatewayBody>>),
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
    connection: &GatewayConnection,
    head: &Parts,
    resolved: &ResolvedClient,
    body: Incoming,
) -> Result<InspectedBody, InspectError> {
    if body.is_end_stream() {
        return Ok(InspectedBody::skipped(body, false));
    }
    let gateway = &*connection.gateway;
    let names = wanted(gateway, head);
    let Some(fields) = JsonFields::new(BODY, names.iter().map(String::as_str)) else {
        return Ok(InspectedBody::skipped(body, false));
    };
    let max_bytes = gateway.options.read_body;
    let is_too_long = body.size_hint().upper().is_some_and(|bytes| bytes > max_bytes as u64);
    if is_too_long || !is_json(head) {
        return Ok(InspectedBody::skipped(body, true));
    }
    // Boxed, because a rare future must not enlarge that of every request.
    Box::pin(read_fields(connection, head, resolved, body, fields)).await
}

async fn read_fields(
    connection: &GatewayConnection,
    head: &Parts,
    resolved: &ResolvedClient,
    body: Incoming,
    fields: JsonFields,
) -> Result<InspectedBody, InspectError> {
    let options = &connection.gateway.options;
    let memory = BodyMemory::new(&connection.gateway.context.bodies, resolved.client);
    let mut reader = BodyReader::new(body, memory, options.read_body);
    let expects = head.headers.contains_key(EXPECT);
    // A client that expects `100 Continue` sends nothing before its body is polled.
    if expects || !reader.read_received().await? {
        if let Some(refusal) = connection.refuse_by_head(head, resolved).await {
            local_response::read_small(reader.into_rest(), expects).await;
            return Err(InspectError::Refused(refusal));
        }
        let total = options.read_body_timeout;
        reader.read_rest(BodyTimeouts { pause: options.upload_timeout, total }).await?;
    }
    let (whole, upload) = reader.finish()?;
    let mut body_fields = RequestBodyFields { values: Vec::new(), is_unknown: true };
    if let Some(Ok(found)) = whole.map(|whole| fields.read(&whole)) {
        if let Some(name) = found.ambiguous() {
            return Err(InspectError::Ambiguous(name.to_owned()));
        }
        body_fields.is_unknown = !found.is_complete();
        let values = found.values().map(|(name, value)| (name.to_owned(), value.clone()));
        body_fields.values = values.collect();
    }
    Ok(InspectedBody { upload, body_fields })
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
