//! `POST /json`: Envoy's rate limit request as JSON.

use tollgate::testing::ManualClock;

use super::client::HttpClient;
use crate::support::start_with;

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 2 }
";

fn responses(body: &str) -> Vec<(u16, String)> {
    // The clock stands still, so that no window ends during the test.
    let server = start_with(RULES, |config| config.clock = Some((&ManualClock::new()).into()));
    let mut client = HttpClient::connect(server.http());
    let check = |_| {
        let response = client.post("/json", body);
        (response.status, response.header("content-type").unwrap_or_default().to_owned())
    };
    (0..3).map(check).collect()
}

#[test]
fn row_17_a_json_request_is_answered_by_its_status() {
    let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
    let json = "application/json".to_owned();
    assert_eq!(responses(body), [(200, json.clone()), (200, json.clone()), (429, json)]);
}

#[test]
fn row_17_an_invalid_request_is_refused_with_a_text() {
    for body in ["", "{}", r#"{"domain":"shop"}"#, r#"{"domain":"shop","descriptors":7}"#] {
        for (status, content_type) in responses(body) {
            assert_eq!((status, content_type.as_str()), (400, "text/plain; charset=utf-8"));
        }
    }
}
