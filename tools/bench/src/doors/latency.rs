//! Latency at 70 % load: 50 connections, requests that are sent when they are due.
//!
//! There are two loads, because "70 %" has two meanings. *Together*: every server gets the same requests,
//! 70 % of the maximum of the fastest peer; a user who changes servers sees this, and the target refers to
//! it. *Own*: every server gets 70 % of its own maximum, so that the fastest works hardest.

use std::time::Duration;

use serde_json::{Value, json};

use super::decision_request::{DecisionRequest, Door, decision_request};
use super::server::Server;
use super::servers::ServerKind;
use super::traffic::{Pace, Traffic, TrafficStats};
use crate::measure::{median, try_interleave};
use crate::options::Options;
use crate::report::{self, Table};
use crate::sections::Section;
use crate::targets::Target;

const LOAD: f64 = 0.7;

const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// A server, its maximum rate, and the percentiles of each round at the two loads.
struct ServerLatency<'a> {
    server: &'a Server,
    request: DecisionRequest,
    per_second: f64,
    together: Vec<[f64; 3]>,
    own: Vec<[f64; 3]>,
}

impl ServerLatency<'_> {
    fn run(&self, door: Door, pace: Pace, seconds: u64) -> Result<TrafficStats, String> {
        let requests = match pace {
            Pace::AtOnce => u64::MAX,
            Pace::PerSecond(rate) => (rate * seconds as f64) as u64,
        };
        let traffic = Traffic {
            address: self.server.address(door),
            request: &self.request,
            connections: 50,
            pace,
            // A server that falls behind is not waited for.
            at_most: (Duration::from_secs(seconds), requests),
        };
        let name = self.server.kind.name();
        let stats = traffic.run().map_err(|error| format!("{name}: {error}"))?;
        if stats.failed > 0 {
            return Err(format!("{name}: {} requests failed", stats.failed));
        }
        Ok(stats)
    }

    fn percentiles(&self, door: Door, rate: f64, seconds: u64) -> Result<[f64; 3], String> {
        let stats = self.run(door, Pace::PerSecond(rate), seconds)?;
        Ok(PERCENTILES.map(|percentile| stats.percentile_us(percentile)))
    }
}

/// Measures all servers behind a door.
pub(crate) fn run(door: Door, servers: &[Server], options: &Options) -> Result<Section, String> {
    let seconds = options.seconds as u64;
    let mut entries = Vec::new();
    for server in servers {
        let Some(request) = decision_request(server.kind, door, false) else { continue };
        let (together, own) = (Vec::new(), Vec::new());
        let mut entry = ServerLatency { server, request, per_second: 0.0, together, own };
        entry.per_second = entry.run(door, Pace::AtOnce, seconds)?.per_second();
        entries.push(entry);
    }
    let peers = entries.iter().filter(|entry| entry.server.kind.is_peer());
    let fastest = peers.map(|entry| entry.per_second).fold(0.0, f64::max);
    let rate = LOAD * fastest;
    let what = format!("{} at 70 %", door.name());
    try_interleave(&what, options.rounds, &mut entries, |entry| {
        let together = entry.percentiles(door, rate, seconds)?;
        let own = entry.percentiles(door, LOAD * entry.per_second, seconds)?;
        entry.together.push(together);
        entry.own.push(own);
        Ok(())
    })?;
    Ok(section(door, rate, &entries))
}

fn section(door: Door, rate: f64, entries: &[ServerLatency]) -> Section {
    let together = format!("at {}/s", report::rate(rate));
    let mut table = Table::new(["", "most/s", together.as_str(), "at 70 % of its own"]);
    for entry in entries {
        let shown = |rounds: &[[f64; 3]]| middle(rounds).map(|us| format!("{us:.0}")).join(" · ");
        table.row([
            entry.server.kind.name().to_owned(),
            report::rate(entry.per_second),
            shown(&entry.together),
            shown(&entry.own),
        ]);
    }
    let p99 =
        |entry: &ServerLatency| entry.together.iter().map(|round| round[1]).collect::<Vec<_>>();
    let ours = entries.iter().find(|entry| entry.server.kind == ServerKind::Tollgate).map(p99);
    let peers = entries.iter().filter(|entry| entry.server.kind.is_peer()).map(p99);
    let best = peers.min_by(|a, b| median(a.clone()).total_cmp(&median(b.clone())));
    let ratio = ours
        .zip(best)
        .map(|(ours, best)| median(ours.iter().zip(&best).map(|(ours, best)| ours / best)));
    Section {
        title: format!("{}, 50 connections: p50 · p99 · p99.9 in µs", door.name()),
        table,
        targets: vec![Target {
            what: format!("{}, p99 of tollgate / the best peer's {together}", door.name()),
            measured: ratio,
            most: 1.0,
        }],
        figures: json!({
            format!("{}_latency", door.name()): {
                "together_per_second": rate,
                "servers": entries.iter().map(as_json).collect::<Vec<_>>(),
            }
        }),
    }
}

fn as_json(entry: &ServerLatency) -> Value {
    json!({
        "server": entry.server.kind.name(),
        "most_per_second": entry.per_second,
        "percentiles": PERCENTILES,
        "together_us": middle(&entry.together),
        "own_us": middle(&entry.own),
    })
}

/// Returns the median over rounds of each percentile.
fn middle(rounds: &[[f64; 3]]) -> [f64; 3] {
    [0, 1, 2].map(|which| median(rounds.iter().map(|round| round[which])))
}
