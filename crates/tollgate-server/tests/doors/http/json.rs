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
fn row_17_the_method_does_not_matter() {
    let server = start_with(RULES, |config| config.clock = Some((&ManualClock::new()).into()));
    let mut client = HttpClient::connect(server.http());
    let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
    let mut codes = |methods: &[&str]| -> Vec<u16> {
        methods.iter().map(|method| client.send(method, "/json", body).status).collect()
    };
    assert_eq!(codes(&["GET", "PUT", "PATCH", "DELETE"]), [200, 200, 429, 429]);
}

#[test]
fn row_17_an_invalid_request_is_refused_with_a_text() {
    for body in ["", "{}", r#"{"domain":"shop"}"#, r#"{"domain":"shop","descriptors":7}"#] {
        for (status, content_type) in responses(body) {
            assert_eq!((status, content_type.as_str()), (400, "text/plain; charset=utf-8"));
        }
    }
    let server = start_with(RULES, |_| {});
    let response = HttpClient::connect(server.http()).post("/json", "{}");
    assert!(response.body.starts_with("Bad Request\n"), "as in the original: {}", response.body);
    assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
}
