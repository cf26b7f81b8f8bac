//! A decision as JSON, written straight into its buffer: this is done for every request.

use tollgate::rules::Mode;

use crate::headers::{Answer, Standing};
use crate::rules_service::problem::Problem;

/// Room for a decision by two limits.
const USUAL: usize = 384;

/// `{"allowed":true,…}`.
pub(super) fn decision(answer: &Answer<'_>) -> Vec<u8> {
    let mut json = Vec::with_capacity(USUAL);
    json.push(b'{');
    members(&mut json, answer);
    json.push(b'}');
    json
}

/// The same with the members of a hold before it.
pub(super) fn hold(id: &str, expires_in_ms: u64, answer: &Answer<'_>) -> Vec<u8> {
    let mut json = Vec::with_capacity(USUAL);
    json.extend_from_slice(b"{\"id\":");
    text(&mut json, id);
    json.extend_from_slice(b",\"expires_in_ms\":");
    number(&mut json, expires_in_ms);
    json.push(b',');
    members(&mut json, answer);
    json.push(b'}');
    json
}

/// Adds a decision to a list of them.
pub(super) fn item(json: &mut Vec<u8>, answer: &Answer<'_>) {
    if json.last() != Some(&b'[') {
        json.push(b',');
    }
    json.push(b'{');
    members(json, answer);
    json.push(b'}');
}

/// Adds what went wrong with one of a list.
pub(super) fn mistake(json: &mut Vec<u8>, problem: &Problem) {
    if json.last() != Some(&b'[') {
        json.push(b',');
    }
    json.extend_from_slice(b"{\"problem\":");
    json.extend_from_slice(problem.body().to_string().as_bytes());
    json.push(b'}');
}

fn members(json: &mut Vec<u8>, answer: &Answer<'_>) {
    json.extend_from_slice(match answer.allowed {
        true => b"\"allowed\":true",
        false => b"\"allowed\":false",
    });
    if let Some(rule) = answer.rule {
        json.extend_from_slice(b",\"rule\":");
        text(json, rule);
    }
    json.extend_from_slice(b",\"code\":");
    number(json, answer.code.into());
    json.extend_from_slice(b",\"reason\":\"");
    json.extend_from_slice(answer.reason.as_str().as_bytes());
    json.push(b'"');
    if let Some(millis) = answer.retry_after_ms {
        json.extend_from_slice(b",\"retry_after_ms\":");
        number(json, millis);
    }
    if answer.wait_ms > 0 {
        json.extend_from_slice(b",\"wait_ms\":");
        number(json, answer.wait_ms);
    }
    if let Some(key) = answer.key.filter(|key| !key.is_empty()) {
        json.extend_from_slice(b",\"key\":");
        text(json, key);
    }
    json.extend_from_slice(b",\"limits\":[");
    for (index, limit) in answer.limits.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        standing(json, limit);
    }
    json.push(b']');
}

fn standing(json: &mut Vec<u8>, limit: &Standing<'_>) {
    json.push(b'{');
    if let Some(rule) = limit.rule {
        json.extend_from_slice(b"\"rule\":");
        text(json, rule);
        json.push(b',');
    }
    json.extend_from_slice(b"\"limit\":");
    number(json, limit.limit);
    if let Some(seconds) = limit.window_s {
        json.extend_from_slice(b",\"window_s\":");
        number(json, seconds);
    }
    json.extend_from_slice(b",\"remaining\":");
    number(json, limit.remaining);
    json.extend_from_slice(b",\"reset_after_ms\":");
    number(json, limit.reset_after_ms);
    match limit.mode {
        Mode::Enforce => json.extend_from_slice(b",\"mode\":\"enforce\"}"),
        mode => json.extend_from_slice(format!(",\"mode\":\"{mode}\"}}").as_bytes()),
    }
}

fn number(json: &mut Vec<u8>, number: u64) {
    json.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn text(json: &mut Vec<u8>, text: &str) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(json, text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::{Limiter, Request};

    #[test]
    fn a_reply_is_the_contract() {
        let rules = "rules: [{ name: login, per: ip, limit: 5/min fixed }]".parse().unwrap();
        let clock = tollgate::testing::ManualClock::new();
        let limiter = Limiter::builder().clock(&clock).build_rules(rules);
        let ask = || limiter.decide(&Request::new("POST", "/login").attribute("ip", "192.0.2.1"));
        for _ in 0..5 {
            assert!(ask().allowed);
        }
        let refused = ask();
        let json = String::from_utf8(decision(&Answer::of(&refused))).unwrap();
        assert_eq!(
            json,
            "{\"allowed\":false,\"rule\":\"login\",\"code\":429,\"reason\":\"over_limit\",\
             \"retry_after_ms\":60000,\"key\":\"192.0.2.1\",\"limits\":[{\"rule\":\"login\",\
             \"limit\":5,\"window_s\":60,\"remaining\":0,\"reset_after_ms\":60000,\
             \"mode\":\"enforce\"}]}"
        );
        let held = hold("ab", 1, &Answer::of(&refused));
        let value: serde_json::Value = serde_json::from_slice(&held).unwrap();
        assert_eq!((&value["id"], &value["allowed"]), (&"ab".into(), &false.into()));
    }
}
