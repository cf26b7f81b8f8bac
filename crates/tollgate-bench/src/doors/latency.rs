//! How long answers take at 70 % load: 50 connections, requests that leave when they are due.
//!
//! Two loads, because «70 %» can be read in two ways. *Together*: everyone gets the same requests,
//! 70 % of what the fastest peer can do; this is what a user who changes servers sees, and what the
//! target is about. *Own*: everyone gets 70 % of what it can do itself, so that the fastest works
//! hardest.

use std::time::Duration;

use serde_json::{Value, json};

use super::ask::{Ask, Door, ask};
use super::lineup::Kind;
use super::server::Server;
use super::traffic::{Heard, Pace, Traffic};
use crate::measure::{median, try_interleave};
use crate::options::Options;
use crate::report::{self, Table};
use crate::sections::Section;
use crate::targets::Target;

const LOAD: f64 = 0.7;

const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// A server, what it can do, and what each round showed at the two loads.
struct Entry<'a> {
    server: &'a Server,
    ask: Ask,
    per_second: f64,
    together: Vec<[f64; 3]>,
    own: Vec<[f64; 3]>,
}

impl Entry<'_> {
    fn run(&self, door: Door, pace: Pace, seconds: u64) -> Result<Heard, String> {
        let requests = match pace {
            Pace::AtOnce => u64::MAX,
            Pace::PerSecond(rate) => (rate * seconds as f64) as u64,
        };
        let traffic = Traffic {
            address: self.server.address(door),
            ask: &self.ask,
            connections: 50,
            pace,
            // A server that falls behind is not waited for.
            at_most: (Duration::from_secs(seconds), requests),
        };
        let name = self.server.kind.name();
        let heard = traffic.run().map_err(|error| format!("{name}: {error}"))?;
        if heard.failed > 0 {
            return Err(format!("{name}: {} requests failed", heard.failed));
        }
        Ok(heard)
    }

    fn percentiles(&self, door: Door, rate: f64, seconds: u64) -> Result<[f64; 3], String> {
        let heard = self.run(door, Pace::PerSecond(rate), seconds)?;
        Ok(PERCENTILES.map(|percentile| heard.at(percentile)))
    }
}

/// Measures all servers behind a door.
pub(crate) fn run(door: Door, servers: &[Server], options: &Options) -> Result<Section, String> {
    let seconds = options.seconds as u64;
    let mut entries = Vec::new();
    for server in servers {
        let Some(ask) = ask(server.kind, door, false) else { continue };
        let (together, own) = (Vec::new(), Vec::new());
        let mut entry = Entry { server, ask, per_second: 0.0, together, own };
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

fn section(door: Door, rate: f64, entries: &[Entry]) -> Section {
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
    let p99 = |entry: &Entry| entry.together.iter().map(|round| round[1]).collect::<Vec<_>>();
    let ours = entries.iter().find(|entry| entry.server.kind == Kind::Tollgate).map(p99);
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

fn as_json(entry: &Entry) -> Value {
    json!({
        "server": entry.server.kind.name(),
        "most_per_second": entry.per_second,
        "percentiles": PERCENTILES,
        "together_us": middle(&entry.together),
        "own_us": middle(&entry.own),
    })
}

/// The median over rounds of each percentile.
fn middle(rounds: &[[f64; 3]]) -> [f64; 3] {
    [0, 1, 2].map(|which| median(rounds.iter().map(|round| round[which])))
}
