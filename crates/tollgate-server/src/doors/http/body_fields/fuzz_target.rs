//! The fuzz target of JSON bodies.

use serde_json::Value as Json;

use super::{
    BodyFields, FORMER_COST, FieldNames, MAX_ATTRIBUTES, MAX_BATCH_REQUESTS, MAX_KEY_CHARS, read,
};
use crate::decisions::InlineLimitList;
use crate::doors::grpc::json::fuzz_target::check_rate_limit_request;
use crate::doors::http::number_in_range::NumberInRange;

/// The calls that read a body.
const CALLS: [FieldNames; 7] = [
    FieldNames::CHECK,
    FieldNames::LIMIT,
    FieldNames::CHECK_OR_LIMIT,
    FieldNames::PEEK,
    FieldNames::RESERVE,
    FieldNames::SETTLE,
    FieldNames::BATCH,
];

/// Reads any bytes as the body of every call, and as Envoy's request in JSON.
///
/// A body that is read is JSON for another parser too, which finds the same values; what is read
/// stays within the bounds.
pub fn fuzz_json_body(bytes: &[u8]) {
    for fields in CALLS {
        match read(bytes, fields) {
            Ok(body) => {
                let json = serde_json::from_slice(bytes).expect("a body that was read is JSON");
                check_fields(&body, &json);
            }
            Err(problem) => assert!(!problem.to_string().is_empty()),
        }
    }
    check_rate_limit_request(bytes);
}

/// Compares the inline limits of a body, a text or a list, with those that a general parser found.
fn check_limits(body: &BodyFields<'_>, json: &Json) {
    let theirs: Vec<&Json> = match json.get("limit") {
        None => Vec::new(),
        Some(Json::Array(texts)) => texts.iter().collect(),
        Some(text) => vec![text],
    };
    assert!(theirs.len() <= InlineLimitList::MAX_LIMITS);
    let ours: Vec<Json> = body.limits.iter().map(|text| Json::String(text.to_string())).collect();
    assert_eq!(ours.iter().collect::<Vec<_>>(), theirs);
}

/// Compares the fields of a body with those that a general parser found.
fn check_fields(body: &BodyFields<'_>, json: &Json) {
    let text = |name: &str| json.get(name).map(|value| value.as_str().expect("it is a text"));
    assert_eq!(body.request.domain.as_deref(), text("domain"));
    assert_eq!(body.key.as_deref(), text("key"));
    check_limits(body, json);
    assert!(body.key.as_ref().is_none_or(|key| key.chars().count() <= MAX_KEY_CHARS));
    let cost_name = if json.get(FORMER_COST).is_some() { FORMER_COST } else { "cost" };
    for (name, number) in [(cost_name, body.cost), ("expire_s", body.expire_s)] {
        let theirs = json.get(name).and_then(Json::as_f64);
        assert_eq!(number.map(|number| number as f64), theirs, "{name}");
        assert!(number.is_none_or(|number| number <= NumberInRange::MAX_EXACT));
    }
    let attributes = &body.request.attributes;
    assert!(attributes.len() <= MAX_ATTRIBUTES);
    let theirs = json.get("attributes").and_then(Json::as_object);
    assert_eq!(attributes.len(), theirs.map_or(0, serde_json::Map::len));
    for (name, value) in attributes {
        let json = theirs.and_then(|all| all.get(name.as_ref())).expect("the attribute exists");
        match json {
            Json::String(text) => assert_eq!(value.text(), text.as_str()),
            Json::Bool(flag) => assert_eq!(value.text(), flag.to_string()),
            Json::Number(number) if number.is_i64() || number.is_u64() => {
                assert_eq!(value.text(), number.to_string());
            }
            Json::Number(_) => assert!(!value.text().is_empty()),
            other => panic!("{name} is {other}"),
        }
    }
    if let Some(requests) = &body.requests {
        assert!(requests.len() <= MAX_BATCH_REQUESTS);
        let theirs = json["requests"].as_array().expect("it is a list");
        assert_eq!(requests.len(), theirs.len());
        requests.iter().zip(theirs).for_each(|(body, json)| check_fields(body, json));
    }
}
