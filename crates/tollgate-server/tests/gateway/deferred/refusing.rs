//! What is not kept.

use tollgate_rig::Upstream;

use super::support::{ONE_AN_HOUR, deferred, id, report, start, start_as, until};

#[test]
fn what_cannot_wait_is_refused() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let gateway = start_as(ONE_AN_HOUR, &upstream.url(), data.path(), |config| {
        config.gateway.as_mut().unwrap().defer.body = 1000;
    });
    let mut client = gateway.connect();
    report(&mut client, "acme", "");
    let status = |headers: &[(&str, &str)], body: &str| {
        let mut client = gateway.connect();
        let all: Vec<_> = [("x-org", "acme")].iter().chain(headers).copied().collect();
        client.send("POST", "/report", &all, body).status()
    };
    assert_eq!(status(&[("expect", "100-continue")], "x"), 429);
    assert_eq!(status(&[("connection", "upgrade"), ("upgrade", "websocket")], ""), 429);
    assert_eq!(status(&[("content-type", "application/grpc")], ""), 200, "in gRPC's own words");
    assert_eq!(status(&[], &"x".repeat(1001)), 429);
    assert_eq!(status(&[], &"x".repeat(1000)), 202);
    let mut client = gateway.connect();
    client.write(
        "POST /report HTTP/1.1\r\nhost: a\r\nx-org: acme\r\ntransfer-encoding: chunked\r\n\r\n",
    );
    client.write(format!("3e9\r\n{}\r\n0\r\n\r\n", "x".repeat(1001)));
    assert_eq!(client.read().unwrap().status(), 413);
    assert_eq!(upstream.count(), 1);
}

#[test]
fn unfinished_bodies_do_not_keep_others_out() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let gateway = start(ONE_AN_HOUR, &upstream.url(), data.path());
    report(&mut gateway.connect(), "acme", "");
    let head = "POST /report HTTP/1.1\r\nhost: a\r\nx-org: acme\r\ntransfer-encoding: chunked\r\n";
    let unfinished: Vec<_> = (0..100)
        .map(|_| {
            let mut client = gateway.connect();
            client.write(format!("{head}\r\n1\r\nx\r\n"));
            client
        })
        .collect();
    let buffered = || gateway.metric("tollgate_buffered_body_bytes");
    tollgate_rig::until("all are being read", || buffered() >= 100);
    assert!(buffered() <= 100 << 10, "memory is reserved as it arrives: {}", buffered());
    deferred(&mut gateway.connect(), "acme", "x");
    drop(unfinished);
    tollgate_rig::until("the memory comes back", || buffered() == 0);
}

#[test]
fn only_rules_that_defer_defer() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let rules = "
rules:
  - { name: report, route: POST /report, limit: 1/h, then: defer }
  - { name: hard, route: POST /report, limit: 1/min, then: deny 403 }
  - { name: closed, route: /closed, then: deny }
";
    let gateway = start(rules, &upstream.url(), data.path());
    let mut client = gateway.connect();
    report(&mut client, "acme", "");
    let refused = report(&mut client, "acme", "").status();
    assert!([403, 429].contains(&refused), "{refused}");
    assert_eq!(client.get("/closed").status(), 429);
    assert_eq!(gateway.metric("tollgate_deferred{state=\"queued\"}"), 0);
}

#[test]
fn a_full_queue_says_so_loses_nothing_and_takes_more_when_there_is_room() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let gateway = start_as(ONE_AN_HOUR, &upstream.url(), data.path(), |config| {
        let defer = &mut config.gateway.as_mut().unwrap().defer;
        (defer.count, defer.bytes, defer.share) = (3, 100_000, 1.0);
    });
    let mut client = gateway.connect();
    report(&mut client, "acme", "");
    let heavy = "x".repeat(90_000);
    let first = deferred(&mut client, "acme", &heavy);
    let full = report(&mut client, "acme", &heavy);
    assert_eq!(full.status(), 503);
    assert!(
        full.text().contains("deferred-full") && full.text().contains("not accepted"),
        "{}",
        full.text()
    );
    for _ in 0..2 {
        deferred(&mut client, "acme", "light");
    }
    assert_eq!(report(&mut client, "acme", "light").status(), 503, "three are enough");
    assert_eq!(gateway.metric("tollgate_deferred{state=\"queued\"}"), 3);
    let (status, _) = gateway.admin("DELETE", &format!("/v1/deferred/{}", id(&first)));
    assert_eq!(status, 200);
    deferred(&mut client, "acme", &heavy);
    until("three", || gateway.metric("tollgate_deferred{state=\"queued\"}") == 3);
    assert_eq!(upstream.count(), 1);
}

#[test]
fn one_key_cannot_fill_the_queue_for_others() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let set_up = |config: &mut tollgate_server::Config| {
        let defer = &mut config.gateway.as_mut().unwrap().defer;
        (defer.count, defer.bytes) = (8, 1 << 20);
    };
    let gateway = start_as(ONE_AN_HOUR, &upstream.url(), data.path(), set_up);
    let mut client = gateway.connect();
    for org in ["acme", "globex"] {
        assert_eq!(report(&mut client, org, "").status(), 200);
    }
    for _ in 0..2 {
        deferred(&mut client, "acme", "");
    }
    let full = report(&mut client, "acme", "");
    assert_eq!((full.status(), full.header("retry-after")), (503, Some("5")));
    let text = full.text();
    assert!(
        text.contains("deferred-full") && text.contains("share of the queue, 2 requests"),
        "{text}"
    );
    deferred(&mut client, "globex", "");
    drop(client);
    gateway.stop().join().unwrap();
    let gateway = start_as(ONE_AN_HOUR, &upstream.url(), data.path(), set_up);
    let mut client = gateway.connect();
    assert_eq!(report(&mut client, "acme", "").status(), 503, "shares survive a restart");
}
