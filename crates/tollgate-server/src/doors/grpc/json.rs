//! `POST /json`: Envoy's question and answer as protobuf writes them in JSON.

use std::fmt;
use std::marker::PhantomData;

use http::StatusCode;
use prost_types::{Struct, Value, value::Kind};
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::answer::Extras;
use super::ask::ask;
use super::proto::envoy::config::core::v3::HeaderValue;
use super::proto::envoy::service::ratelimit::v3 as rls;
use super::proto::envoy::service::ratelimit::v3::rate_limit_response as part;
use super::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use super::question::{Descriptor, Limit, MOST_DESCRIPTORS, Question};
use super::status::Status;
use crate::engine::Engine;

/// Answers: 200 or 429 with a `RateLimitResponse` in JSON, 400 with a sentence of text.
pub(crate) async fn json(engine: &Engine, body: &[u8], headers: bool) -> (StatusCode, Vec<u8>) {
    let refuse = |why: String| (StatusCode::BAD_REQUEST, format!("{why}\n").into_bytes());
    let asked: Asked = match serde_json::from_slice(body) {
        Ok(asked) => asked,
        Err(error) => return refuse(format!("no RateLimitRequest: {error}")),
    };
    let question = match asked.question() {
        Ok(question) => question,
        Err(status) => return refuse(status.message.into_owned()),
    };
    let answer = match ask(engine, &question, Extras { headers }).await {
        Ok(answer) => answer,
        Err(status) => return refuse(status.message.into_owned()),
    };
    let status = match answer.overall_code() {
        part::Code::Ok => StatusCode::OK,
        part::Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        part::Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
    };
    match serde_json::to_vec(&Answer::of(&answer)) {
        Ok(body) => (status, body),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n").into_bytes()),
    }
}

/// A `RateLimitRequest`. Names are written either way, and `null` is as good as nothing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Asked {
    #[serde(default, deserialize_with = "or_default")]
    domain: String,
    #[serde(default, deserialize_with = "few")]
    descriptors: Vec<AskedDescriptor>,
    #[serde(default, deserialize_with = "or_default", alias = "hits_addend")]
    hits_addend: Number<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AskedDescriptor {
    #[serde(default, deserialize_with = "few")]
    entries: Vec<AskedEntry>,
    limit: Option<AskedLimit>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number<u64>>,
    #[serde(default, deserialize_with = "or_default", alias = "is_negative_hits")]
    is_negative_hits: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedEntry {
    #[serde(default, deserialize_with = "or_default")]
    key: String,
    #[serde(default, deserialize_with = "or_default")]
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AskedLimit {
    #[serde(default, deserialize_with = "or_default", alias = "requests_per_unit")]
    requests_per_unit: Number<u32>,
    #[serde(default, deserialize_with = "or_default")]
    unit: AskedUnit,
}

fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}

/// A list that is not read further than it would be answered.
fn few<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    struct Few<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Few<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MOST_DESCRIPTORS}")
        }

        fn visit_unit<E>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut few = Vec::new();
            while let Some(item) = list.next_element()? {
                if few.len() == MOST_DESCRIPTORS {
                    return Err(A::Error::invalid_length(few.len() + 1, &self));
                }
                few.push(item);
            }
            Ok(few)
        }
    }

    from.deserialize_any(Few(PhantomData))
}

/// A whole number: `3`, `3.0` or `"3"`.
#[derive(Default)]
struct Number<T>(T);

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number<T>, D::Error> {
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
        number.map(Number).ok_or_else(|| D::Error::custom("a whole number that fits is needed"))
    }
}

/// A unit by its name or its number.
#[derive(Default)]
struct AskedUnit(i32);

impl<'de> Deserialize<'de> for AskedUnit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<AskedUnit, D::Error> {
        let read = match Json::deserialize(from)? {
            Json::String(name) => Unit::from_str_name(&name).map(|unit| unit as i32),
            Json::Number(number) => number.as_i64().and_then(|number| number.try_into().ok()),
            _ => None,
        };
        read.map(AskedUnit).ok_or_else(|| D::Error::custom("no unit; SECOND, MINUTE, HOUR, DAY, …"))
    }
}

