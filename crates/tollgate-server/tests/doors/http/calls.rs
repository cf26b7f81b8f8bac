//! The decision calls and their responses.

use std::time::Duration;

use serde_json::json;
use tollgate::testing::ManualClock;

use super::client::{HttpClient, post};
use crate::support::{TestServer, start, start_with};

const RULES: &str = "
domain: shop
rules:
  - { name: login, route: POST /login, per: ip, limit: 5/min fixed }
  - { name: search, route: GET /search, per: ip, limit: 2/s, then: delay up to 10s }
  - { name: batch, route: POST /batch, limit: 1/h, then: shed }
";

const LOGIN: &str = r#"{"domain":"shop","attributes":{"ip":"192.0.2.1","route":"POST /login"}}"#;

/// Starts a server whose clock stands still.
fn start_with_frozen_clock(rules: &str) -> (TestServer, ManualClock) {
    let clock = ManualClock::new();
    let given = clock.clone();
    (start_with(rules, move |config| config.clock = Some((&given).into())), clock)
}

#[test]
fn the_sixth_login_is_refused() {
    let (server, clock) = start_with_frozen_clock(RULES);
    let mut client = HttpClient::connect(server.http());
    for left in (0..5).rev() {
        let response = client.post("/v1/check", LOGIN);
        assert_eq!(
            (response.status, response.header("content-type")),
            (200, Some("application/json"))
        );
        assert_eq!(response.json()["limits"][0]["remaining"], left);
    }
    let refused = client.post("/v1/check", LOGIN);
    assert_eq!(refused.status, 200);
    let retry = refused.json()["retry_after_ms"].as_u64().unwrap();
    assert_eq!(
        refused.json(),
        json!({
            "allowed": false, "rule": "login", "code": 429, "reason": "over_limit",
            "retry_after_ms": retry, "key": "192.0.2.1",
            "limits": [{
                "policy": "login", "rule": "login", "limit": 5, "window_s": 60, "remaining": 0,
                "reset_after_ms": retry, "mode": "enforce",
            }],
        })
    );
    clock.advance(Duration::from_millis(retry - 1));
    assert_eq!(client.post("/v1/check", LOGIN).json()["retry_after_ms"], 1, "rounded up, never 0");
    clock.advance(Duration::from_millis(1));
    assert_eq!(client.post("/v1/check", LOGIN).json()["allowed"], true);
}

