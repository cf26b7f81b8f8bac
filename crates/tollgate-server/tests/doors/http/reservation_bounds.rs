//! Reservations are bounded for each client, and one client cannot take those of another.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tollgate::testing::ManualClock;

use super::client::{HttpClient, HttpResponse};
use crate::support::{TestServer, start_with};

const RULES: &str = "
domain: llm
attributes: [user]
rules:
  - { name: tokens, per: user, limit: 1M/h fixed }
";
const TOKENS: &str = "ann:0123456789abcdef-ann,bob:0123456789abcdef-bob";

/// Starts a server that holds 40 reservations, with tokens for two clients.
fn start(set_up: impl FnOnce(&mut tollgate_server::Config)) -> (TestServer, ManualClock) {
    let clock = ManualClock::new();
    let given = clock.clone();
    let server = start_with(RULES, move |config| {
        config.clock = Some((&given).into());
        config.bounds.reservations = 40;
        config.data_tokens = Some(TOKENS.parse().unwrap());
        set_up(config);
    });
    (server, clock)
}

/// A client with a token.
struct TokenClient {
    http: HttpClient,
    authorization: String,
}

impl TokenClient {
    fn connect(address: SocketAddr, name: &str) -> TokenClient {
        let authorization = format!("Bearer 0123456789abcdef-{name}");
        TokenClient { http: HttpClient::connect(address), authorization }
    }

    fn send(&mut self, method: &str, path: &str, body: &str) -> HttpResponse {
        let headers = [("Authorization", self.authorization.as_str())];
        self.http.send_with(method, path, &headers, body)
    }

    fn reserve(&mut self, user: &str, extra: &str) -> HttpResponse {
        let attributes = json!({ "user": user, "extra": extra });
        let body = json!({ "attributes": attributes, "amount": 10, "expire_s": 60 });
        self.send("POST", "/v1/reserve", &body.to_string())
    }

    /// Reserves until that is rejected; returns the ids and the rejection.
    fn fill(&mut self, user: &str, extra: &str) -> (Vec<String>, HttpResponse) {
        let mut ids = Vec::new();
        loop {
            let response = self.reserve(user, extra);
            if response.status != 200 {
                return (ids, response);
            }
            ids.push(response.json()["id"].as_str().unwrap().to_owned());
            assert!(ids.len() < 100_000, "there is no bound");
        }
    }

    fn cancel(&mut self, id: &str) -> u16 {
        self.send("DELETE", &format!("/v1/reservations/{id}"), "").status
    }

    fn settle(&mut self, id: &str) -> u16 {
        self.send("POST", &format!("/v1/reservations/{id}/settle"), r#"{"amount":1}"#).status
    }

    /// Returns how much of its limit a user has spent.
    fn spent(&mut self, user: &str) -> u64 {
        let body = json!({ "attributes": { "user": user } }).to_string();
        let limits = self.send("POST", "/v1/peek", &body).json()["limits"].clone();
        1_000_000 - limits[0]["remaining"].as_u64().unwrap()
    }
}

#[test]
fn a_flood_of_reservations_drops_none_of_another_client() {
    let (server, _clock) = start(|_| {});
    let [mut ann, mut bob] = ["ann", "bob"].map(|name| TokenClient::connect(server.http(), name));
    let hold = ann.reserve("ann", "").json()["id"].as_str().unwrap().to_owned();
    let (held, rejected) = bob.fill("bob", "");
    assert_eq!(held.len(), 9, "a quarter of what the other client leaves");
    assert_eq!((rejected.status, rejected.header("retry-after")), (429, Some("1")));
    let problem = rejected.json();
    assert_eq!(problem["code"], "too-many-reservations");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("settle or cancel some") && detail.contains("9 reservations"),
        "{detail}"
    );
    assert_eq!(bob.spent("bob"), 9 * 10, "a rejected reservation is not charged");

    let metrics = bob.send("GET", "/metrics", "").body;
    for series in ["tollgate_reservations 10", "_rejected_total{reason=\"share\"} 1"] {
        assert!(metrics.contains(series), "{series}: {metrics}");
    }