impl Asked {
    fn question(&self) -> Result<Question<'_>, Status> {
        let mut question = Question::new(&self.domain, self.hits_addend.0);
        for asked in &self.descriptors {
            let limit = asked.limit.as_ref().map(|limit| Limit {
                requests_per_unit: limit.requests_per_unit.0,
                unit: limit.unit.0,
            });
            let hits = asked.hits_addend.as_ref().map(|hits| hits.0);
            let descriptor = Descriptor::new(hits, asked.is_negative_hits, limit);
            let entries = asked.entries.iter().map(|entry| (&*entry.key, &*entry.value));
            question.add(descriptor, entries)?;
        }
        Ok(question)
    }
}

/// A `RateLimitResponse`. What is zero or empty is left out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    overall_code: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    statuses: Vec<AnswerStatus<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    response_headers_to_add: Vec<AnswerHeader<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dynamic_metadata: Option<Json>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnswerStatus<'a> {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_limit: Option<AnswerLimit<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    limit_remaining: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_until_reset: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnswerLimit<'a> {
    #[serde(skip_serializing_if = "is_zero")]
    requests_per_unit: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Serialize)]
struct AnswerHeader<'a> {
    key: &'a str,
    value: &'a str,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl<'a> Answer<'a> {
    fn of(answer: &'a rls::RateLimitResponse) -> Answer<'a> {
        let header = |HeaderValue { key, value, .. }: &'a HeaderValue| AnswerHeader { key, value };
        Answer {
            overall_code: answer.overall_code().as_str_name(),
            statuses: answer.statuses.iter().map(AnswerStatus::of).collect(),
            response_headers_to_add: answer.response_headers_to_add.iter().map(header).collect(),
            dynamic_metadata: answer.dynamic_metadata.as_ref().map(object),
        }
    }
}

