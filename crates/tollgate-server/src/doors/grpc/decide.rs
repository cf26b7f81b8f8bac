//! Decides an Envoy request and makes the `RateLimitResponse` of the decision.

use prost_types::{ListValue, Struct, Value, value::Kind};
use smallvec::SmallVec;
use tollgate_rules::envoy::{
    Code, CurrentLimit, Descriptor, DescriptorStatus, LimitOverride, Metadata, RateLimitRequest,
    RateLimitResponse, Unit,
};

use super::proto::envoy::config::core::v3::HeaderValue;
use super::proto::envoy::service::ratelimit::v3 as rls;
use super::proto::envoy::service::ratelimit::v3::rate_limit_response as part;
use super::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit as ProtoUnit;
use super::request::{EnvoyDescriptor, EnvoyRequest, OverrideFields};
use super::response_headers::{EnvoyHeaderStyle, response_headers};
use super::status::GrpcStatus;
use crate::decisions::DecisionService;
use crate::telemetry::EnvoyError;

/// The optional parts of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseOptions {
    /// The rate-limit headers that Envoy adds to its response.
    pub(crate) headers: EnvoyHeaderStyle,
}

/// Decides a request.
pub(super) async fn decide(
    decisions: &DecisionService,
    request: &EnvoyRequest<'_>,
    options: ResponseOptions,
) -> Result<rls::RateLimitResponse, GrpcStatus> {
    let mut descriptors = SmallVec::<[Descriptor<'_>; 4]>::new();
    for (descriptor, entries) in request.descriptors() {
        let limit = descriptor.limit.map(limit_override).transpose()?;
        let EnvoyDescriptor { hits, negative, .. } = *descriptor;
        descriptors.push(Descriptor { entries, hits, negative, limit });
    }
    let EnvoyRequest { domain, hits_addend, .. } = *request;
    let rules_request = RateLimitRequest { domain, descriptors: &descriptors, hits_addend };
    if let Some(fault) = rules_request.fault() {
        // Envoy's own rate limit service answers every error with this code.
        decisions.telemetry().record_envoy_error(EnvoyError::Request);
        return Err(GrpcStatus::new(tonic::Code::Unknown, fault));
    }
    match decisions.decide_envoy(&rules_request).await {
        Ok(answer) => {
            let headers = response_headers(options.headers, &answer, decisions.clock());
            Ok(response(&answer, request, headers))
        }
        Err(error) => Err(GrpcStatus::new(tonic::Code::Unknown, error.to_string())),
    }
}

fn limit_override(limit: OverrideFields) -> Result<LimitOverride, GrpcStatus> {
    let unit = unit(limit.unit).ok_or_else(|| {
        let message = "the limit of a descriptor needs a unit: SECOND, MINUTE, HOUR, DAY, …";
        GrpcStatus::new(tonic::Code::InvalidArgument, message)
    })?;
    Ok(LimitOverride { requests_per_unit: limit.requests_per_unit, unit })
}

/// Returns the unit of a protobuf number.
///
/// Requests and responses number their units alike, but only responses have the week.
fn unit(number: i32) -> Option<Unit> {
    Some(match ProtoUnit::try_from(number).ok()? {
        ProtoUnit::Unknown => return None,
        ProtoUnit::Second => Unit::Second,
        ProtoUnit::Minute => Unit::Minute,
        ProtoUnit::Hour => Unit::Hour,
        ProtoUnit::Day => Unit::Day,
        ProtoUnit::Week => Unit::Week,
        ProtoUnit::Month => Unit::Month,
        ProtoUnit::Year => Unit::Year,
    })
}

fn response(
    answer: &RateLimitResponse,
    request: &EnvoyRequest<'_>,
    response_headers_to_add: Vec<HeaderValue>,
) -> rls::RateLimitResponse {
    rls::RateLimitResponse {
        overall_code: code(answer.overall),
        statuses: answer.statuses.iter().map(status).collect(),
        response_headers_to_add,
        request_headers_to_add: Vec::new(),
        raw_body: Vec::new(),
        dynamic_metadata: answer.metadata.as_ref().map(|given| metadata(given, request)),
        quota: None,
    }
}

fn code(code: Code) -> i32 {
    match code {
        Code::Ok => part::Code::Ok as i32,
        Code::OverLimit => part::Code::OverLimit as i32,
    }
}

fn status(status: &DescriptorStatus) -> part::DescriptorStatus {
    part::DescriptorStatus {
        code: code(status.code),
        current_limit: status.current_limit.as_ref().map(limit),
        limit_remaining: status.limit_remaining,
        duration_until_reset: status.duration_until_reset.map(|span| prost_types::Duration {
            seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            nanos: span.subsec_nanos() as i32,
        }),
        quota: None,
    }
}

fn limit(limit: &CurrentLimit) -> part::RateLimit {
    let unit = match (limit.unit_multiplier, limit.unit) {
        (1, Unit::Second) => ProtoUnit::Second,
        (1, Unit::Minute) => ProtoUnit::Minute,
        (1, Unit::Hour) => ProtoUnit::Hour,
        (1, Unit::Day) => ProtoUnit::Day,
        (1, Unit::Week) => ProtoUnit::Week,
        (1, Unit::Month) => ProtoUnit::Month,
        (1, Unit::Year) => ProtoUnit::Year,
        // The message cannot express 15 minutes, and any other unit would be wrong.
        _ => ProtoUnit::Unknown,
    };
    part::RateLimit {
        name: limit.name.as_deref().unwrap_or_default().to_owned(),
        requests_per_unit: limit.requests_per_unit,
        unit: unit as i32,
    }
}

/// Returns the metadata of limits together with the request, as Envoy's own service does.
fn metadata(given: &Metadata, request: &EnvoyRequest<'_>) -> Struct {
    let descriptors = request.descriptors().map(|(one, entries)| object(descriptor(one, entries)));
    let descriptors = list(descriptors.collect());
    let mut fields = vec![("domain", text(request.domain)), ("descriptors", descriptors)];
    if request.hits_addend != 0 {
        fields.push(("hitsAddend", number(request.hits_addend.into())));
    }
    fields.push(("metadata", value(given)));
    structure(fields)
}

fn descriptor(one: &EnvoyDescriptor, entries: &[(&str, &str)]) -> Struct {
    let entries = entries.iter().map(|(key, value)| text(&format!("{key}={value}")));
    let mut fields = vec![("entries", list(entries.collect()))];
    if let Some(limit) = one.limit {
        let unit = part::rate_limit::Unit::try_from(limit.unit).unwrap_or_default().as_str_name();
        let limit = format!("requests_per_unit:{} unit:{unit}", limit.requests_per_unit);
        fields.push(("limit", text(&limit)));
    }
    if let Some(hits) = one.hits {
        fields.push(("hitsAddend", number(hits as f64)));
    }
    structure(fields)
}

fn value(metadata: &Metadata) -> Value {
    match metadata {
        Metadata::Null => Value { kind: Some(Kind::NullValue(0)) },
        Metadata::Flag(flag) => Value { kind: Some(Kind::BoolValue(*flag)) },
        Metadata::Number(value) => number(*value),
        Metadata::Text(value) => text(value),
        Metadata::List(items) => list(items.iter().map(value).collect()),
        Metadata::Map(fields) => {
            object(structure(fields.iter().map(|(name, field)| (name.as_str(), value(field)))))
        }
    }
}

fn text(text: &str) -> Value {
    Value { kind: Some(Kind::StringValue(text.to_owned())) }
}

fn number(number: f64) -> Value {
    Value { kind: Some(Kind::NumberValue(number)) }
}

fn list(values: Vec<Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values })) }
}

fn object(fields: Struct) -> Value {
    Value { kind: Some(Kind::StructValue(fields)) }
}

fn structure<'n>(fields: impl IntoIterator<Item = (&'n str, Value)>) -> Struct {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    Struct { fields: fields.collect() }
}
