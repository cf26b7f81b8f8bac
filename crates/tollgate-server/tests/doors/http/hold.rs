//! Reservations: held, settled once, given back, or left to expire.

use std::time::Duration;

use tollgate::testing::ManualClock;

use super::client::Client;
use crate::support::{Running, start_with};

const RULES: &str = "
domain: llm
rules:
  - { name: calls, per: user, limit: 100/h fixed, cost: 1 }
  - { name: tokens, per: user, limit: 10k/h fixed }
  - { name: places, per: user, limit: 2 concurrent, cost: 1 }
";
const RULED: &str = r#"{"domain":"llm","attributes":{"user":"ann"}"#;
const BROUGHT: &str = r#"{"key":"ann","limit":"10k/h fixed""#;

fn still() -> (Running, ManualClock) {
    let clock = ManualClock::new();
    let given = clock.clone();
    (start_with(RULES, move |config| config.clock = Some((&given).into())), clock)
}

/// What is left of the tokens.
fn left(client: &mut Client, subject: &str) -> u64 {
    let limits = client.post("/v1/peek", &format!("{subject}}}")).json()["limits"].clone();
    let limits = limits.as_array().unwrap();
    let tokens = limits.iter().find(|limit| limit["limit"] == 10_000).unwrap();
    tokens["remaining"].as_u64().unwrap()
}

fn reserve(client: &mut Client, subject: &str, amount: u64) -> String {
    let body = format!(r#"{subject},"amount":{amount},"expire_s":60}}"#);
    let answer = client.post("/v1/reserve", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["expires_in_ms"], 60_000);
    format!("/v1/reservations/{}", answer.json()["id"].as_str().unwrap())
}

#[test]
fn a_hold_is_settled_once_for_the_truth() {
    let (server, _clock) = still();
    let mut client = Client::connect(server.http());
    for subject in [RULED, BROUGHT] {
        let hold = reserve(&mut client, subject, 4096);
        assert_eq!(left(&mut client, subject), 10_000 - 4096);
        let settle = format!("{hold}/settle");
        assert_eq!(client.post(&settle, r#"{"amount":812}"#).status, 200);
        assert_eq!(left(&mut client, subject), 10_000 - 812);
        assert_eq!(client.post(&settle, r#"{"amount":1}"#).status, 404, "only once");
        assert_eq!(client.send("DELETE", &hold, "").status, 404);

        let hold = reserve(&mut client, subject, 100);
        assert_eq!(client.post(&format!("{hold}/settle"), r#"{"amount":300}"#).status, 200);
        assert_eq!(left(&mut client, subject), 10_000 - 812 - 300, "an overrun is charged");

        let hold = reserve(&mut client, subject, 5000);
        assert_eq!(client.send("DELETE", &hold, "").status, 200);
        assert_eq!(left(&mut client, subject), 10_000 - 812 - 300);
    }
    let calls = client.post("/v1/peek", &format!("{RULED}}}")).json()["limits"][0].clone();
    assert_eq!(
        (&calls["rule"], &calls["remaining"]),
        (&"calls".into(), &98.into()),
        "each counted"
    );
}

#[test]
fn an_expired_hold_keeps_its_charge() {
    let (server, clock) = still();
    let mut client = Client::connect(server.http());
    for subject in [RULED, BROUGHT] {
        let (late, later) =
            (reserve(&mut client, subject, 1000), reserve(&mut client, subject, 10));
        clock.advance(Duration::from_secs(61));
        let answer = client.post(&format!("{late}/settle"), r#"{"amount":1}"#);
        assert_eq!((answer.status, &answer.json()["code"]), (409, &"expired".into()));
        assert_eq!(left(&mut client, subject), 10_000 - 1010);
        assert_eq!(client.post(&format!("{later}/settle"), r#"{"amount":30}"#).status, 409);
        assert_eq!(left(&mut client, subject), 10_000 - 1030, "more than was held is charged");
        assert_eq!(client.send("DELETE", &later, "").status, 404);
    }
}

#[test]
fn places_are_free_once_a_hold_is_done() {
    let (server, _clock) = still();
    let mut client = Client::connect(server.http());
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
rules:
  - name: tokens
    per: user
    limit: 10k/h fixed
    cost:
      { reserve: body.max_tokens, settle: response.body.usage.total_tokens, expire: 2min }
  - { name: failures, per: user, limit: 2/h fixed, count: response.status >= 500 }
";

#[test]
fn rules_say_what_is_held_and_how_it_is_settled() {
    let clock = ManualClock::new();
    let given = clock.clone();
    let server = start_with(SETTLED, move |config| config.clock = Some((&given).into()));
    let mut client = Client::connect(server.http());
    let ask = r#"{"domain":"llm","attributes":{"user":"ann","body.max_tokens":4096}}"#;
    let reserve = |client: &mut Client| {
        let answer = client.post("/v1/reserve", ask).json();
        assert_eq!(answer["expires_in_ms"], 600_000, "the longest of its rules: {answer}");
        format!("/v1/reservations/{}/settle", answer["id"].as_str().unwrap())
    };
    let remaining = |answer: serde_json::Value| {
        [0, 1].map(|limit| answer["limits"][limit]["remaining"].as_u64().unwrap())
    };
    let hold = reserve(&mut client);
    let outcome =
        r#"{"outcome":{"response":{"status":200,"body":{"usage":{"total_tokens":812}}}}}"#;
    assert_eq!(remaining(client.post(&hold, outcome).json()), [9188, 2]);
    assert_eq!(client.post(&hold, outcome).status, 404, "only once");

    let hold = reserve(&mut client);
    let failed = r#"{"outcome":{"response":{"status":500,"body":{"error":"x"}}}}"#;
    assert_eq!(remaining(client.post(&hold, failed).json()), [5092, 1], "no number: it stays");

    let hold = reserve(&mut client);
    clock.advance(Duration::from_secs(121));
    assert_eq!(remaining(client.post(&hold, outcome).json()), [996, 1], "too late for tokens");

    let brought = format!(r#"{BROUGHT},"amount":1}}"#);
    let hold = client.post("/v1/reserve", &brought).json()["id"].as_str().unwrap().to_owned();
    let hold = format!("/v1/reservations/{hold}/settle");
    assert_eq!(client.post(&hold, outcome).status, 400, "a limit makes nothing of it");
    assert_eq!(client.post(&hold, r#"{"amount":1}"#).status, 200, "it was still open");
    let metrics = client.send("GET", "/metrics", "").body;
    let series = r#"tollgate_settled_total{domain="llm",rule="tokens",outcome="expired"} 1"#;
    assert!(metrics.contains(series), "{metrics}");
}