impl<'a> AnswerStatus<'a> {
    fn of(status: &'a part::DescriptorStatus) -> AnswerStatus<'a> {
        let limit = |limit: &'a part::RateLimit| AnswerLimit {
            requests_per_unit: limit.requests_per_unit,
            unit: (limit.unit != 0).then(|| limit.unit().as_str_name()),
            name: &limit.name,
        };
        AnswerStatus {
            code: status.code().as_str_name(),
            current_limit: status.current_limit.as_ref().map(limit),
            limit_remaining: status.limit_remaining,
            // Always in whole seconds.
            duration_until_reset: status
                .duration_until_reset
                .map(|span| format!("{}s", span.seconds)),
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
mod tests {

    use tollgate::testing::ManualClock;
    use tollgate::{Clock, Limiter, MemoryStore, Time};

    use super::*;
    use crate::config::TelemetryOptions;
    use crate::store::AnyStore;
    use crate::telemetry::Telemetry;

    const RULES: &str = "
domain: shop
descriptors:
  - key: user
    metadata: { tier: gold, weight: 2 }
    rate_limit: { name: users, unit: minute, requests_per_unit: 2 }
";

    fn engine() -> Engine {
        let clock = Clock::from(&ManualClock::at(Time::from_nanos(1_767_268_807_500_000_000)));
        let store = AnyStore::Memory(MemoryStore::new().clock(clock.clone()));
        let builder = Limiter::builder().store(store).clock(clock.clone());
        let limiter = builder.build_rules(RULES.parse().unwrap());
        Engine::new(limiter, clock, Telemetry::new(&TelemetryOptions::default()).unwrap())
    }

    async fn ask(engine: &Engine, body: &str) -> (u16, Json) {
        let (status, body) = json(engine, body.as_bytes(), false).await;
        let text = String::from_utf8(body).unwrap();
        (status.as_u16(), serde_json::from_str(&text).unwrap_or(Json::String(text)))
    }

    #[tokio::test]
    async fn an_answer_is_what_protobuf_writes() {
        let engine = engine();
        let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}"#;
        let (status, answer) = ask(&engine, body).await;
        assert_eq!(status, 200);
        let limit = serde_json::json!({ "requestsPerUnit": 2, "unit": "MINUTE", "name": "users" });
        assert_eq!(
            answer,
            serde_json::json!({
                "overallCode": "OK",
                "statuses": [{
                    "code": "OK", "currentLimit": limit, "limitRemaining": 1,
                    "durationUntilReset": "53s",
                }],
                "dynamicMetadata": {
                    "domain": "shop", "descriptors": [{ "entries": ["user=a"] }],
                    "metadata": { "tier": "gold", "weight": 2 },
                },
            })
        );
        ask(&engine, body).await;
        let (status, answer) = ask(&engine, body).await;
        assert_eq!((status, &answer["overallCode"]), (429, &Json::from("OVER_LIMIT")));
        assert_eq!(answer["statuses"][0].get("limitRemaining"), None, "zero is left out");
        let (_, with_headers) = json(&engine, body.as_bytes(), true).await;
        let with_headers: Json = serde_json::from_slice(&with_headers).unwrap();
        let first = &with_headers["responseHeadersToAdd"][0];
        assert_eq!(*first, serde_json::json!({ "key": "RateLimit-Limit", "value": "2" }));
    }

    #[tokio::test]
    async fn names_are_written_either_way_and_numbers_in_three() {
        let engine = engine();
        for (extra, left) in [
            (r#""hits_addend": 0"#, Some(2)),
            (r#""hitsAddend": "0""#, Some(2)),
            (r#""hits_addend": 2.0"#, None),
            (r#""isNegativeHits": true, "hitsAddend": 1"#, Some(1)),
            (r#""is_negative_hits": null, "hits_addend": null, "limit": null"#, None),
            (r#""limit": {"requests_per_unit": 9, "unit": "WEEK"}"#, Some(8)),
            (r#""limit": {"requestsPerUnit": "9", "unit": 1}"#, Some(8)),
        ] {
            let body = format!(
                r#"{{"domain":"shop","descriptors":[{{"entries":[{{"key":"user","value":"a"}}],{extra}}}]}}"#
            );
            let (status, answer) = ask(&engine, &body).await;
            let told = answer["statuses"][0].get("limitRemaining").and_then(Json::as_u64);
            assert_eq!((status, told), (200, left), "{extra}: {answer}");
        }
    }

    #[tokio::test]
    async fn what_is_wrong_is_400_and_said() {
        let engine = engine();
        for (body, says) in [
            ("", "EOF"),
            ("}", "expected value"),
            ("{}", "domain must not be empty"),
            (r#"{"domain":"shop"}"#, "descriptor list must not be empty"),
            (r#"{"domain":"shop","x":1}"#, "unknown field `x`"),
            (r#"{"domain":"shop","hits_addend":-1}"#, "whole number"),
            (r#"{"domain":"shop","hitsAddend":1,"hits_addend":1}"#, "duplicate field"),
            (r#"{"domain":"shop","descriptors":[{"limit":{"unit":"EON"}}]}"#, "no unit"),
            (r#"{"domain":"shop","descriptors":[{"limit":{}}]}"#, "needs a unit"),
            (r#"{"domain":"shop","descriptors":null}"#, "descriptor list must not be empty"),
            (r#"{"domain":"shop","descriptors":7}"#, "expected a list of at most 1000"),
            (&format!(r#"{{"descriptors":[{{}}{}]}}"#, ",{}".repeat(9_999)), "at most 1000"),
        ] {
            let (status, answer) = ask(&engine, body).await;
            assert_eq!(status, 400, "{body}");
            assert!(answer.as_str().is_some_and(|text| text.contains(says)), "{body}: {answer}");
        }
    }
}
