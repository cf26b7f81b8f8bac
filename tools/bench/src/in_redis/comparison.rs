//! All limiters on one Redis, in interleaved rounds.

use std::time::Duration;

use serde_json::{Value, json};

use super::bench::RedisBench;
use super::callers::{Amount, IN_FLIGHT};
use super::limiter_entry::{BARE, LimiterEntry, ONE, THREE, limiter_entries};
use super::sample::RedisSample;
use crate::measure::{median, try_interleave};
use crate::options::Options;
use crate::report::{Table, rate};
use crate::sections::Section;
use crate::targets::Target;

/// The most processor time of strict decisions, relative to a bare EVALSHA.
const TARGETS: [(&str, f64); 2] = [(ONE, 1.3), (THREE, 1.6)];

pub(crate) fn run(bench: &RedisBench, options: &Options) -> Result<Section, String> {
    let mut entries = limiter_entries(bench)?;
    for entry in &mut entries {
        entry.warm(bench)?;
    }
    let amount = Amount::Time(Duration::from_secs(options.seconds as u64));
    try_interleave("redis", options.rounds, &mut entries, |entry| entry.round(bench, amount))?;
    Ok(Section {
        title: format!(
            "One Redis 7.0, {IN_FLIGHT} decisions in flight where nothing else is output: per decision \
             commands sent, µs of Redis (of it inside commands) and of the client"
        ),
        table: table(&entries),
        targets: targets(&entries),
        figures: json!({ "side_by_side": entries.iter().map(as_json).collect::<Vec<_>>() }),
    })
}

fn table(entries: &[LimiterEntry]) -> Table {
    let heads = ["", "", "commands", "Redis", "(commands)", "client", "decisions/s", "p50 µs"];
    let mut table = Table::new(heads.into_iter().chain(["p99 µs", "in flight"]));
    for entry in entries {
        let client = entry.samples.iter().filter_map(RedisSample::client_us);
        let client = median(client);
        table.row([
            entry.name.to_owned(),
            if entry.denied { "denied" } else { "allowed" }.to_owned(),
            format!("{:.2}", entry.commands),
            format!("{:.2}", entry.median(RedisSample::cpu_us)),
            format!("({:.2})", entry.median(RedisSample::commands_us)),
            if client.is_nan() { "-".to_owned() } else { format!("{client:.2}") },
            rate(entry.median(RedisSample::per_second)),
            format!("{:.0}", entry.median(|sample| sample.stats.p50_us)),
            format!("{:.0}", entry.median(|sample| sample.stats.p99_us)),
            entry.in_flight().to_string(),
        ]);
    }
    table
}

fn targets(entries: &[LimiterEntry]) -> Vec<Target> {
    let mut targets = Vec::new();
    for (name, most) in TARGETS {
        for denied in [false, true] {
            let find = |name: &str| {
                entries.iter().find(|entry| entry.name == name && entry.denied == denied)
            };
            let outcome = if denied { "denied" } else { "allowed" };
            let ratio = find(name).zip(find(BARE)).map(|(ours, bare)| {
                let rounds = ours.samples.iter().zip(&bare.samples);
                median(rounds.map(|(ours, bare)| ours.cpu_us() / bare.cpu_us()))
            });
            let what = format!("CPU of Redis, {name} / {BARE}, {outcome}");
            targets.push(Target { what, measured: ratio, most });
            let commands = find(name).map(|entry| entry.commands);
            let what = format!("round trips, {name}, {outcome}");
            targets.push(Target { what, measured: commands, most: 1.0 });
        }
    }
    targets
}

fn as_json(entry: &LimiterEntry) -> Value {
    json!({
        "name": entry.name,
        "denied": entry.denied,
        "in_flight": entry.in_flight(),
        "commands": entry.commands,
        "redis_us": entry.median(RedisSample::cpu_us),
        "redis_us_rounds": entry.samples.iter().map(RedisSample::cpu_us).collect::<Vec<_>>(),
        "in_commands_us": entry.median(RedisSample::commands_us),
        "client_us": entry.samples.first().and_then(RedisSample::client_us),
        "per_second": entry.median(RedisSample::per_second),
        "p50_us": entry.median(|sample| sample.stats.p50_us),
        "p99_us": entry.median(|sample| sample.stats.p99_us),
    })
}
