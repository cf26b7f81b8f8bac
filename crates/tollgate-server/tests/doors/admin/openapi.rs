//! The description of the admin API is true: every call in it exists and answers as it says.

use serde_json::Value;

use super::API;
use super::client::Operator;
use crate::support::start;

#[test]
fn every_call_that_is_described_answers_as_described() {
    let text = include_str!("../../../src/openapi/admin.yaml");
    let described: Value = serde_saphyr::from_str(text).unwrap();
    let server = start(API);
    let operator = Operator::of(&server);
    let mut calls = 0;
    for (path, item) in described["paths"].as_object().unwrap() {
        for (method, call) in item.as_object().unwrap() {
            if method == "parameters" {
                continue;
            }
            calls += 1;
            let address = path.replace("{name}", "shop").replace("{id}", "1");
            let address = address.replace("{version}", "1");
            let answer = operator.send(&method.to_uppercase(), &address, "{}", &[]);
            let status = answer.status.to_string();
            assert!(!answer.text.contains("such address"), "{method} {path}: {}", answer.text);
            assert!(
                call["responses"].get(&status).is_some(),
                "{method} {path}: {status} {}",
                answer.text
            );
        }
    }
    assert!(calls > 30, "{calls}");
    server.stop();
}
