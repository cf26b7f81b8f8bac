//! The order of deferred requests.

use tollgate_rig::Upstream;

use super::support::{ONE_A_SECOND, ONE_AN_HOUR, deferred, report, start, told, until};

#[test]
fn a_key_is_served_first_in_first_out_and_others_do_not_wait_for_it() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let rules = "
rules:
  - { name: report, route: POST /report, per: 'header[\"x-org\"]', limit: 10/s burst 1, then: defer }
  - { name: slow, route: POST /report, when: 'header[\"x-org\"] == \"slow\"', limit: 1/h, then: defer }
";
    let gateway = start(rules, &upstream.url(), data.path());
    let mut client = gateway.connect();
    for org in ["slow", "slow", "slow", "quick"] {
        report(&mut client, org, "before");
    }
    for number in 0..8 {
        report(&mut client, "quick", &number.to_string());
    }
    until("all of them", || upstream.count() == 10);
    let quick =
        upstream.requests().into_iter().filter(|seen| seen.header("x-org") == Some("quick"));
    let order: Vec<String> = quick.skip(1).map(|seen| seen.text()).collect();
    assert_eq!(order, ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

#[test]
fn newcomers_go_behind_those_who_wait() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let gateway = start(ONE_A_SECOND, &upstream.url(), data.path());
    let mut client = gateway.connect();
    report(&mut client, "acme", "0");
    let places = [1, 2].map(|number| deferred(&mut client, "acme", &number.to_string()));
    // Later requests never overtake the deferred ones.
    let mut number = 3;
    while told(&gateway, &places[1])["state"] == "queued" {
        let answer = report(&mut client, "acme", &number.to_string());
        assert_eq!(answer.status(), 202, "it went before those who wait");
        number += 1;
    }
    until("the second", || upstream.count() >= 3);
    let order: Vec<String> = upstream.requests().iter().take(3).map(|seen| seen.text()).collect();
    assert_eq!(order, ["0", "1", "2"]);
}

#[test]
fn positions_are_told() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let gateway = start(ONE_AN_HOUR, &upstream.url(), data.path());
    let mut client = gateway.connect();
    report(&mut client, "acme", "");
    let places = [(); 3].map(|()| deferred(&mut client, "acme", ""));
    let positions = places.map(|place| told(&gateway, &place)["position"].as_u64().unwrap());
    assert_eq!(positions, [0, 1, 2]);
    assert_eq!(report(&mut client, "other", "").status(), 200, "another key has its own limit");
    assert!(gateway.metric("tollgate_deferred{state=\"queued\"}") == 3);
}
