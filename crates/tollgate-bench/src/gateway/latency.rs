//! How long answers take when everyone gets the same requests: half of what the slowest can do.
//! They leave when they are due.

use std::time::Duration;

use serde_json::{Value, json};

use super::lineup::{Kind, Proxy};
use super::upstream::Upstream;
use crate::doors::ask::Ask;
use crate::doors::traffic::{Heard, Pace, Traffic};
use crate::measure::{median, try_interleave};
use crate::options::Options;
use crate::report::{self, Table};
use crate::sections::Section;
use crate::targets::Target;

const LOAD: f64 = 0.5;

const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// A GET that a limit lets through, with the place of a key in it as every question has one.
pub(super) fn ask() -> Ask {
    Ask::Http { method: "GET", target: "/?__rand_int__", body: String::new() }
}

/// A proxy, what it can do, and what each round showed.
struct Entry<'a> {
    proxy: &'a Proxy,
    per_second: f64,
    rounds: Vec<[f64; 3]>,
}

impl Entry<'_> {
    fn run(&self, upstream: &mut Upstream, pace: Pace, seconds: u64) -> Result<Heard, String> {
        let requests = match pace {
            Pace::AtOnce => u64::MAX,
            Pace::PerSecond(rate) => (rate * seconds as f64) as u64,
        };
        let ask = ask();
        let traffic = Traffic {
            address: self.proxy.address,
            ask: &ask,
            connections: 50,
            pace,
            // Who falls behind is not waited for.
            at_most: (Duration::from_secs(seconds), requests),
        };
        let name = self.proxy.kind.name();
        let heard = traffic.run_beside(|| upstream.turn(Duration::ZERO));
        let heard = heard.map_err(|error| format!("{name}: {error}"))?;
        if heard.failed + heard.denied > 0 {
            return Err(format!("{name}: {} requests failed", heard.failed + heard.denied));
        }
        Ok(heard)
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
        let mut entry = Entry { proxy, per_second: 0.0, rounds: Vec::new() };
        entry.per_second = entry.run(upstream, Pace::AtOnce, seconds)?.per_second();
        entries.push(entry);
    }
    let rate = LOAD * entries.iter().map(|entry| entry.per_second).fold(f64::MAX, f64::min);
    try_interleave("proxies at one rate", options.rounds, &mut entries, |entry| {
        let heard = entry.run(upstream, Pace::PerSecond(rate), seconds)?;
        entry.rounds.push(PERCENTILES.map(|percentile| heard.at(percentile)));
        Ok(())
    })?;
    Ok(section(rate, &entries))
}

fn section(rate: f64, entries: &[Entry]) -> Section {
    let at = format!("at {}/s", report::rate(rate));
    let mut table = Table::new(["", "most/s", at.as_str()]);
    for entry in entries {
        table.row([
            entry.proxy.kind.name().to_owned(),
            report::rate(entry.per_second),
            middle(&entry.rounds).map(|us| format!("{us:.0}")).join(" · "),
        ]);
    }
    let p99 = |kind: Kind| {
        let entry = entries.iter().find(|entry| entry.proxy.kind == kind)?;
        Some(median(entry.rounds.iter().map(|round| round[1])))
    };
    let against = |peer: Kind| Target {
        what: format!("p99 of tollgate / {} {at}", peer.name()),
        measured: p99(Kind::Tollgate).zip(p99(peer)).map(|(ours, theirs)| ours / theirs),
        most: 1.0,
    };
    Section {
        title: "50 connections: p50 · p99 · p99.9 in µs".to_owned(),
        table,
        targets: [Kind::Envoy, Kind::Traefik].map(against).into(),
        figures: json!({
            "latency": {
                "per_second": rate,
                "proxies": entries.iter().map(as_json).collect::<Vec<_>>(),
            }
        }),
    }
}

fn as_json(entry: &Entry) -> Value {
    json!({
        "proxy": entry.proxy.kind.name(),
        "most_per_second": entry.per_second,
        "percentiles": PERCENTILES,
        "us": middle(&entry.rounds),
    })
}

/// The median over rounds of each percentile.
fn middle(rounds: &[[f64; 3]]) -> [f64; 3] {
    [0, 1, 2].map(|which| median(rounds.iter().map(|round| round[which])))
}
