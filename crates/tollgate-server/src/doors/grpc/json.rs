//! `/json`: Envoy's rate limit request and response in protobuf's JSON mapping.
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_target;

use std::fmt;
use std::marker::PhantomData;

use http::StatusCode;
use prost_types::{Struct, Value, value::Kind};
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::decide::{ResponseOptions, decide};
use super::proto::envoy::config::core::v3::HeaderValue;
use super::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use super::proto::envoy::service::ratelimit::v3::{self as rls, rate_limit_response as part};
use super::request::{EnvoyDescriptor, EnvoyRequest, MAX_DESCRIPTORS, OverrideFields};
use super::response_headers::EnvoyHeaderStyle;
use super::status::GrpcStatus;
use crate::decisions::DecisionService;

/// Returns 200 or 429 with a `RateLimitResponse` in JSON, or 400 with an error as text.
pub(crate) async fn respond(
    decisions: &DecisionService,
    body: &[u8],
    headers: EnvoyHeaderStyle,
    may_refund: bool,
) -> (StatusCode, Vec<u8>) {
    // The first line is the whole answer of Envoy's own service.
    let bad_request =
        |error: String| (StatusCode::BAD_REQUEST, format!("Bad Request\n{error}\n").into());
    let json: JsonRequest = match serde_json::from_slice(body) {
        Ok(json) => json,
        Err(error) => return bad_request(format!("no RateLimitRequest: {error}")),
    };
    let request = match json.to_request() {
        Ok(request) => request,
        Err(status) => return bad_request(status.message.into_owned()),
    };
    if request.has_refunds() && !may_refund {
        return (StatusCode::FORBIDDEN, b"negative hits need the role `write`\n".into());
    }
    let response = match decide(decisions, &request, ResponseOptions { headers }).await {
        Ok(response) => response,
        Err(status) => return bad_request(status.message.into_owned()),
    };
    let status = match response.overall_code() {
        part::Code::Ok => StatusCode::OK,
        part::Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        part::Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
    };
    match serde_json::to_vec(&JsonResponse::new(&response)) {
        Ok(body) => (status, body),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n").into_bytes()),
    }
}

/// A `RateLimitRequest` in JSON; names may be in camel case or snake case, values may be null.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct JsonRequest {
    #[serde(default, deserialize_with = "or_default")]
    domain: String,
    #[serde(default, deserialize_with = "bounded_list")]
    descriptors: Vec<JsonDescriptor>,
    #[serde(default, deserialize_with = "or_default", alias = "hits_addend")]
    hits_addend: JsonNumber<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct JsonDescriptor {
    #[serde(default, deserialize_with = "bounded_list")]
    entries: Vec<JsonEntry>,
    limit: Option<JsonOverride>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<JsonNumber<u64>>,
    #[serde(default, deserialize_with = "or_default", alias = "is_negative_hits")]
    is_negative_hits: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonEntry {
    #[serde(default, deserialize_with = "or_default")]
    key: String,
    #[serde(default, deserialize_with = "or_default")]
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct JsonOverride {
    #[serde(default, deserialize_with = "or_default", alias = "requests_per_unit")]
    requests_per_unit: JsonNumber<u32>,
    #[serde(default, deserialize_with = "or_default")]
    unit: JsonUnit,
}

fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}

/// Reads a list of at most [`MAX_DESCRIPTORS`] items.
fn bounded_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    struct BoundedListVisitor<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundedListVisitor<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX_DESCRIPTORS}")
        }

        fn visit_unit<E>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = list.next_element()? {
                if items.len() == MAX_DESCRIPTORS {
                    return Err(A::Error::invalid_length(items.len() + 1, &self));
                }
                items.push(item);
            }
            Ok(items)
        }
    }

    from.deserialize_any(BoundedListVisitor(PhantomData))
}

/// A whole number, written `3`, `3.0` or `"3"`.
#[derive(Default)]
struct JsonNumber<T>(T);

impl<'de, T: TryFrom<u64>> Deserialize<'de> for JsonNumber<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<JsonNumber<T>, D::Error> {
        let read = match Json::deserialize(from)? {
            Json::String(text) => text.parse().ok(),
            Json::Number(number) => match (number.as_u64(), number.as_f64()) {
                (Some(whole), _) => Some(whole),
                // Exact for whole numbers below 2^53.
                (None, Some(float)) if float.fract() == 0.0 && (0.0..9e15).contains(&float) => {
                    Some(float as u64)
                }
                _ => None,
            },
            _ => None,
        };
        let number = read.and_then(|read| T::try_from(read).ok());
        number.map(JsonNumber).ok_or_else(|| D::Error::custom("a whole number that fits is needed"))
    }
}

