//! Traces of nginx: `limit_req` is a meter that shapes, `limit_conn` a concurrency limit.
//!
//! The "excess" of nginx is the debt beyond the one request being served, in thousandths, with the
//! leak truncated to whole thousandths at every request. Ours is exact, so it may be up to one
//! thousandth less.

mod vectors;

use tollgate_core::{
    Algorithm, Concurrency, ConcurrencyState, MAX_FILL, Meter, MeterState, Span, Time,
};
use vectors::{Step, Vector, int, load, text};

struct Zone {
    name: String,
    rate_milli: u64,
    meter: Meter,
    state: Option<MeterState>,
}

impl Zone {
    fn new(limit: &serde_json::Value) -> Zone {
        let (rate_milli, burst) = (int(limit, "rate_milli_per_s"), int(limit, "burst"));
        let meter = Meter::new(rate_milli, Span::from_secs(1000), burst + 1).unwrap();
        let meter = match limit["delay"].as_u64() {
            Some(delay) => meter.smooth_after(delay + 1),
            None => meter,
        };
        Zone { name: text(limit, "zone"), rate_milli, meter, state: None }
    }

    /// Returns the debt of a charged state beyond one request, in thousandths, rounded up.
    fn excess_milli(&self, state: MeterState, now: Time) -> u64 {
        let owed_ns = state.parts().0 - now.as_nanos();
        let milli = u128::from(owed_ns) * u128::from(self.rate_milli);
        milli.div_ceil(1_000_000_000) as u64 - 1000
    }
}

#[test]
fn every_trace_matches_upstream() {
    for vector in load("nginx.json") {
        assert!(!vector.known_upstream_bug, "{}", vector.id);
        match vector.id.starts_with("nginx/limit_conn/") {
            true => limit_conn(&vector),
            false => limit_req(&vector),
        }
    }
}

fn limit_req(vector: &Vector) {
    let mut zones: Vec<Zone> =
        vector.config["limits"].as_array().unwrap().iter().map(Zone::new).collect();
    if vector.id.ends_with("empty_key_not_limited") {
        // The trace sent an empty key (its `args` do not show it): a rule whose key has no
        // value yields no check, so no zone decides.
        zones.clear();
    }
    // The clock of nginx never goes back by less than a minute, so the latest time counts.
    let mut latest = Time::EPOCH;
    for (n, step) in vector.steps.iter().enumerate() {
        let what = format!("{} step {n}", vector.id);
        assert_eq!(step.op, "request", "{what}");
        latest = latest.max(Time::from_nanos(step.at));
        request(&mut zones, step, latest, &what);
    }
}

fn request(zones: &mut [Zone], step: &Step, latest: Time, what: &str) {
    let now = Time::from_nanos(step.at);
    let mut charged = Vec::new();
    let mut decided: Option<(usize, bool, Span)> = None;
    for (n, zone) in zones.iter().enumerate() {
        let mut state = zone.state.unwrap_or_else(|| zone.meter.fresh(now));
        let verdict = zone.meter.attempt(&mut state, now, 1, Span::ZERO);
        charged.push(state);
        // The first zone that refuses decides; otherwise the one with the longest delay.
        let weight = (!verdict.allowed, verdict.wait);
        if decided.is_none_or(|(_, refused, wait)| !refused && weight > (refused, wait)) {
            decided = Some((n, weight.0, weight.1));
        }
    }
    let status = match decided {
        None => "NONE",
        Some((_, true, _)) => "REJECTED",
        Some((_, false, Span::ZERO)) => "PASSED",
        Some(_) => "DELAYED",
    };
    assert_eq!(status, text(&step.expect, "status"), "{what}: status");
    if let ("REJECTED" | "DELAYED", Some((n, _, wait))) = (status, decided) {
        let theirs = int(&step.expect, "excess_milli");
        let ours = zones[n].excess_milli(charged[n], latest);
        assert!(ours == theirs || ours + 1 == theirs, "{what}: excess {ours}, not {theirs}");
        assert_eq!(zones[n].name, text(&step.expect, "zone"), "{what}: zone");
        if status == "DELAYED" {
            assert_eq!(wait, Span::from_millis(int(&step.expect, "delay_ms")), "{what}: delay");
        }
    }
    if status != "REJECTED" {
        zones.iter_mut().zip(charged).for_each(|(zone, state)| zone.state = Some(state));
    }
}

fn limit_conn(vector: &Vector) {
    let directive = text(&vector.config, "directive");
    let most = directive.trim_start_matches("limit_conn c ").trim_end_matches(';');
    // A connection of nginx has no lease: it lasts until it is closed.
    let limit = Concurrency::new(most.parse().unwrap(), MAX_FILL).unwrap();
    let mut state = ConcurrencyState::default();
    for (n, step) in vector.steps.iter().enumerate() {
        let what = format!("{} step {n}", vector.id);
        let (now, conn) = (Time::from_nanos(step.at), int(&step.args, "conn"));
        match step.op.as_str() {
            "open" => {
                let allowed = limit.acquire(&mut state, now, 1, conn).allowed;
                let answer = if allowed { ("PASSED", 200) } else { ("REJECTED", 503) };
                let expect = (text(&step.expect, "status"), int(&step.expect, "http"));
                assert_eq!(answer, (expect.0.as_str(), expect.1), "{what}");
            }
            "close" => assert!(limit.release(&mut state, now, conn), "{what}"),
            other => panic!("{what}: unknown call {other}"),
        }
    }
}
