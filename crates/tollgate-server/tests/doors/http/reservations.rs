//! Reservations: made, settled once, cancelled or expired.

use std::time::Duration;

use tollgate::testing::ManualClock;

use super::client::HttpClient;
use crate::support::{TestServer, start_with};

const RULES: &str = "
domain: llm
attributes: [user]
rules:
  - { name: calls, per: user, limit: 100/h fixed, cost: 1 }
  - { name: tokens, per: user, limit: 10k/h fixed }
  - { name: places, per: user, limit: 2 concurrent, cost: 1 }
";
const RULED: &str = r#"{"domain":"llm","attributes":{"user":"ann"}"#;
const INLINE_LIMIT: &str = r#"{"key":"ann","limit":"10k/h fixed""#;

fn start_with_frozen_clock() -> (TestServer, ManualClock) {
    let clock = ManualClock::new();
    let given = clock.clone();
    (start_with(RULES, move |config| config.clock = Some((&given).into())), clock)
}

/// Returns the remaining tokens.
fn left(client: &mut HttpClient, subject: &str) -> u64 {
    let limits = client.post("/v1/peek", &format!("{subject}}}")).json()["limits"].clone();
    let limits = limits.as_array().unwrap();
    let tokens = limits.iter().find(|limit| limit["limit"] == 10_000).unwrap();
    tokens["remaining"].as_u64().unwrap()
}

fn reserve(client: &mut HttpClient, subject: &str, amount: u64) -> String {
    let body = format!(r#"{subject},"amount":{amount},"expire_s":60}}"#);
    let response = client.post("/v1/reserve", &body);
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.json()["expires_in_ms"], 60_000);
    format!("/v1/reservations/{}", response.json()["id"].as_str().unwrap())
}

