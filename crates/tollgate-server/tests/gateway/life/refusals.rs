//! What a client is told about its limits, and that every door counts in the same place.

use serde_json::Value;
use tollgate_rig::{Upstream, WebClient, until};

use crate::support::{OPEN, start};

#[test]
fn a_refusal_says_who_why_and_until_when() {
    let upstream = Upstream::start();
    let gateway = start("rules: [{ name: api, per: ip, limit: 2/min fixed first_hit }]", &upstream);
    let mut client = gateway.connect();
    for left in ["1", "0"] {
        let answer = client.get("/");
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.header("ratelimit-policy"), Some(r#""api";q=2;w=60"#));
        let told = answer.header("ratelimit").unwrap();
        assert!(told.starts_with(&format!(r#""api";r={left};t="#)), "{told}");
        assert_eq!(answer.header("retry-after"), None);
    }
    let answer = client.get("/");
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let retry: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&retry), "{retry}");
    assert!(answer.header("ratelimit").unwrap().starts_with(r#""api";r=0;t="#));
    let problem: Value = serde_json::from_str(&answer.text()).unwrap();
    let kind = "https://iana.org/assignments/http-problem-types#quota-exceeded";
    assert_eq!((&problem["type"], &problem["status"]), (&kind.into(), &429.into()));
    assert_eq!((&problem["rule"], &problem["code"]), (&"api".into(), &"quota-exceeded".into()));
    assert_eq!(problem["violated-policies"], serde_json::json!(["api"]));
    assert!(problem["retry_after_ms"].as_u64().unwrap() <= 60_000);
    assert_eq!(upstream.count(), 2);
    assert_eq!(client.get("/").status(), 429, "on the same connection");
}

#[test]
fn rules_choose_the_status() {
    let upstream = Upstream::start();
    let rules = "
rules:
  - { name: closed, route: GET /closed, then: deny 403 }
  - { name: paid, route: GET /paid, limit: 1/h, then: deny 402 }
  - { name: free, route: GET /free, then: allow }
  - { name: all, limit: 2/h fixed first_hit }
";
    let gateway = start(rules, &upstream);
    let mut client = gateway.connect();
    assert_eq!(client.get("/closed").status(), 403);
    assert_eq!([client.get("/paid").status(), client.get("/paid").status()], [200, 402]);
    assert_eq!([client.get("/x").status(), client.get("/x").status()], [200, 429]);
    assert_eq!(client.get("/free").status(), 200, "what is allowed costs nothing");
    assert_eq!(upstream.count(), 3);
}

#[test]
fn a_refused_body_is_read_or_the_connection_ends() {
    let upstream = Upstream::start();
    let gateway = start("rules: [{ name: none, then: deny 403 }]", &upstream);
    let mut client = gateway.connect();
    let small = client.send("POST", "/", &[], "hello");
    assert_eq!(small.status(), 403);
    assert_eq!(client.send("POST", "/", &[], "again").status(), 403, "the connection goes on");
    // A large one is not waited for: the answer comes, and is not lost to a reset.
    let mut large = gateway.connect();
    large.write("POST / HTTP/1.1\r\nHost: stub\r\nContent-Length: 100000000\r\n\r\n");
    large.write(vec![b'x'; 1 << 20]);
    assert_eq!(large.read().unwrap().status(), 403);
    assert_eq!((upstream.count(), upstream.connections()), (0, 0));
}

#[test]
fn all_doors_count_in_one_place() {
    let upstream = Upstream::start();
    let gateway = start("rules: [{ name: all, limit: 4/h fixed first_hit }]", &upstream);
    let check = || WebClient::connect(gateway.http()).send("POST", "/v1/check", &[], "{}").text();
    assert_eq!(gateway.connect().get("/").status(), 200);
    assert!(check().contains("\"remaining\":2"), "one by the gateway, one by this check");
    assert_eq!(gateway.connect().get("/").status(), 200);
    assert!(check().contains("\"allowed\":true"));
    assert!(check().contains("\"allowed\":false"));
    assert_eq!(gateway.connect().get("/").status(), 429);
    assert_eq!(upstream.count(), 2);
}

#[test]
fn new_rules_hold_without_a_lost_request() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    let mut clients: Vec<_> = (0..4).map(|_| gateway.connect()).collect();
    let mut passed = 0;
    for round in 0..6 {
        let closed = round % 2 == 0;
        match closed {
            true => gateway.write_rules("rules: [{ name: none, then: deny 403 }]"),
            false => gateway.write_rules(OPEN),
        }
        let expected = if closed { 403 } else { 200 };
        for client in &mut clients {
            until("the new rules hold", || match client.get("/").status() {
                200 => {
                    passed += 1;
                    expected == 200
                }
                403 => expected == 403,
                other => panic!("{other}"),
            });
        }
    }
    assert_eq!(upstream.count(), passed);
    // What is wrong is not taken over.
    gateway.write_rules("rules: [{ name: none, then: nonsense }]");
    assert_eq!(clients[0].get("/").status(), 200);
}
