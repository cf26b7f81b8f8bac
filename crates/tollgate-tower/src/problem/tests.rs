//! Tests of problem documents.

use super::*;
use serde_json::json;
use tollgate_rules::{BanData, Data, Request, RuleLimiter, Rules};

fn refused(rule: &str) -> Value {
    let rules: Rules =
        format!("attributes: [user]\nrules: [{{ name: r, {rule} }}]").parse().unwrap();
    refused_by(rules)
}

fn refused_by(rules: Rules) -> Value {
    let limiter = RuleLimiter::new(rules);
    let decide = || limiter.decide_now(&Request::new("GET", "/").attribute("user", "ann"));
    let decision = (0..10).map(|_| decide()).find(|decision| !decision.allowed).unwrap();
    let body = ProblemDocument::from_refusal(&DecisionSummary::new(&decision)).to_json();
    serde_json::from_str(&body).unwrap()
}

#[test]
fn every_refusal_has_its_type() {
    for (rule, code, uri) in [
        ("limit: 1/h", "quota-exceeded", REGISTERED_TYPES),
        ("limit: 1/h, then: shed", "temporary-reduced-capacity", REGISTERED_TYPES),
        ("when: user == 'ann', then: deny 403", "denied-by-rule", OWN_TYPES),
    ] {
        let body = refused(rule);
        assert_eq!(body["type"], format!("{uri}{code}"), "{rule}: {body}");
        assert_eq!((&body["code"], &body["rule"]), (&json!(code), &json!("r")));
    }
    assert_eq!(refused("limit: 1/h, then: shed")["status"], 503);
}

#[test]
fn the_refusal_of_a_banned_key_has_the_type_abnormal_usage() {
    let rules: Rules =
        "attributes: [user]\nrules: [{ name: r, per: user, limit: 10/h }]".parse().unwrap();
    let ban = BanData { rule: "r".into(), key: "ann".into(), ..BanData::default() };
    let data = Data { bans: vec![ban], ..Data::default() };
    let body = refused_by(rules.with_data(&data).unwrap());
    assert_eq!(body["type"], format!("{REGISTERED_TYPES}abnormal-usage-detected"));
}

#[test]
fn members_are_in_alphabetical_order() {
    let mut problem = ProblemDocument::new(StatusCode::BAD_REQUEST, "bad-request", "d");
    let findings = [json!({ "line": 1 })];
    (problem.etag, problem.field) = (Some("e"), Some("f"));
    (problem.findings, problem.rendered) = (&findings, Some("r"));
    let sorted: Value = serde_json::from_str(&problem.to_json()).unwrap();
    assert_eq!(problem.to_json(), sorted.to_string());
    let limiter = RuleLimiter::new("rules: [{ name: r, limit: 1/h }]".parse().unwrap());
    let request = Request::new("GET", "/");
    assert!(limiter.decide_now(&request).allowed);
    let decision = limiter.decide_now(&request);
    let refusal = ProblemDocument::from_refusal(&DecisionSummary::new(&decision)).to_json();
    let sorted: Value = serde_json::from_str(&refusal).unwrap();
    assert_eq!(refusal, sorted.to_string());
}
