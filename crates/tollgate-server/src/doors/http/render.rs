//! Decisions as JSON, written directly into a buffer because every request needs it.

use tollgate_rules::Mode;

use crate::headers::{DecisionSummary, LimitStatus, PolicyName};
use crate::problem::Problem;

/// The initial size of a buffer: a decision by two limits fits.
const INITIAL_CAPACITY: usize = 384;

/// Returns a decision as an object: `{"allowed":true,…}`.
pub(super) fn decision(answer: &DecisionSummary<'_>) -> Vec<u8> {
    let mut json = Vec::with_capacity(INITIAL_CAPACITY);
    json.push(b'{');
    members(&mut json, answer);
    json.push(b'}');
    json
}

/// Returns the decision about a reservation, with its id and expiry as first members.
pub(super) fn reservation(id: &str, expires_in_ms: u64, answer: &DecisionSummary<'_>) -> Vec<u8> {
    let mut json = Vec::with_capacity(INITIAL_CAPACITY);
    json.extend_from_slice(b"{\"id\":");
    text(&mut json, id);
    json.extend_from_slice(b",\"expires_in_ms\":");
    number(&mut json, expires_in_ms);
    json.push(b',');
    members(&mut json, answer);
    json.push(b'}');
    json
}

/// Appends a decision to a list.
pub(super) fn list_item(json: &mut Vec<u8>, answer: &DecisionSummary<'_>) {
    if json.last() != Some(&b'[') {
        json.push(b',');
    }
    json.push(b'{');
    members(json, answer);
    json.push(b'}');
}

/// Appends a problem to a list, in place of a decision.
pub(super) fn list_problem(json: &mut Vec<u8>, problem: &Problem) {
    if json.last() != Some(&b'[') {
        json.push(b',');
    }
    json.extend_from_slice(b"{\"problem\":");
    json.extend_from_slice(problem.document().to_json().as_bytes());
    json.push(b'}');
}

fn members(json: &mut Vec<u8>, answer: &DecisionSummary<'_>) {
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
        limit_object(json, answer.policy_name(index), limit);
    }
    json.push(b']');
}

fn limit_object(json: &mut Vec<u8>, policy: PolicyName<'_>, limit: &LimitStatus<'_>) {
    json.extend_from_slice(b"{\"policy\":");
    text(json, policy.rule);
    if policy.number > 1 {
        json.pop();
        json.push(b'-');
        number(json, policy.number as u64);
        json.push(b'"');
    }
    if let Some(rule) = limit.rule {
        json.extend_from_slice(b",\"rule\":");
        text(json, rule);
    }
    json.extend_from_slice(b",\"limit\":");
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
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(json, text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_rules::{Request, RuleLimiter};

    #[test]
    fn a_decision_has_the_documented_members() {
        let rules = "rules: [{ name: login, per: ip, limit: 5/min fixed }]".parse().unwrap();
        let clock = tollgate::testing::ManualClock::new();
        let limiter = RuleLimiter::builder().clock(&clock).build(rules);
        let decide =
            || limiter.decide_now(&Request::new("POST", "/login").attribute("ip", "192.0.2.1"));
        for _ in 0..5 {
            assert!(decide().allowed);
        }
        let refused = decide();
        let json = String::from_utf8(decision(&DecisionSummary::new(&refused))).unwrap();
        assert_eq!(
            json,
            "{\"allowed\":false,\"rule\":\"login\",\"code\":429,\"reason\":\"over_limit\",\
             \"retry_after_ms\":60000,\"key\":\"192.0.2.1\",\"limits\":[{\"policy\":\"login\",\
             \"rule\":\"login\",\"limit\":5,\"window_s\":60,\"remaining\":0,\"reset_after_ms\":60000,\
             \"mode\":\"enforce\"}]}"
        );
        let rules = r#"rules: [{ name: api, limit: [5/min, 20/h] }]"#.parse().unwrap();
        let decided = RuleLimiter::new(rules).decide_now(&Request::new("GET", "/"));
        let json: serde_json::Value =
            serde_json::from_slice(&decision(&DecisionSummary::new(&decided))).unwrap();
        let policies = [0, 1].map(|index| json["limits"][index]["policy"].clone());
        assert_eq!(policies, ["api", "api-2"]);
        let reserved = reservation("ab", 1, &DecisionSummary::new(&refused));
        let value: serde_json::Value = serde_json::from_slice(&reserved).unwrap();
        assert_eq!((&value["id"], &value["allowed"]), (&"ab".into(), &false.into()));
    }
}
