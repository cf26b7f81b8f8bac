//! Envoy's question in JSON, as the original answers it at the same address.

use super::client::Client;
use crate::support::start;

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 2 }
";

fn asked(body: &str) -> Vec<(u16, String)> {
    let server = start(RULES);
    let mut client = Client::connect(server.http());
    let ask = |_| {
        let answer = client.post("/json", body);
        (answer.status, answer.header("content-type").unwrap_or_default().to_owned())
    };
    (0..3).map(ask).collect()
}

#[test]
fn row_17_a_question_in_json_is_answered_by_its_status() {
    let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
    let json = "application/json".to_owned();
    assert_eq!(asked(body), [(200, json.clone()), (200, json.clone()), (429, json)]);
}

#[test]
fn row_17_what_is_no_question_is_refused_with_a_sentence() {
    for body in ["", "{}", r#"{"domain":"shop"}"#, r#"{"domain":"shop","descriptors":7}"#] {
        for (status, content_type) in asked(body) {
            assert_eq!((status, content_type.as_str()), (400, "text/plain; charset=utf-8"));
        }
    }
}
