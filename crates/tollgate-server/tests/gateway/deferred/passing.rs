//! A request over the limit arrives later, as it was sent.

use tollgate_rig::Upstream;

use super::support::{
    ONE_AN_HOUR, QUICK, deferred, id, report, start, start_as, told, until, until_kept, until_state,
};

#[test]
fn what_is_over_the_limit_is_kept_and_arrives_as_it_was_sent() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let gateway = start(QUICK, &upstream.url(), data.path());
    let mut client = gateway.connect();
    let direct = client.send("POST", "/report?a=1", &[("x-org", "acme")], "first");
    assert_eq!(direct.status(), 200);
    let mut kept = None;
    while kept.is_none() {
        let more = [("x-org", "acme"), ("connection", "x-hop"), ("x-hop", "1"), ("cookie", "a=b")];
        let answer = client.send("POST", "/report?a=2", &more, "second");
        kept = (answer.status() == 202).then_some(answer);
    }
    let kept = kept.unwrap();
    let place = kept.header("location").unwrap().to_owned();
    assert!(place.starts_with("/.tollgate/deferred/") && id(&place).len() == 32, "{place}");
    assert!(kept.header("retry-after").is_some());
    let said: serde_json::Value = serde_json::from_slice(&kept.body).unwrap();
    assert_eq!((&said["id"], &said["status_url"]), (&id(&place).into(), &place.clone().into()));
    assert!(said["position"].is_number(), "{said}");

    let done = until_state(&gateway, &place, "done");
    assert_eq!(done["attempts"], 1);
    assert_eq!(
        (&done["answer"]["status"], &done["answer"]["body"]),
        (&200.into(), &"upstream".into())
    );
    let seen = upstream.requests();
    let key =
        |message: &&tollgate_rig::Message| message.header("idempotency-key") == Some(id(&place));
    let arrived = seen.iter().find(key).unwrap();
    assert_eq!(
        (arrived.line.as_str(), arrived.text().as_str()),
        ("POST /report?a=2 HTTP/1.1", "second")
    );
    for (name, value) in [
        ("x-org", Some("acme")),
        ("cookie", Some("a=b")),
        ("host", Some("tollgate.test")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("x-forwarded-proto", Some("http")),
        ("content-length", Some("6")),
        ("tollgate-deferred", Some("1")),
        ("x-hop", None),
    ] {
        assert_eq!(arrived.header(name), value, "{name}");
    }
    assert!(seen[0].header("tollgate-deferred").is_none(), "the first one was not deferred");
    assert!(
        gateway.metric(
            "tollgate_decisions_total{domain=\"default\",rule=\"report\",outcome=\"deferred\"}"
        ) >= 1
    );
    assert!(gateway.metric("tollgate_deferred{state=\"done\"}") >= 1);
    assert!(gateway.metric("tollgate_deferred_attempts_total{outcome=\"done\"}") >= 1);
}

#[test]
fn the_clients_own_idempotency_key_is_kept() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let gateway = start(QUICK, &upstream.url(), data.path());
    let mut client = gateway.connect();
    let place = until_kept(|| client.send("POST", "/report", &[("idempotency-key", "mine")], ""));
    until_state(&gateway, &place, "done");
    assert!(upstream.requests().iter().all(|seen| seen.header("idempotency-key") == Some("mine")));
}

#[test]
fn what_comes_after_a_body_is_kept_with_it() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let gateway = start(QUICK, &upstream.url(), data.path());
    let mut client = gateway.connect();
    let place = until_kept(|| {
        client.write(
            "POST /report HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n\
             4\r\nbody\r\n0\r\nx-sum: 42\r\n\r\n",
        );
        client.read().unwrap()
    });
    until_state(&gateway, &place, "done");
    let seen = upstream.requests();
    assert!(seen.iter().any(|seen| seen.header("tollgate-deferred").is_some()));
    for seen in seen {
        assert_eq!((seen.text().as_str(), seen.header("trailer")), ("body", Some("x-sum")));
        assert_eq!(seen.trailers, [("x-sum".to_owned(), "42".to_owned())], "{seen:?}");
    }
}

#[test]
fn what_is_asked_of_deferred_requests_is_never_sent_on() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let gateway = start_as(ONE_AN_HOUR, &upstream.url(), data.path(), |config| {
        config.gateway.as_mut().unwrap().defer.prefix = "/later/".to_owned();
    });
    let mut client = gateway.connect();
    assert_eq!(report(&mut client, "acme", "").status(), 200);
    let place = deferred(&mut client, "acme", "");
    assert!(place.starts_with("/later/"), "{place}");
    let said = told(&gateway, &place);
    assert_eq!((&said["state"], &said["position"]), (&"queued".into(), &0.into()));
    for unknown in ["/later/", "/later/0123456789abcdef0123456789abcdef", "/x/../later/no"] {
        assert_eq!(client.get(unknown).status(), 404, "{unknown}");
    }
    let put = client.send("PUT", &place, &[], "x");
    assert_eq!((put.status(), put.header("allow")), (405, Some("GET, HEAD")));
    until("one request", || upstream.count() == 1);
    assert_eq!(client.get("/.tollgate/deferred/x").status(), 200, "that prefix is free then");
}

#[test]
fn without_a_place_that_lasts_it_is_refused() {
    let upstream = Upstream::start();
    let gateway = crate::support::start(ONE_AN_HOUR, &upstream);
    let mut client = gateway.connect();
    assert_eq!(report(&mut client, "acme", "").status(), 200);
    let refused = report(&mut client, "acme", "");
    assert_eq!(refused.status(), 429);
    assert!(refused.header("retry-after").is_some());
    assert_eq!(client.get("/.tollgate/deferred/x").status(), 404);
}
