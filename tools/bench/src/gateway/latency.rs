//! Latency when all proxies get the same load: half of what the slowest can serve.
//!
//! Requests are sent when they are due.

use std::time::Duration;

use serde_json::{Value, json};

use super::proxies::{Proxy, ProxyKind};
use super::upstream::Upstream;
use crate::doors::decision_request::DecisionRequest;
use crate::doors::traffic::{Pace, Traffic, TrafficStats};
use crate::measure::{median, try_interleave};
use crate::options::Options;
use crate::report::{self, Table};
use crate::sections::Section;
use crate::targets::Target;

const LOAD: f64 = 0.5;

const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// Returns a GET that the limit allows, with the placeholder of a key that every request has.
pub(super) fn allowed_request() -> DecisionRequest {
    DecisionRequest::Http { method: "GET", target: "/?__rand_int__", body: String::new() }
}

/// A proxy, its maximum rate, and the percentiles of each round.
struct ProxyLatency<'a> {
    proxy: &'a Proxy,
    per_second: f64,
    rounds: Vec<[f64; 3]>,
}

impl ProxyLatency<'_> {
    fn run(
        &self,
        upstream: &mut Upstream,
        pace: Pace,
        seconds: u64,
    ) -> Result<TrafficStats, String> {
        let requests = match pace {
            Pace::AtOnce => u64::MAX,
            Pace::PerSecond(rate) => (rate * seconds as f64) as u64,
        };
        let request = allowed_request();
        let traffic = Traffic {
            address: self.proxy.address,
            request: &request,
            connections: 50,
            pace,
            // A proxy that falls behind is not waited for.
            at_most: (Duration::from_secs(seconds), requests),
        };
        let name = self.proxy.kind.name();
        let stats = traffic.run_alongside(|| upstream.turn(Duration::ZERO));
        let stats = stats.map_err(|error| format!("{name}: {error}"))?;
        if stats.failed + stats.denied > 0 {
            return Err(format!("{name}: {} requests failed", stats.failed + stats.denied));
        }
        Ok(stats)
    }
}

/// Measures all proxies.
pub(super) fn run(
    proxies: &[Proxy],
    upstream: &mut Upstream,
    options: &Options,
) -> Result<Section, String> {
    let seconds = options.seconds as u64;
    let mut entries = Vec::new();
    for proxy in proxies {
        let mut entry = ProxyLatency { proxy, per_second: 0.0, rounds: Vec::new() };
        entry.per_second = entry.run(upstream, Pace::AtOnce, seconds)?.per_second();
        entries.push(entry);
    }
    let rate = LOAD * entries.iter().map(|entry| entry.per_second).fold(f64::MAX, f64::min);
    try_interleave("proxies at one rate", options.rounds, &mut entries, |entry| {
        let stats = entry.run(upstream, Pace::PerSecond(rate), seconds)?;
        entry.rounds.push(PERCENTILES.map(|percentile| stats.percentile_us(percentile)));
        Ok(())
    })?;
    Ok(section(rate, &entries))
}

fn section(rate: f64, entries: &[ProxyLatency]) -> Section {
    let at = format!("at {}/s", report::rate(rate));
    let mut table = Table::new(["", "most/s", at.as_str()]);
    for entry in entries {
        table.row([
            entry.proxy.kind.name().to_owned(),
            report::rate(entry.per_second),
            middle(&entry.rounds).map(|us| format!("{us:.0}")).join(" · "),
        ]);
    }
    let p99 = |kind: ProxyKind| {
        let entry = entries.iter().find(|entry| entry.proxy.kind == kind)?;
        Some(median(entry.rounds.iter().map(|round| round[1])))
    };
    let against = |peer: ProxyKind| Target {
        what: format!("p99 of tollgate / {} {at}", peer.name()),
        measured: p99(ProxyKind::Tollgate).zip(p99(peer)).map(|(ours, theirs)| ours / theirs),
        most: 1.0,
    };
    Section {
        title: "50 connections: p50 · p99 · p99.9 in µs".to_owned(),
        table,
        targets: [ProxyKind::Envoy, ProxyKind::Traefik].map(against).into(),
        figures: json!({
            "latency": {
                "per_second": rate,
                "proxies": entries.iter().map(as_json).collect::<Vec<_>>(),
            }
        }),
    }
}

fn as_json(entry: &ProxyLatency) -> Value {
    json!({
        "proxy": entry.proxy.kind.name(),
        "most_per_second": entry.per_second,
        "percentiles": PERCENTILES,
        "us": middle(&entry.rounds),
    })
}

/// Returns the median over rounds of each percentile.
fn middle(rounds: &[[f64; 3]]) -> [f64; 3] {
    [0, 1, 2].map(|which| median(rounds.iter().map(|round| round[which])))
}
