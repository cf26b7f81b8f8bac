//! Credential stuffing: an attacker tries stolen passwords, and a user mistypes one.

use std::io::Write;
use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate_rig::{AfterResponse, Upstream, WebClient};

use crate::support::start_with;

const RULES: &str = "
trusted_proxies: [127.0.0.1]
rules:
  - name: login
    route: POST /login/**
    per: ip
    limit: 5/min fixed
    count: response.status in [401, 403]
    then: ban [1min, 10min, 1h] after 3 denials in 1min
";

/// Knows one password.
fn login() -> Upstream {
    Upstream::answering(|request, stream| {
        let status = if request.target() == "/login/right" { 200 } else { 401 };
        let answer = format!("HTTP/1.1 {status} Told\r\nContent-Length: 0\r\n\r\n");
        match stream.write_all(answer.as_bytes()) {
            Ok(()) => AfterResponse::Keep,
            Err(_) => AfterResponse::Close,
        }
    })
}

/// The status, and when to come back, of an attempt from an address.
fn attempt(client: &mut WebClient, from: &str, password: &str) -> (u16, Option<u64>, String) {
    let target = format!("/login/{password}");
    let answer = client.send("POST", &target, &[("X-Forwarded-For", from)], "");
    let retry = answer.header("retry-after").map(|seconds| seconds.parse().unwrap());
    (answer.status(), retry, answer.text())
}

#[test]
fn who_tries_passwords_climbs_the_ladder_and_who_mistypes_does_not() {
    let clock = ManualClock::new();
    let upstream = login();
    let set_up = |config: &mut tollgate_server::Config| config.clock = Some((&clock).into());
    let gateway = start_with(RULES, &[&upstream.url()], set_up);
    let mut client = gateway.connect();
    let (thief, person) = ("198.51.100.66", "203.0.113.7");
    for (round, minutes) in [(0, 1), (1, 10), (2, 60), (3, 60)] {
        // Five wrong passwords are tried; the sixth attempt does not get through, whatever it is.
        let statuses = [(); 7].map(|()| attempt(&mut client, thief, "guess").0);
        assert_eq!(statuses, [401, 401, 401, 401, 401, 429, 429], "round {round}");
        let (status, retry, problem) = attempt(&mut client, thief, "right");
        assert_eq!((status, retry), (429, Some(minutes * 60)), "round {round}: {problem}");
        assert!(problem.contains("abnormal-usage-detected"), "{problem}");
        // A person mistypes twice, and is in.
        let statuses = ["worng", "wrogn", "right"].map(|it| attempt(&mut client, person, it).0);
        assert_eq!(statuses, [401, 401, 200], "round {round}");
        clock.advance(Duration::from_secs(minutes * 60));
    }
    assert_eq!(gateway.metric("tollgate_bans_total{domain=\"default\",rule=\"login\"}"), 4);
    assert_eq!(gateway.metric("tollgate_banned_keys"), 0, "the last one is over");
}
