//! Tests of the JSON mapping.

use tollgate::testing::ManualClock;
use tollgate::{Clock, MemoryStore, Time};
use tollgate_rules::RuleLimiter;

use super::*;
use crate::config::{Bounds, TelemetryOptions};
use crate::store::AnyStore;
use crate::telemetry::Telemetry;

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    metadata: { tier: gold, weight: 2 }
    rate_limit: { name: users, unit: minute, requests_per_unit: 2 }
";

fn decisions() -> DecisionService {
    let clock = Clock::from(&ManualClock::at(Time::from_nanos(1_767_268_807_500_000_000)));
    let store = AnyStore::Memory(MemoryStore::new().clock(clock.clone()));
    let builder = RuleLimiter::builder().store(store).clock(clock.clone());
    let limiter = builder.build(RULES.parse().unwrap());
    let telemetry = Telemetry::new(&TelemetryOptions::default()).unwrap();
    DecisionService::new(limiter, clock, telemetry, &Bounds::default())
}

async fn post(decisions: &DecisionService, body: &str) -> (u16, Json) {
    let (status, body) = respond(decisions, body.as_bytes(), EnvoyHeaderStyle::Absent, true).await;
    let text = String::from_utf8(body).unwrap();
    (status.as_u16(), serde_json::from_str(&text).unwrap_or(Json::String(text)))
}

#[tokio::test]
async fn a_response_follows_the_protobuf_json_mapping() {
    let decisions = decisions();
    let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}"#;
    let (status, answer) = post(&decisions, body).await;
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
    post(&decisions, body).await;
    let (status, answer) = post(&decisions, body).await;
    assert_eq!((status, &answer["overallCode"]), (429, &Json::from("OVER_LIMIT")));
    assert_eq!(answer["statuses"][0].get("limitRemaining"), None, "zero is left out");
    let (_, with_headers) =
        respond(&decisions, body.as_bytes(), EnvoyHeaderStyle::Plain, true).await;
    let with_headers: Json = serde_json::from_slice(&with_headers).unwrap();
    let first = &with_headers["responseHeadersToAdd"][0];
    assert_eq!(*first, serde_json::json!({ "key": "RateLimit-Limit", "value": "2" }));
}

#[tokio::test]
async fn names_and_numbers_have_several_spellings() {
    let decisions = decisions();
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
        let (status, answer) = post(&decisions, &body).await;
        let remaining = answer["statuses"][0].get("limitRemaining").and_then(Json::as_u64);
        assert_eq!((status, remaining), (200, left), "{extra}: {answer}");
    }
}

#[tokio::test]
async fn an_invalid_request_is_400_with_an_explanation() {
    let decisions = decisions();
    for (body, expected) in [
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
        let (status, answer) = post(&decisions, body).await;
        assert_eq!(status, 400, "{body}");
        assert!(answer.as_str().is_some_and(|text| text.contains(expected)), "{body}: {answer}");
    }
}
