//! Requests that pass, and those that do not.

use tollgate_rig::Upstream;

use crate::support::{OPEN, start};

#[test]
fn requests_pass_until_a_limit_is_reached() {
    let upstream = Upstream::start();
    let gateway = start("rules: [{ name: api, per: ip, limit: 2/h }]", &upstream);
    let mut client = gateway.connect();
    let answers: Vec<_> = (0..3).map(|_| client.get("/orders?id=7")).collect();
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status()).collect();
    assert_eq!(statuses, [200, 200, 429], "{answers:?}");
    assert_eq!(answers[0].text(), "upstream");
    assert!(answers[0].header("ratelimit").unwrap().starts_with(r#""api";r=1"#), "{answers:?}");
    assert_eq!(answers[2].header("content-type"), Some("application/problem+json"));
    assert!(answers[2].header("retry-after").is_some());
    assert_eq!(upstream.count(), 2);
    assert_eq!(upstream.last().target(), "/orders?id=7");
    assert!(gateway.metrics().contains("tollgate_decisions_total"));
}

#[test]
fn bodies_pass_in_both_directions() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    let mut client = gateway.connect();
    assert_eq!(client.send("POST", "/a", &[], "hello").status(), 200);
    assert_eq!(upstream.last().text(), "hello");
    client.write("POST /b HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    client.write("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert_eq!(client.read().unwrap().status(), 200);
    assert_eq!(upstream.last().text(), "abcde");
    assert_eq!(client.send("HEAD", "/c", &[], "").header("content-length"), Some("8"));
    assert_eq!(client.get("/d").text(), "upstream");
    assert_eq!(upstream.connections(), 1, "lanes are used again");
    drop(gateway.stop());
}
