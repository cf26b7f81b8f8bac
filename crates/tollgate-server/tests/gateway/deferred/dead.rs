//! Upstreams that do not take what is sent, dead letters, and what operators do about them.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use serde_json::Value;
use tollgate_rig::{AfterResponse, Upstream};

use super::support::{
    ONE_AN_HOUR, QUICK, deferred, id, report, start, start_as, told, until_kept, until_state,
};

/// An upstream that answers deferred requests with a status of the test's own.
fn answering(status: &Arc<AtomicU16>) -> Upstream {
    let status = status.clone();
    Upstream::answering(move |request, stream| {
        let deferred = request.header("tollgate-deferred").is_some();
        let status = if deferred { status.load(Ordering::SeqCst) } else { 200 };
        let _ = write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nhm");
        AfterResponse::Keep
    })
}

#[test]
fn a_dead_upstream_costs_no_attempt_and_is_tried_until_it_is_back() {
    let upstream = Upstream::start();
    let address = upstream.address();
    let data = tempfile::tempdir().unwrap();
    let gateway = start_as(QUICK, &upstream.url(), data.path(), |config| {
        config.gateway.as_mut().unwrap().defer.attempts = 1;
    });
    let mut client = gateway.connect();
    report(&mut client, "acme", "");
    drop(upstream);
    let place = until_kept(|| report(&mut client, "acme", "kept"));
    let unreachable = "tollgate_deferred_attempts_total{outcome=\"unreachable\"}";
    super::support::until("some attempts", || gateway.metric(unreachable) >= 3);
    let waiting = told(&gateway, &place);
    assert_eq!(waiting["attempts"], 0, "{waiting}");
    let upstream = Upstream::answering_at(address, |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 204 X\r\n\r\n");
        AfterResponse::Keep
    });
    let done = until_state(&gateway, &place, "done");
    assert_eq!((&done["attempts"], &done["answer"]["status"]), (&1.into(), &204.into()));
    assert!(upstream.requests().iter().any(|seen| seen.text() == "kept"));
}

#[test]
fn a_request_that_is_never_taken_is_a_dead_letter_until_it_is_replayed() {
    let status = Arc::new(AtomicU16::new(503));
    let upstream = answering(&status);
    let data = tempfile::tempdir().unwrap();
    let gateway = start_as(QUICK, &upstream.url(), data.path(), |config| {
        config.gateway.as_mut().unwrap().defer.attempts = 3;
    });
    let mut client = gateway.connect();
    let place = loop {
        if let Some(place) = report(&mut client, "acme", "").header("location") {
            break place.to_owned();
        }
    };
    let failed = until_state(&gateway, &place, "failed");
    assert_eq!((&failed["attempts"], &failed["answer"]["status"]), (&3.into(), &503.into()));
    let attempts: Vec<_> = upstream
        .requests()
        .iter()
        .filter(|seen| seen.header("idempotency-key") == Some(id(&place)))
        .map(|seen| seen.header("tollgate-deferred").unwrap().to_owned())
        .collect();
    assert_eq!(attempts, ["1", "2", "3"]);

    let (code, listed) = gateway.admin("GET", "/v1/deferred?state=failed&rule=report");
    assert_eq!((code, listed["deferred"].as_array().unwrap().len()), (200, 1), "{listed}");
    let dead = &listed["deferred"][0];
    assert_eq!(dead["why"], "the upstream answered 503");
    let week_ms = 7 * 24 * 3_600_000;
    assert_eq!(dead["expires_ms"], dead["changed_ms"].as_i64().unwrap() + week_ms);
    assert_eq!(dead["expires_ms"], failed["expires_ms"], "clients are told as well");
    assert_eq!(gateway.metric("tollgate_deferred{state=\"failed\"}"), 1);

    status.store(200, Ordering::SeqCst);
    let (code, _) = gateway.admin("POST", "/v1/deferred/replay?rule=other");
    assert_eq!(code, 200);
    assert_eq!(told(&gateway, &place)["state"], "failed", "that was another rule's");
    let (code, again) = gateway.admin("POST", &format!("/v1/deferred/{}/replay", id(&place)));
    assert_eq!(code, 200, "{again}");
    let done = until_state(&gateway, &place, "done");
    assert_eq!(done["answer"]["body"], "hm");
    let (code, conflict) = gateway.admin("POST", &format!("/v1/deferred/{}/replay", id(&place)));
    assert_eq!((code, &conflict["code"]), (409, &"conflict".into()));
}

#[test]
fn what_waits_can_be_cancelled() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let gateway = start(ONE_AN_HOUR, &upstream.url(), data.path());
    let mut client = gateway.connect();
    report(&mut client, "acme", "");
    let [first, second] = [(); 2].map(|()| deferred(&mut client, "acme", ""));
    let call = |method: &str, place: &str| -> (u16, Value) {
        gateway.admin(method, &format!("/v1/deferred/{}", id(place)))
    };
    assert_eq!(call("DELETE", &first).0, 200);
    assert_eq!(told(&gateway, &first)["state"], "cancelled");
    assert_eq!(told(&gateway, &second)["position"], 0, "it moved up");
    assert_eq!(call("DELETE", &first).0, 409);
    let (code, shown) = call("GET", &second);
    assert_eq!((code, &shown["key"], &shown["target"]), (200, &"acme".into(), &"/report".into()));
    assert_eq!(call("GET", "/0123456789abcdef0123456789abcdef").0, 404);
    assert_eq!(gateway.admin("GET", "/v1/deferred?state=lost").0, 400);
    let (_, all) = gateway.admin("GET", "/v1/deferred?limit=1");
    assert_eq!(all["deferred"][0]["id"], id(&second), "the newest first");
}

#[test]
fn a_dead_letter_expires_also_if_the_server_restarts() {
    let status = Arc::new(AtomicU16::new(503));
    let upstream = answering(&status);
    let data = tempfile::tempdir().unwrap();
    let set_up = |config: &mut tollgate_server::Config| {
        let defer = &mut config.gateway.as_mut().unwrap().defer;
        (defer.attempts, defer.keep_dead) = (1, Duration::from_millis(1));
    };
    let gateway = start_as(QUICK, &upstream.url(), data.path(), |config| {
        config.gateway.as_mut().unwrap().defer.attempts = 1;
    });
    let mut client = gateway.connect();
    let place = until_kept(|| report(&mut client, "acme", ""));
    until_state(&gateway, &place, "failed");
    drop(client);
    gateway.stop().join().unwrap();
    let gateway = start_as(QUICK, &upstream.url(), data.path(), set_up);
    assert_eq!(gateway.connect().get(&place).status(), 404);
    assert_eq!(gateway.metric("tollgate_deferred{state=\"failed\"}"), 0);
}