/// A unit, written as its name or its number.
#[derive(Default)]
struct JsonUnit(i32);

impl<'de> Deserialize<'de> for JsonUnit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<JsonUnit, D::Error> {
        let read = match Json::deserialize(from)? {
            Json::String(name) => Unit::from_str_name(&name).map(|unit| unit as i32),
            Json::Number(number) => number.as_i64().and_then(|number| number.try_into().ok()),
            _ => None,
        };
        read.map(JsonUnit).ok_or_else(|| D::Error::custom("no unit; SECOND, MINUTE, HOUR, DAY, …"))
    }
}

impl JsonRequest {
    fn to_request(&self) -> Result<EnvoyRequest<'_>, GrpcStatus> {
        let mut request = EnvoyRequest::new(&self.domain, self.hits_addend.0);
        for json in &self.descriptors {
            let limit = json.limit.as_ref().map(|limit| OverrideFields {
                requests_per_unit: limit.requests_per_unit.0,
                unit: limit.unit.0,
            });
            let hits = json.hits_addend.as_ref().map(|hits| hits.0);
            let descriptor = EnvoyDescriptor::new(hits, json.is_negative_hits, limit);
            let entries = json.entries.iter().map(|entry| (&*entry.key, &*entry.value));
            request.add(descriptor, entries)?;
        }
        Ok(request)
    }
}

/// A `RateLimitResponse` in JSON, without zero and empty fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonResponse<'a> {
    overall_code: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    statuses: Vec<JsonStatus<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    response_headers_to_add: Vec<JsonHeader<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dynamic_metadata: Option<Json>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonStatus<'a> {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_limit: Option<JsonLimit<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    limit_remaining: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_until_reset: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonLimit<'a> {
    #[serde(skip_serializing_if = "is_zero")]
    requests_per_unit: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Serialize)]
struct JsonHeader<'a> {
    key: &'a str,
    value: &'a str,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl<'a> JsonResponse<'a> {
    fn new(response: &'a rls::RateLimitResponse) -> JsonResponse<'a> {
        let header = |HeaderValue { key, value, .. }: &'a HeaderValue| JsonHeader { key, value };
        JsonResponse {
            overall_code: response.overall_code().as_str_name(),
            statuses: response.statuses.iter().map(JsonStatus::new).collect(),
            response_headers_to_add: response.response_headers_to_add.iter().map(header).collect(),
            dynamic_metadata: response.dynamic_metadata.as_ref().map(object),
        }
    }
}

impl<'a> JsonStatus<'a> {
    fn new(status: &'a part::DescriptorStatus) -> JsonStatus<'a> {
        let limit = |limit: &'a part::RateLimit| JsonLimit {
            requests_per_unit: limit.requests_per_unit,
            unit: (limit.unit != 0).then(|| limit.unit().as_str_name()),
            name: &limit.name,
        };
        JsonStatus {
            code: status.code().as_str_name(),
            current_limit: status.current_limit.as_ref().map(limit),
            limit_remaining: status.limit_remaining,
            // Resets are in whole seconds.
            duration_until_reset: status.duration_until_reset.map(|it| format!("{}s", it.seconds)),
        }
    }
}

fn object(fields: &Struct) -> Json {
    let fields = fields.fields.iter().map(|(name, value)| (name.clone(), json_of(value)));
    Json::Object(fields.collect::<Map<_, _>>())
}

fn json_of(value: &Value) -> Json {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::BoolValue(flag)) => Json::Bool(*flag),
        Some(Kind::NumberValue(number)) if number.fract() == 0.0 && number.abs() < 9e15 => {
            Json::from(*number as i64)
        }
        Some(Kind::NumberValue(number)) => Json::from(*number),
        Some(Kind::StringValue(text)) => Json::from(text.as_str()),
        Some(Kind::ListValue(list)) => list.values.iter().map(json_of).collect(),
        Some(Kind::StructValue(fields)) => object(fields),
    }
}

#[cfg(test)]
mod tests;