#[test]
fn a_reservation_is_settled_once() {
    let (server, _clock) = start_with_frozen_clock();
    let mut client = HttpClient::connect(server.http());
    for subject in [RULED, INLINE_LIMIT] {
        let id = reserve(&mut client, subject, 4096);
        assert_eq!(left(&mut client, subject), 10_000 - 4096);
        let settle = format!("{id}/settle");
        assert_eq!(client.post(&settle, r#"{"amount":812}"#).status, 200);
        assert_eq!(left(&mut client, subject), 10_000 - 812);
        let state = client.post(&settle, r#"{"amount":812}"#);
        assert_eq!(state.status, 200, "a repeated call is answered, and changes nothing");
        assert_eq!(client.post(&settle, r#"{"amount":1}"#).status, 404, "only once");
        assert_eq!(client.send("DELETE", &id, "").status, 404);
        assert_eq!(left(&mut client, subject), 10_000 - 812);

        let id = reserve(&mut client, subject, 100);
        assert_eq!(client.post(&format!("{id}/settle"), r#"{"amount":300}"#).status, 200);
        assert_eq!(left(&mut client, subject), 10_000 - 812 - 300, "an overrun is charged");

        let id = reserve(&mut client, subject, 5000);
        let cancelled = client.send("DELETE", &id, "");
        assert_eq!(cancelled.status, 200);
        let again = client.send("DELETE", &id, "");
        assert_eq!((again.status, again.body), (200, cancelled.body));
        assert_eq!(left(&mut client, subject), 10_000 - 812 - 300);
    }
    let calls = client.post("/v1/peek", &format!("{RULED}}}")).json()["limits"][0].clone();
    assert_eq!(
        (&calls["rule"], &calls["remaining"]),
        (&"calls".into(), &98.into()),
        "each reservation is one call"
    );
}

#[test]
fn an_expired_reservation_keeps_its_charge() {
    let (server, clock) = start_with_frozen_clock();
    let mut client = HttpClient::connect(server.http());
    for subject in [RULED, INLINE_LIMIT] {
        let (late, later) =
            (reserve(&mut client, subject, 1000), reserve(&mut client, subject, 10));
        clock.advance(Duration::from_secs(61));
        let response = client.post(&format!("{late}/settle"), r#"{"amount":1}"#);
        assert_eq!((response.status, &response.json()["code"]), (409, &"expired".into()));
        assert_eq!(left(&mut client, subject), 10_000 - 1010);
        assert_eq!(client.post(&format!("{later}/settle"), r#"{"amount":30}"#).status, 409);
        assert_eq!(
            left(&mut client, subject),
            10_000 - 1030,
            "the difference to the reservation is charged"
        );
        assert_eq!(client.send("DELETE", &later, "").status, 404);
    }
}

#[test]
fn permits_are_free_once_a_reservation_ends() {
    let (server, _clock) = start_with_frozen_clock();
    let mut client = HttpClient::connect(server.http());
    for subject in [RULED, r#"{"key":"bob","limit":"2 concurrent""#] {
        let amount = 1;
        let (first, second) =
            (reserve(&mut client, subject, amount), reserve(&mut client, subject, amount));
        let third = client.post("/v1/reserve", &format!(r#"{subject},"amount":1}}"#));
        assert_eq!((third.status, &third.json()["allowed"]), (200, &false.into()));
        let settled = client.post(&format!("{first}/settle"), r#"{"amount":1}"#);
        assert_eq!(settled.status, 200);
        let again = reserve(&mut client, subject, amount);
        assert_eq!(client.send("DELETE", &second, "").status, 200);
        assert_eq!(client.send("DELETE", &again, "").status, 200);
    }
}

const SETTLED: &str = "
domain: llm
attributes: [user]
rules:
  - name: tokens
    per: user
    limit: 10k/h fixed
    cost:
      { reserve: body.max_tokens, settle: response.body.usage.total_tokens, expire: 2min }
  - { name: failures, per: user, limit: 2/h fixed, count: response.status >= 500 }
";

#[test]
fn rules_choose_the_amount_and_the_settlement() {
    let clock = ManualClock::new();
    let given = clock.clone();
    let server = start_with(SETTLED, move |config| config.clock = Some((&given).into()));
    let mut client = HttpClient::connect(server.http());
    let body = r#"{"domain":"llm","attributes":{"user":"ann","body.max_tokens":4096}}"#;
    let reserve = |client: &mut HttpClient| {
        let response = client.post("/v1/reserve", body).json();
        assert_eq!(response["expires_in_ms"], 600_000, "the longest time of the rules: {response}");
        format!("/v1/reservations/{}/settle", response["id"].as_str().unwrap())
    };
    let remaining = |response: serde_json::Value| {
        [0, 1].map(|limit| response["limits"][limit]["remaining"].as_u64().unwrap())
    };
    let id = reserve(&mut client);
    let outcome =
        r#"{"outcome":{"response":{"status":200,"body":{"usage":{"total_tokens":812}}}}}"#;
    assert_eq!(remaining(client.post(&id, outcome).json()), [9188, 2]);
    assert_eq!(remaining(client.post(&id, outcome).json()), [9188, 2], "only once");

    let id = reserve(&mut client);
    let failed = r#"{"outcome":{"response":{"status":500,"body":{"error":"x"}}}}"#;
    assert_eq!(
        remaining(client.post(&id, failed).json()),
        [5092, 1],
        "without a number the reservation stays charged"
    );

    let id = reserve(&mut client);
    clock.advance(Duration::from_secs(121));
    assert_eq!(remaining(client.post(&id, outcome).json()), [996, 1], "too late for tokens");

    let inline_limit = format!(r#"{INLINE_LIMIT},"amount":1}}"#);
    let id = client.post("/v1/reserve", &inline_limit).json()["id"].as_str().unwrap().to_owned();
    let id = format!("/v1/reservations/{id}/settle");
    assert_eq!(client.post(&id, outcome).status, 400, "an inline limit cannot settle by outcome");
    assert_eq!(client.post(&id, r#"{"amount":1}"#).status, 200, "the reservation is still open");
    let metrics = client.send("GET", "/metrics", "").body;
    let series = r#"tollgate_settled_total{domain="llm",rule="tokens",outcome="expired"} 1"#;
    assert!(metrics.contains(series), "{metrics}");
}

#[test]
fn a_reservation_by_several_limits_is_settled_at_all_of_them() {
    let (server, _clock) = start_with_frozen_clock();
    let mut client = HttpClient::connect(server.http());
    let subject = r#"{"key":"acme","limit":["100/h","1000/day","5000 concurrent"]"#;
    let left = |client: &mut HttpClient| {
        let state = client.post("/v1/peek", &format!("{subject}}}")).json();
        [0, 1, 2].map(|index| state["limits"][index]["remaining"].as_u64().unwrap())
    };
    let reserved = client.post("/v1/reserve", &format!(r#"{subject},"cost":60}}"#)).json();
    assert_eq!(left(&mut client), [40, 940, 4940]);
    let refused = client.post("/v1/reserve", &format!(r#"{subject},"cost":60}}"#)).json();
    assert_eq!((&refused["allowed"], &refused["id"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!(left(&mut client), [40, 940, 4940], "all or none");
    let settle = format!("/v1/reservations/{}/settle", reserved["id"].as_str().unwrap());
    assert_eq!(client.post(&settle, r#"{"cost":10}"#).status, 200);
    assert_eq!(left(&mut client), [90, 990, 5000], "permits come back, costs are corrected");
}
