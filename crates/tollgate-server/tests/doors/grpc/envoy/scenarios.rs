//! The scenarios of the integration tests of envoyproxy/ratelimit, with limits and an Envoy
//! configuration of our own. Windows end because the clock is moved, not because a test waits.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use tollgate::Time;
use tollgate::testing::ManualClock;
use tollgate_server::Config;

use super::setup::{EnvoyResponse, get, until};
use crate::support::{DEADLINE, Program, TestServer, free_port, server_program, start_with};

const LIMITS: &str = include_str!("scenarios.limits.yaml");

/// An Envoy in front of two services, whose rate limit service is this server.
struct Scenario {
    server: TestServer,
    clock: ManualClock,
    proxy: SocketAddr,
    _envoy: Program,
    _folder: tempfile::TempDir,
}

impl Scenario {
    fn start() -> Scenario {
        Scenario::configured(|_| {})
    }

    fn configured(set_up: impl FnOnce(&mut Config)) -> Scenario {
        // 12:00:07.5: no window of a minute ends unless the clock is moved.
        let clock = ManualClock::at(Time::from_nanos(1_767_268_807_500_000_000));
        let server = start_with(LIMITS, |config| {
            config.clock = Some((&clock).into());
            set_up(config);
        });
        let [proxy, first, second] =
            [(); 3].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
        let mut text = include_str!("scenarios.envoy.yaml").to_owned();
        for (name, address) in
            [("PROXY", proxy), ("FIRST", first), ("SECOND", second), ("RLS", server.grpc())]
        {
            text = text.replace(&format!("{name}_PORT"), &address.port().to_string());
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("envoy.yaml");
        std::fs::write(&path, text).unwrap();
        let mut command = server_program("envoy");
        command.arg("-c").arg(&path).args(["--concurrency", "1", "--disable-hot-restart"]);
        command.args(["--log-level", "error"]);
        let envoy = Program::start(&mut command, proxy);
        let scenario = Scenario { server, clock, proxy, _envoy: envoy, _folder: folder };
        // Envoy lets requests pass until it has reached the server.
        until(|| scenario.page(&[("x-user", "probe"), ("x-page", "closed")]) == 429);
        scenario
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> EnvoyResponse {
        get(self.proxy, path, headers)
    }

    fn page(&self, headers: &[(&str, &str)]) -> u16 {
        self.get("/page", headers).code
    }

    /// Sends a request of a user and a page between two services.
    fn hop(&self, user: &str, page: &str, to: &str) -> u16 {
        let headers = [("x-user", user), ("x-page", page), ("x-from", "web"), ("x-to", to)];
        self.get("/hop", &headers).code
    }

    /// Sends a request of an important user.
    fn vip(&self, user: &str, page: &str, to: &str) -> u16 {
        let headers = [
            ("x-user", user),
            ("x-page", page),
            ("x-from", "web"),
            ("x-to", to),
            ("x-tier", "vip"),
        ];
        self.get("/tier", &headers).code
    }

    /// Returns the value of a metric, or 0 if it is absent.
    fn metric(&self, series: &str) -> u64 {
        let text = get(self.server.http(), "/metrics", &[]).body;
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0, |value| value.parse().unwrap())
    }

    /// Waits until a service has so many hits, which Envoy sends when a response ends.
    fn wait_for_hits(&self, service: &str, hits: u64) {
        let labels = format!("domain=\"shop\",key1=\"service_{service}\"");
        let series = format!("ratelimit_service_rate_limit_total_hits{{{labels}}}");
        until(|| self.metric(&series) == hits);
    }
}

/// The scenario `simple-get`.
#[test]
fn a_request_within_its_limits_passes() {
    let scenario = Scenario::start();
    assert_eq!(scenario.page(&[("x-user", "ann"), ("x-job", "watched")]), 200);
}

/// The scenario `trigger-ratelimit`.
#[test]
fn the_fourth_request_of_a_limit_of_three_is_refused() {
    let scenario = Scenario::start();
    let headers = [("x-user", "ann"), ("x-job", "steady")];
    let codes: Vec<u16> = (0..5).map(|_| scenario.page(&headers)).collect();
    assert_eq!(codes, [200, 200, 200, 429, 429]);
}

/// The scenario `trigger-shadow-mode-key`.
#[test]
fn a_limit_in_shadow_mode_lets_everything_pass() {
    let scenario = Scenario::start();
    let headers = [("x-user", "ann"), ("x-job", "watched")];
    let replies: Vec<EnvoyResponse> = (0..6).map(|_| scenario.get("/page", &headers)).collect();
    assert!(replies.iter().all(|reply| reply.code == 200));
    assert_eq!(replies[5].header("x-ratelimit-remaining"), Some("0"));
    let labels = "{domain=\"shop\",key1=\"user\",key2=\"job_watched\"}";
    let hits = ["total_hits", "over_limit", "near_limit", "within_limit", "shadow_mode"]
        .map(|name| scenario.metric(&format!("ratelimit_service_rate_limit_{name}{labels}")));
    assert_eq!(hits, [6, 3, 1, 3, 3]);
}

/// The scenario `replaces`.
#[test]
fn a_limit_replaces_others_without_charging_them() {
    let scenario = Scenario::start();
    // A limit of 0 is replaced by one of 2.
    assert_eq!(scenario.page(&[("x-user", "ann"), ("x-page", "closed")]), 429);
    assert_eq!(scenario.hop("ann", "closed", "api"), 429);
    assert_eq!([0; 3].map(|_| scenario.hop("ann", "closed", "relief")), [200, 200, 429]);
    // The replaced limit of 1 is not charged.
    assert_eq!([0; 3].map(|_| scenario.hop("bob", "single", "double")), [200, 200, 429]);
    assert_eq!([0; 2].map(|_| scenario.hop("bob", "single", "elsewhere")), [200, 429]);
    assert_eq!(scenario.hop("bob", "single", "double"), 429);
    // One limit replaces two.
    assert_eq!([0; 5].map(|_| scenario.vip("bob", "single", "pair")), [200, 200, 200, 200, 429]);
    let carl = [("x-user", "carl"), ("x-page", "single")];
    assert_eq!([0; 2].map(|_| scenario.page(&carl)), [200, 429]);
    assert_eq!([0; 3].map(|_| scenario.hop("dora", "other", "pair")), [200, 200, 429]);
    assert_eq!(scenario.vip("bob", "single", "pair"), 429);
}

/// The scenario `value-included-in-stats-key-when-unspecified`.
#[test]
fn a_detailed_metric_has_the_value_of_the_request() {
    let statsd = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = statsd.local_addr().unwrap().to_string();
    let scenario = Scenario::configured(|config| {
        config.telemetry.statsd = Some(address.parse().unwrap());
        config.telemetry.statsd_interval = Duration::from_millis(20);
    });
    let codes = [0; 3].map(|_| scenario.get("/model", &[("x-model", "large")]).code);
    assert_eq!(codes, [200, 200, 429]);
    let labels = "{domain=\"shop\",key1=\"model_large\"}";
    let over = format!("ratelimit_service_rate_limit_over_limit{labels}");
    assert_eq!(scenario.metric(&over), 1);
    // The same arrives at a statsd server.
    let stream = statsd.accept().unwrap().0;
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut lines = BufReader::new(stream).lines();
    let expected = "ratelimit.service.rate_limit.shop.model_large.over_limit:1|c";
    assert!(lines.any(|line| line.unwrap() == expected));
}

/// The scenario `quota`.
#[test]
fn quotas_refuse_once_all_of_them_are_spent() {
    let scenario = Scenario::start();
    let codes = || [0; 3].map(|_| scenario.get("/quota", &[]).code);
    assert_eq!(codes(), [200, 200, 429]);
    scenario.clock.advance(Duration::from_secs(60));
    assert_eq!(codes(), [200, 200, 429]);
}

/// The scenario `token-quota`.
#[test]
fn a_quota_is_charged_when_the_response_ends() {
    let scenario = Scenario::start();
    let mut hits = 0;
    for _ in 0..2 {
        for _ in 0..3 {
            assert_eq!(scenario.get("/tokens", &[]).code, 200);
            hits += 1;
            scenario.wait_for_hits("second", hits);
        }
        // Only the response of a request charges the quota, so the fourth is the first refused.
        assert_eq!(scenario.get("/tokens", &[]).code, 429);
        hits += 1;
        scenario.wait_for_hits("second", hits);
        scenario.clock.advance(Duration::from_secs(60));
    }
}

/// The scenario `multiservice-tokenquota`.
#[test]
fn requests_go_to_the_service_that_has_quota_left() {
    let scenario = Scenario::start();
    let served = || {
        let reply = scenario.get("/services", &[]);
        (reply.code, reply.body.trim().strip_prefix("served by ").map(str::to_owned))
    };
    let (mut first, mut second) = (0, 0);
    for expected in ["first", "first", "second", "second", "second"] {
        assert_eq!(served(), (200, Some(expected.to_owned())));
        let hits = if expected == "first" { &mut first } else { &mut second };
        *hits += 1;
        scenario.wait_for_hits(expected, *hits);
    }
    assert_eq!(served().0, 429);
    scenario.clock.advance(Duration::from_secs(60));
    assert_eq!(served(), (200, Some("first".to_owned())));
}
