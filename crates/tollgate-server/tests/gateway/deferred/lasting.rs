//! What is kept outlives the process.

use std::time::Duration;

use tollgate_rig::{AfterResponse, Upstream};

use super::support::{
    ONE_AN_HOUR, QUICK, deferred, report, start, start_as, told, until, until_state,
};

#[test]
fn who_waits_goes_on_waiting_after_a_restart() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let gateway = start(ONE_AN_HOUR, &upstream.url(), data.path());
    let mut client = gateway.connect();
    report(&mut client, "acme", "0");
    let places = [1, 2, 3].map(|number| deferred(&mut client, "acme", &number.to_string()));
    drop(client);
    gateway.stop().join().unwrap();
    assert_eq!(upstream.count(), 1);

    let gateway = start(QUICK, &upstream.url(), data.path());
    for place in &places {
        until_state(&gateway, place, "done");
    }
    let order: Vec<String> = upstream.requests().iter().map(|seen| seen.text()).collect();
    assert_eq!(order, ["0", "1", "2", "3"]);
}

#[test]
fn what_was_sent_before_a_restart_counts_after_it() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let rules = "rules: [{ name: report, route: POST /report, per: 'header[\"x-org\"]', limit: 3/h burst 3, then: defer }]";
    let other = rules.replace("3/h burst 3", "1/h");
    let gateway = start(&other, &upstream.url(), data.path());
    let mut client = gateway.connect();
    report(&mut client, "acme", "direct");
    let places = [1, 2, 3].map(|number| deferred(&mut client, "acme", &number.to_string()));
    // Under other rules two of them are sent: the direct one counts there too.
    gateway.write_rules(rules);
    gateway.stop().join().unwrap();

    let gateway = start(rules, &upstream.url(), data.path());
    until_state(&gateway, &places[0], "done");
    until_state(&gateway, &places[1], "done");
    gateway.stop().join().unwrap();

    let before = upstream.count();
    let gateway = start(rules, &upstream.url(), data.path());
    // A server that forgot the two would have sent it before it answers this.
    let mut client = gateway.connect();
    assert_eq!(report(&mut client, "acme", "").status(), 202);
    assert_eq!(report(&mut client, "other", "").status(), 200);
    until("the one of another key", || upstream.count() > before);
    assert_eq!(told(&gateway, &places[2])["state"], "queued");
    assert_eq!(upstream.count(), before + 1);
}

#[test]
fn what_is_on_its_way_is_finished_while_the_server_goes_down() {
    let (began, begun) = std::sync::mpsc::channel();
    let (go, going) = std::sync::mpsc::channel::<()>();
    let (began, going) = (std::sync::Mutex::new(began), std::sync::Mutex::new(going));
    let upstream = Upstream::answering(move |request, stream| {
        if request.header("tollgate-deferred").is_some() {
            began.lock().unwrap().send(()).unwrap();
            let _ = going.lock().unwrap().recv_timeout(Duration::from_secs(20));
        }
        use std::io::Write;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        AfterResponse::Keep
    });
    let data = tempfile::tempdir().unwrap();
    let gateway = start(QUICK, &upstream.url(), data.path());
    let mut client = gateway.connect();
    let place = loop {
        let answer = report(&mut client, "acme", "");
        if let Some(place) = answer.header("location") {
            break place.to_owned();
        }
    };
    begun.recv_timeout(crate::DEADLINE).unwrap();
    drop(client);
    let stopping = gateway.stop();
    go.send(()).unwrap();
    stopping.join().unwrap();
    let count = upstream.count();

    let gateway = start(QUICK, &upstream.url(), data.path());
    assert_eq!(told(&gateway, &place)["state"], "done");
    assert_eq!(upstream.count(), count, "it is not sent twice");
}

#[test]
fn a_damaged_database_is_put_aside_and_one_that_is_not_ours_left_alone() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("deferred.db");
    std::fs::write(&path, "no database at all, whatever its name says".repeat(50)).unwrap();
    let gateway = start(ONE_AN_HOUR, &upstream.url(), data.path());
    assert!(data.path().join("deferred.damaged").exists());
    let mut client = gateway.connect();
    report(&mut client, "acme", "");
    deferred(&mut client, "acme", "");
    drop(client);
    gateway.stop().join().unwrap();

    std::fs::copy(data.path().join("rules.db"), &path).unwrap();
    let url = upstream.url();
    let failed = std::panic::catch_unwind(|| {
        start_as(ONE_AN_HOUR, &url, data.path(), |_| {});
    });
    let why = failed.unwrap_err();
    let why = why.downcast_ref::<String>().unwrap();
    assert!(why.contains("not a database of deferred requests"), "{why}");
}