#[test]
fn a_client_can_request_the_status() {
    let (server, _clock) = start_with_frozen_clock(RULES);
    let mut client = HttpClient::connect(server.http());
    let allowed = client.post("/v1/check?status=true", LOGIN);
    assert_eq!(allowed.status, 200);
    assert_eq!(allowed.header("ratelimit-policy"), Some("\"login\";q=5;w=60"));
    for _ in 0..4 {
        client.post("/v1/check", LOGIN);
    }
    let refused = client.post("/v1/check?status=true", LOGIN);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert!(refused.header("ratelimit").unwrap().starts_with("\"login\";r=0;t="));
    let body = refused.json();
    assert!(body["type"].as_str().unwrap().ends_with("#quota-exceeded"));
    assert_eq!((&body["rule"], &body["violated-policies"]), (&json!("login"), &json!(["login"])));

    let body = |attributes: &str| format!(r#"{{"domain":"shop","attributes":{{{attributes}}}}}"#);
    let shed = body(r#""route":"POST /batch""#);
    client.post("/v1/check", &shed);
    let shed = client.post("/v1/check?status=true", &shed);
    assert_eq!(shed.status, 503);
    assert!(shed.json()["type"].as_str().unwrap().ends_with("#temporary-reduced-capacity"));
}

#[test]
fn a_delayed_request_gets_its_wait() {
    let (server, _clock) = start_with_frozen_clock(RULES);
    let mut client = HttpClient::connect(server.http());
    let search = r#"{"domain":"shop","attributes":{"ip":"192.0.2.1","route":"GET /search"}}"#;
    let waits: Vec<_> =
        (0..4).map(|_| client.post("/v1/check", search).json()["wait_ms"].clone()).collect();
    assert_eq!(json!(waits), json!([null, null, 500, 1000]));
}

#[test]
fn no_more_requests_are_delayed_than_the_queue_holds() {
    let rule = "{ name: even, limit: 5/s leaky burst 1, then: queue 3 up to 2s }";
    let (server, clock) = start_with_frozen_clock(&format!("domain: shop\nrules: [{rule}]"));
    let mut client = HttpClient::connect(server.http());
    let mut check = || {
        let response = client.post("/v1/check", r#"{"domain":"shop"}"#).json();
        (response["allowed"] == true, response["wait_ms"].as_u64().unwrap_or(0))
    };
    let decisions = [(); 5].map(|()| check());
    assert_eq!(decisions, [(true, 0), (true, 200), (true, 400), (true, 600), (false, 0)]);
    // A delayed request leaves the queue once its wait is over.
    clock.advance(Duration::from_millis(200));
    assert_eq!([check(), check()], [(true, 600), (false, 0)]);
}

#[test]
fn a_client_may_send_an_inline_limit() {
    let (server, _clock) = start_with_frozen_clock(RULES);
    let mut client = HttpClient::connect(server.http());
    let mut check = |cost: u64| {
        let body = format!(r#"{{"key":"user:42","limit":"10/s burst 20","cost":{cost}}}"#);
        client.post("/v1/limit", &body).json()
    };
    assert_eq!(
        check(15),
        json!({
            "allowed": true, "code": 200, "reason": "within_limits",
            "limits": [{
                "policy": "limit", "limit": 20, "window_s": 2, "remaining": 5,
                "reset_after_ms": 1500, "mode": "enforce",
            }],
        })
    );
    let refused = check(6);
    assert_eq!((&refused["code"], &refused["retry_after_ms"]), (&json!(429), &json!(100)));
    assert_eq!(check(21)["reason"], "never_fits");
    let other = post(server.http(), "/v1/limit", r#"{"key":"user:43","limit":"10/s burst 20"}"#);
    assert_eq!(other.json()["limits"][0]["remaining"], 19);
}

#[test]
fn counters_are_read_refunded_and_reset() {
    let (server, _clock) = start_with_frozen_clock(RULES);
    let mut client = HttpClient::connect(server.http());
    for _ in 0..4 {
        client.post("/v1/check", LOGIN);
        client.post("/v1/limit", r#"{"key":"k","limit":"5/h"}"#);
    }
    let with =
        |subject: &str, more: &str| format!("{}{more}}}", subject.strip_suffix('}').unwrap());
    for subject in [LOGIN, r#"{"key":"k","limit":"5/h"}"#] {
        let bearer = format!("Bearer {}", server.admin_token());
        let mut left = |path: &str, body: &str| {
            let response =
                client.send_with("POST", path, &[("Authorization", bearer.as_str())], body);
            response.json()["limits"][0]["remaining"].as_u64().unwrap()
        };
        assert_eq!(left("/v1/peek", subject), 1);
        assert_eq!(left("/v1/peek", subject), 1, "a peek charges nothing");
        assert_eq!(left("/v1/refund", subject), 2);
        assert_eq!(left("/v1/refund", &with(subject, r#","cost":1"#)), 3);
        assert_eq!(left("/v1/refund", &with(subject, r#","amount":1"#)), 4, "its former name");
        assert_eq!(left("/v1/refund", &with(subject, r#","amount":99"#)), 5, "never above full");
        assert_eq!(left("/v1/reset", subject), 5);
    }
}

/// All limits of a call are charged, or none: a refusal by the second one charges the first nothing.
#[test]
fn several_inline_limits_are_decided_together() {
    let (server, _clock) = start_with_frozen_clock(RULES);
    let mut client = HttpClient::connect(server.http());
    let both = r#"{"key":"k","limit":["10/h","2/day"]}"#;
    let left = |decision: &serde_json::Value| {
        [0, 1].map(|index| decision["limits"][index]["remaining"].as_u64().unwrap())
    };
    for expected in [[9, 1], [8, 0]] {
        let decision = client.post("/v1/limit", both).json();
        assert_eq!((&decision["allowed"], left(&decision)), (&json!(true), expected));
    }
    let refused = client.post("/v1/limit?status=true", both);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("43200")));
    assert_eq!(refused.json()["violated-policies"], json!(["limit-2"]));
    let refused = client.post("/v1/limit", both).json();
    assert_eq!((&refused["reason"], left(&refused)), (&json!("over_limit"), [8, 0]));
    let policies = [0, 1].map(|index| refused["limits"][index]["policy"].clone());
    assert_eq!(policies, ["limit", "limit-2"]);
    // Each limit has the counter that it has alone.
    let alone = client.post("/v1/peek", r#"{"key":"k","limit":"10/h"}"#).json();
    assert_eq!(alone["limits"][0]["remaining"], 8);
    assert_eq!(left(&client.post("/v1/peek", both).json()), [8, 0]);
    let batch = format!(r#"{{"requests":[{both},{{"key":"k","limit":["10/h","3/day"]}}]}}"#);
    let batch = client.post("/v1/batch", &batch).json();
    let allowed = [0, 1].map(|index| batch["results"][index]["allowed"].clone());
    assert_eq!(allowed, [false, true]);
    let bearer = format!("Bearer {}", server.admin_token());
    let headers = [("Authorization", bearer.as_str())];
    let reset = client.send_with("POST", "/v1/reset", &headers, both).json();
    assert_eq!(left(&reset), [10, 2]);
}

/// Two limits of one rule are told apart by their policy, as in the headers of a refusal.
#[test]
fn the_limits_of_one_rule_have_names_of_their_own() {
    let rules = "domain: shop\nrules: [{ name: api, limit: [2/min, 10/h, 100/day] }]";
    let server = start(rules);
    let decision = post(server.http(), "/v1/check", r#"{"domain":"shop"}"#).json();
    let policies = [0, 1, 2].map(|index| decision["limits"][index]["policy"].clone());
    assert_eq!(policies, ["api", "api-2", "api-3"]);
}

#[test]
fn a_batch_is_answered_in_order() {
    let (server, _clock) = start_with_frozen_clock(RULES);
    let limit = r#"{"key":"k","limit":"1/h"}"#;
    let body = format!(r#"{{"requests":[{limit},{LOGIN},{limit},{{"domain":"nowhere"}}]}}"#);
    let response = post(server.http(), "/v1/batch", &body).json();
    let allowed: Vec<_> =
        response["results"].as_array().unwrap().iter().map(|result| &result["allowed"]).collect();
    assert_eq!(json!(allowed), json!([true, true, false, null]));
    assert_eq!(response["results"][3]["problem"]["code"], "unknown-domain");
    let wrong = format!(r#"{{"requests":[{limit},{{"key":"k","limit":"1/x"}}]}}"#);
    let wrong = post(server.http(), "/v1/batch", &wrong);
    assert_eq!((wrong.status, &wrong.json()["field"]), (400, &json!("requests[1].limit")));
    let empty = post(server.http(), "/v1/batch", r#"{"requests":[]}"#);
    assert_eq!(empty.body, r#"{"results":[]}"#);
}

#[test]
fn errors_name_the_field() {
    let server = start("domain: shop\nrules: [{ name: all, limit: 1000/s }]");
    let mut client = HttpClient::connect(server.http());
    for (path, body, status, code, field, detail) in [
        ("/v1/check", "nonsense", 400, "bad-request", None, "the body"),
        ("/v1/check", r#"{"domian":"shop"}"#, 400, "bad-request", None, "`domian`"),
        ("/v1/check", r#"{"domain":"shp"}"#, 400, "unknown-domain", Some("domain"), "shop"),
        ("/v1/check", r#"{"cost":0}"#, 400, "bad-request", Some("cost"), "from 1 to"),
        ("/v1/check", r#"{"cost":"1"}"#, 400, "bad-request", Some("cost"), "whole number"),
        ("/v1/check?status=maybe", "{}", 400, "bad-request", Some("status"), "true or false"),
        ("/v1/limit", r#"{"key":"a"}"#, 400, "bad-request", Some("limit"), "10/s burst 20"),
        ("/v1/limit", r#"{"limit":"1/s"}"#, 400, "bad-request", Some("key"), "missing"),
        (
            "/v1/limit",
            r#"{"key":"a","limit":"10/mn"}"#,
            400,
            "invalid-limit",
            Some("limit"),
            "did you mean \"10/min\"?",
        ),
        (
            "/v1/limit",
            r#"{"key":"a","limit":"1000000000000/d log min_gap 1us count_denied"}"#,
            400,
            "invalid-limit",
            Some("limit"),
            "at most 10000 and not 1000000000000: use a sliding window",
        ),
        (
            "/v1/limit",
            r#"{"key":"a","limit":"1M concurrent lease 1year"}"#,
            400,
            "invalid-limit",
            Some("limit"),
            "at most 10000 and not 1000000: count in larger units",
        ),
        (
            "/v1/peek",
            r#"{"key":"a","limit":"1/s","domain":"shop"}"#,
            400,
            "bad-request",
            Some("key"),
            "either",
        ),
        ("/v1/batch", "{}", 400, "bad-request", Some("requests"), "missing"),
        (
            "/v1/reserve",
            r#"{"key":"a","limit":"1/s"}"#,
            400,
            "bad-request",
            Some("cost"),
            "missing",
        ),
        ("/v1/reservations/x/settle", "{}", 400, "bad-request", Some("cost"), "missing"),
        (
            "/v1/limit",
            r#"{"key":"a","limit":["1/s","10/mn"]}"#,
            400,
            "invalid-limit",
            Some("limit[1]"),
            "did you mean \"10/min\"?",
        ),
        (
            "/v1/limit",
            r#"{"key":"a","limit":["60/min","60 / min"]}"#,
            400,
            "invalid-limit",
            Some("limit[1]"),
            "the limit 60/min is there twice",
        ),
        ("/v1/limit", r#"{"key":"a","limit":[]}"#, 400, "bad-request", Some("limit"), "no limit"),
        (
            "/v1/reservations/x/settle",
            r#"{"outcome":{"status":200}}"#,
            400,
            "bad-request",
            Some("outcome"),
            "response",
        ),
        ("/v1/reservations/x/settle", r#"{"amount":1}"#, 404, "not-found", None, "no open"),
    ] {
        let response = client.post(path, body);
        assert_eq!(response.status, status, "{path} {body} {response:?}");
        assert_eq!(response.header("content-type"), Some("application/problem+json"));
        let problem = response.json();
        assert_eq!(problem["code"], code, "{body} {problem}");
        assert_eq!(problem["field"].as_str(), field, "{body} {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{body} {problem}");
    }
    let get = client.send("GET", "/v1/check", "");
    assert_eq!((get.status, get.header("allow")), (405, Some("POST")));
    for (method, path, status) in [("GET", "/nowhere", 404), ("PUT", "/livez", 405)] {
        let response = client.send(method, path, "");
        assert_eq!(response.status, status, "{path}");
        assert_eq!(response.header("content-type"), Some("application/problem+json"));
    }
}
