//! Tests of the telemetry.

use tollgate_rules::{Request, RuleLimiter};

use super::*;

fn telemetry() -> Arc<Telemetry> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let telemetry = runtime.block_on(async { Telemetry::new(&TelemetryOptions::default()) });
    // The ticking task ended with its runtime, so that the tests call `tick` themselves.
    let telemetry = telemetry.unwrap();
    telemetry.tick(0);
    telemetry
}

fn decide(telemetry: &Telemetry, limiter: &tollgate_rules::RuleLimiter, user: &str, times: usize) {
    for _ in 0..times {
        let decision = limiter.decide_now(&Request::empty().attribute("user", user));
        telemetry.record_decision(DoorName::Http, &decision, 1, Span::ZERO);
    }
}

fn keys(telemetry: &Telemetry, by: TopOrder) -> Vec<String> {
    let (top, _) = telemetry.top(by, None, 3);
    top.iter().map(|key| key.to_json()["key"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn top_sorts_by_requests_refusals_and_growth() {
    let telemetry = telemetry();
    let limiter = RuleLimiter::new(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: 100/h }]".parse().unwrap(),
    );
    decide(&telemetry, &limiter, "steady", 300);
    decide(&telemetry, &limiter, "quiet", 10);
    telemetry.tick(60);
    decide(&telemetry, &limiter, "steady", 290);
    decide(&telemetry, &limiter, "new", 90);
    telemetry.tick(119);
    assert_eq!(keys(&telemetry, TopOrder::Requests), ["steady", "new", "quiet"]);
    assert_eq!(keys(&telemetry, TopOrder::Denied), ["steady"]);
    assert_eq!(keys(&telemetry, TopOrder::Growth), ["new"]);
    telemetry.tick(300);
    assert!(keys(&telemetry, TopOrder::Requests).is_empty(), "forgotten after two minutes");
}

#[test]
fn sampling_finds_the_heavy_hitters_of_a_skewed_load() {
    fastrand::seed(7);
    let telemetry = telemetry();
    let limiter = RuleLimiter::new(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: 1/h }]".parse().unwrap(),
    );
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..200_000 {
        let user = match random.u32(..10) {
            0 | 1 => "loud".to_owned(),
            2 => "louder than most".to_owned(),
            _ => random.u32(..50_000).to_string(),
        };
        decide(&telemetry, &limiter, &user, 1);
    }
    let (top, _) = telemetry.top(TopOrder::Requests, Some("default"), 2);
    let top: Vec<_> = top.iter().map(TopKey::to_json).collect();
    assert_eq!((&top[0]["key"], &top[1]["key"]), (&"loud".into(), &"louder than most".into()));
    let loud = top[0]["requests"].as_u64().unwrap();
    assert!((30_000..45_000).contains(&loud), "{loud} of about 40,000");
}

#[test]
fn counters_and_histograms_are_exposed() {
    let telemetry = telemetry();
    let limiter = RuleLimiter::new(
        "domain: shop\nattributes: [user]\nrules: [{ name: api, per: user, limit: 2/h }]"
            .parse()
            .unwrap(),
    );
    decide(&telemetry, &limiter, "ann", 5);
    telemetry.record_duration(DoorName::Resp, 4, Span::from_nanos(4 * 300));
    let mut text = Exposition::default();
    telemetry.report(&mut text);
    let text = text.into_text();
    for line in [
        "tollgate_decisions_total{domain=\"shop\",rule=\"api\",outcome=\"allowed\"} 2",
        "tollgate_decisions_total{domain=\"shop\",rule=\"api\",outcome=\"denied\"} 3",
        "tollgate_decision_seconds_bucket{door=\"resp\",le=\"0.000000256\"} 0",
        "tollgate_decision_seconds_bucket{door=\"resp\",le=\"0.000000512\"} 4",
        "tollgate_decision_seconds_sum{door=\"resp\"} 0.0000012",
        "tollgate_decision_seconds_count{door=\"resp\"} 4",
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\n{text}");
    }
}

const SHADOWED: &str = "
attributes: [user]
rules:
  - { name: all, limit: 100/h }
  - { name: candidate, per: user, limit: 1/h, mode: shadow }
  - { name: stricter, per: user, limit: 1/h, mode: shadow }
";

/// Returns the samples of decisions, without their name and shared labels.
fn samples(telemetry: &Telemetry) -> Vec<String> {
    let mut text = Exposition::default();
    telemetry.report(&mut text);
    let text = text.into_text();
    let samples = text.lines().filter_map(|line| line.strip_prefix("tollgate_decisions_total"));
    let mut samples: Vec<String> =
        samples.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect();
    samples.sort();
    samples
}

/// A denial of a shadow rule used to be counted and shown under the rule that let the request pass.
#[test]
fn shadow_denials_are_reported_under_their_own_rule_and_key() {
    let telemetry = telemetry();
    let limiter = RuleLimiter::new(SHADOWED.parse().unwrap());
    let tail = telemetry.subscribe(EventFilter::default()).unwrap();
    decide(&telemetry, &limiter, "ann", 3);
    assert_eq!(
        samples(&telemetry),
        [
            r#"{domain="default",rule="all",outcome="allowed"} 3"#,
            r#"{domain="default",rule="candidate",outcome="shadow_denied"} 2"#,
            r#"{domain="default",rule="stricter",outcome="shadow_denied"} 2"#,
        ]
    );
    drop(tail);
    let (top, _) = telemetry.top(TopOrder::Requests, None, 9);
    let mut shown: Vec<String> = top
        .iter()
        .map(|key| key.to_json())
        .map(|key| format!("{} {}", key["rule"].as_str().unwrap(), key["key"].as_str().unwrap()))
        .collect();
    shown.sort();
    assert_eq!(shown, ["all ", "candidate ann", "stricter ann"]);
}

/// Shadow denials over gRPC used to be reported as allowed.
#[test]
fn shadow_denials_over_grpc_are_reported() {
    use tollgate_rules::envoy::{self, Descriptor};
    const FILE: &str = "
domain: shop
descriptors:
  - { key: watched, shadow_mode: true, rate_limit: { name: slow, unit: hour, requests_per_unit: 1 } }
";
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let entries = [("watched", "x"), ("user", "ann")];
    let cases = [(FILE, "shop", &entries[..1]), (SHADOWED, "default", &entries[1..])];
    for (rules, domain, entries) in cases {
        let telemetry = telemetry();
        let limiter = RuleLimiter::new(rules.parse().unwrap());
        let descriptors = [Descriptor::new(entries)];
        let request = RateLimitRequest::new(domain, &descriptors);
        for _ in 0..3 {
            let answer = runtime.block_on(envoy::decide(&limiter, &request)).unwrap();
            telemetry.record_envoy_response(DoorName::Grpc, &request, &answer);
        }
        let samples = samples(&telemetry);
        let shadow = samples.iter().filter(|sample| sample.ends_with(r#""shadow_denied"} 2"#));
        let allowed = samples.iter().filter(|sample| sample.ends_with(r#""allowed"} 3"#));
        let expected = if domain == "shop" { 1 } else { 2 };
        assert_eq!((shadow.count(), allowed.count()), (expected, 1), "{samples:?}");
        assert!(!samples.iter().any(|sample| sample.contains(r#"rule="all",outcome="shadow"#)));
    }
}
