//! Tests of what is told about decisions.

use tollgate::{Limiter, Request};

use super::*;

fn telemetry() -> Arc<Telemetry> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let telemetry = runtime.block_on(async { Telemetry::new(&TelemetryOptions::default()) });
    // The task that moves the second on is gone with its runtime: tests do it.
    let telemetry = telemetry.unwrap();
    telemetry.tick(0);
    telemetry
}

fn ask(telemetry: &Telemetry, limiter: &tollgate::rules::RuleLimiter, user: &str, times: usize) {
    for _ in 0..times {
        let decision = limiter.decide(&Request::empty().attribute("user", user));
        telemetry.decided(DoorName::Http, &decision, 1, Span::ZERO);
    }
}

fn keys(telemetry: &Telemetry, by: By) -> Vec<String> {
    let (top, _) = telemetry.top(by, None, 3);
    top.iter().map(|noise| noise.to_json()["key"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn top_knows_the_busy_the_refused_and_the_growing() {
    let telemetry = telemetry();
    let limiter =
        Limiter::from_rules("rules: [{ name: api, per: user, limit: 100/h }]".parse().unwrap());
    ask(&telemetry, &limiter, "steady", 300);
    ask(&telemetry, &limiter, "quiet", 10);
    telemetry.tick(60);
    ask(&telemetry, &limiter, "steady", 290);
    ask(&telemetry, &limiter, "new", 90);
    telemetry.tick(119);
    assert_eq!(keys(&telemetry, By::Requests), ["steady", "new", "quiet"]);
    assert_eq!(keys(&telemetry, By::Denied), ["steady"]);
    assert_eq!(keys(&telemetry, By::Growth), ["new"]);
    telemetry.tick(300);
    assert!(keys(&telemetry, By::Requests).is_empty(), "forgotten after two minutes");
}

#[test]
fn a_skewed_load_shows_its_heavy_hitters_although_most_of_it_is_not_looked_at() {
    fastrand::seed(7);
    let telemetry = telemetry();
    let limiter =
        Limiter::from_rules("rules: [{ name: api, per: user, limit: 1/h }]".parse().unwrap());
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..200_000 {
        let user = match random.u32(..10) {
            0 | 1 => "loud".to_owned(),
            2 => "louder than most".to_owned(),
            _ => random.u32(..50_000).to_string(),
        };
        ask(&telemetry, &limiter, &user, 1);
    }
    let (top, _) = telemetry.top(By::Requests, Some("default"), 2);
    let top: Vec<_> = top.iter().map(Noise::to_json).collect();
    assert_eq!((&top[0]["key"], &top[1]["key"]), (&"loud".into(), &"louder than most".into()));
    let loud = top[0]["requests"].as_u64().unwrap();
    assert!((30_000..45_000).contains(&loud), "{loud} of about 40,000");
}

#[test]
fn counters_say_how_often_and_how_long() {
    let telemetry = telemetry();
    let limiter = Limiter::from_rules(
        "domain: shop\nrules: [{ name: api, per: user, limit: 2/h }]".parse().unwrap(),
    );
    ask(&telemetry, &limiter, "ann", 5);
    telemetry.took(DoorName::Resp, 4, Span::from_nanos(4 * 300));
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