    assert_eq!(ann.reserve("ann", "").status, 200, "the other client has its own share");
    assert_eq!(ann.settle(&hold), 200);
    assert_eq!(bob.cancel(&held[0]), 200);
    assert_eq!(bob.reserve("bob", "").status, 200, "a cancelled reservation makes room");
}

#[test]
fn large_reservations_are_bounded_by_their_bytes() {
    let (server, _clock) = start(|config| {
        (config.bounds.reservations, config.bounds.reservation_bytes) = (100_000, 8 << 20);
    });
    let [mut ann, mut bob] = ["ann", "bob"].map(|name| TokenClient::connect(server.http(), name));
    let hold = ann.reserve("ann", "").json()["id"].as_str().unwrap().to_owned();
    let (held, rejected) = bob.fill("bob", &"x".repeat(500_000));
    assert_eq!((held.len(), rejected.status), (4, 429), "2 MiB of 8 MiB");
    // The key of a counter is stored as well.
    let user = "u".repeat(500_000);
    assert_eq!(bob.cancel(&held[0]), 200);
    assert_eq!(bob.reserve(&user, "").status, 429, "its key is not free");
    assert_eq!(bob.spent(&user), 0, "what was charged before its size was known is refunded");
    assert_eq!(ann.settle(&hold), 200);
}

#[test]
fn without_tokens_a_client_is_its_address() {
    let (server, _clock) = start(|config| config.data_tokens = None);
    let mut one = TokenClient::connect(server.http(), "ignored");
    let (held, rejected) = one.fill("ann", "");
    assert_eq!((held.len(), rejected.status), (10, 429));
    let mut other = TokenClient::connect(server.http(), "another");
    assert_eq!(other.reserve("bob", "").status, 429, "the same address");
}

#[test]
fn when_all_clients_fill_the_memory_new_reservations_wait_for_expired_ones() {
    let (server, clock) = start(|config| config.bounds.reservations = 2);
    let [mut ann, mut bob] = ["ann", "bob"].map(|name| TokenClient::connect(server.http(), name));
    let hold = ann.reserve("ann", "").json()["id"].as_str().unwrap().to_owned();
    assert_eq!(bob.reserve("bob", "").status, 200);
    let rejected = ann.reserve("ann", "");
    assert_eq!((rejected.status, rejected.header("retry-after")), (503, Some("1")));
    assert_eq!(rejected.json()["code"], "reservations-full");
    clock.advance(Duration::from_secs(59));
    assert_eq!(ann.reserve("ann", "").status, 503);
    clock.advance(Duration::from_secs(1));
    assert_eq!(ann.reserve("ann", "").status, 200, "expired reservations make room");
    assert_eq!(ann.settle(&hold), 404);
    assert_eq!(ann.spent("ann"), 20, "an expired reservation keeps its charge");
}

#[test]
fn a_refused_or_wrong_reservation_takes_no_room() {
    let (server, _clock) = start(|_| {});
    let mut ann = TokenClient::connect(server.http(), "ann");
    for _ in 0..50 {
        let body = r#"{"domain":"none","attributes":{},"amount":1}"#;
        assert_eq!(ann.send("POST", "/v1/reserve", body).status, 400);
        let body = r#"{"attributes":{"user":"ann"},"amount":1000001}"#;
        assert_eq!(ann.send("POST", "/v1/reserve", body).json()["allowed"], false);
    }
    assert_eq!(ann.fill("ann", "").0.len(), 10);
}

#[test]
fn concurrent_settlements_of_one_reservation_charge_once() {
    let (server, _clock) = start(|_| {});
    let mut ann = TokenClient::connect(server.http(), "ann");
    for subject in [r#""attributes":{"user":"ann"}"#, r#""key":"ann","limit":"1M/h fixed""#] {
        let body = format!(r#"{{{subject},"amount":10}}"#);
        let response = ann.send("POST", "/v1/reserve", &body);
        let id = response.json()["id"].as_str().unwrap().to_owned();
        let address = server.http();
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let settle = || TokenClient::connect(address, "ann").settle(&id);
            let all: Vec<_> = (0..8).map(|_| scope.spawn(settle)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(statuses, [200; 8]);
        let peeked = ann.send("POST", "/v1/peek", &format!("{{{subject}}}")).json();
        assert_eq!(peeked["limits"][0]["remaining"], 999_999, "{peeked}");
    }
}
