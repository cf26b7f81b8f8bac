//! From the engine's answer to Envoy's message.

use prost_types::{ListValue, Struct, Value, value::Kind};
use tollgate::rules::envoy::{
    Code, CurrentLimit, DescriptorStatus, Headers, Metadata, RateLimitAnswer, Unit,
};

use super::proto::envoy::config::core::v3::HeaderValue;
use super::proto::envoy::service::ratelimit::v3 as rls;
use super::proto::envoy::service::ratelimit::v3::rate_limit_response as part;
use super::question::{Descriptor, Question};

/// What is told beside codes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extras {
    /// Headers for the client.
    pub(crate) headers: bool,
}

pub(super) fn render(
    answer: &RateLimitAnswer,
    asked: &Question<'_>,
    extras: Extras,
) -> rls::RateLimitResponse {
    let headers = answer.headers.as_ref().filter(|_| extras.headers).map(headers);
    rls::RateLimitResponse {
        overall_code: code(answer.overall),
        statuses: answer.statuses.iter().map(status).collect(),
        response_headers_to_add: headers.unwrap_or_default(),
        request_headers_to_add: Vec::new(),
        raw_body: Vec::new(),
        dynamic_metadata: answer.metadata.as_ref().map(|given| metadata(given, asked)),
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
    use part::rate_limit::Unit as Number;
    let unit = match (limit.unit_multiplier, limit.unit) {
        (1, Unit::Second) => Number::Second,
        (1, Unit::Minute) => Number::Minute,
        (1, Unit::Hour) => Number::Hour,
        (1, Unit::Day) => Number::Day,
        (1, Unit::Week) => Number::Week,
        (1, Unit::Month) => Number::Month,
        (1, Unit::Year) => Number::Year,
        // The message has no word for 15 minutes, and one of them would be wrong.
        _ => Number::Unknown,
    };
    part::RateLimit {
        name: limit.name.as_deref().unwrap_or_default().to_owned(),
        requests_per_unit: limit.requests_per_unit,
        unit: unit as i32,
    }
}

fn headers(headers: &Headers) -> Vec<HeaderValue> {
    let header = |(name, value): (&str, u64)| HeaderValue {
        key: name.to_owned(),
        value: value.to_string(),
        raw_value: Vec::new(),
    };
    headers.pairs().map(header).into()
}

/// What the original sends where limits have metadata: also what was asked.
fn metadata(given: &Metadata, asked: &Question<'_>) -> Struct {
    let descriptors = asked.descriptors().map(|(one, entries)| object(descriptor(one, entries)));
    let descriptors = list(descriptors.collect());
    let mut fields = vec![("domain", text(asked.domain)), ("descriptors", descriptors)];
    if asked.hits_addend != 0 {
        fields.push(("hitsAddend", number(asked.hits_addend.into())));
    }
    fields.push(("metadata", value(given)));
    structure(fields)
}

fn descriptor(one: &Descriptor, entries: &[(&str, &str)]) -> Struct {
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
        Metadata::Number(of) => number(*of),
        Metadata::Text(words) => text(words),
        Metadata::List(items) => list(items.iter().map(value).collect()),
        Metadata::Map(fields) => {
            object(structure(fields.iter().map(|(name, of)| (name.as_str(), value(of)))))
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
