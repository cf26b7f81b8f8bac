//! Everybody on one Redis, in rounds that all of them share.

use std::time::Duration;

use serde_json::{Value, json};

use super::bench::Bench;
use super::drive::{Amount, IN_FLIGHT};
use super::entry::{BARE, Entry, ONE, THREE, line_up};
use super::sample::Sample;
use crate::measure::{median, try_interleave};
use crate::options::Options;
use crate::report::{Table, rate};
use crate::sections::Section;
use crate::targets::Target;

/// What strict decisions may take of the processor time of a bare EVALSHA.
const TARGETS: [(&str, f64); 2] = [(ONE, 1.3), (THREE, 1.6)];

pub(crate) fn run(bench: &Bench, options: &Options) -> Result<Section, String> {
    let mut entries = line_up(bench)?;
    for entry in &mut entries {
        entry.warm(bench)?;
    }
    let amount = Amount::Time(Duration::from_secs(options.seconds as u64));
    try_interleave("redis", options.rounds, &mut entries, |entry| entry.round(bench, amount))?;
    Ok(Section {
        title: format!(
            "One Redis 7.0, {IN_FLIGHT} decisions in flight where nothing else is said: per decision \
             commands sent, µs of Redis (of it inside commands) and of the client"
        ),
        table: table(&entries),
        targets: targets(&entries),
        figures: json!({ "side_by_side": entries.iter().map(as_json).collect::<Vec<_>>() }),
    })
}

fn table(entries: &[Entry]) -> Table {
    let heads = ["", "", "commands", "Redis", "(commands)", "client", "decisions/s", "p50 µs"];
    let mut table = Table::new(heads.into_iter().chain(["p99 µs", "in flight"]));
    for entry in entries {
        let client = entry.samples.iter().filter_map(Sample::client_us);
        let client = median(client);
        table.row([
            entry.name.to_owned(),
            if entry.denied { "denied" } else { "allowed" }.to_owned(),
            format!("{:.2}", entry.commands),
            format!("{:.2}", entry.median(Sample::cpu_us)),
            format!("({:.2})", entry.median(Sample::commands_us)),
            if client.is_nan() { "-".to_owned() } else { format!("{client:.2}") },
            rate(entry.median(Sample::per_second)),
            format!("{:.0}", entry.median(|sample| sample.asked.p50_us)),
            format!("{:.0}", entry.median(|sample| sample.asked.p99_us)),
            entry.in_flight().to_string(),
        ]);
    }
    table
}

fn targets(entries: &[Entry]) -> Vec<Target> {
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

fn as_json(entry: &Entry) -> Value {
    json!({
        "name": entry.name,
        "denied": entry.denied,
        "in_flight": entry.in_flight(),
        "commands": entry.commands,
        "redis_us": entry.median(Sample::cpu_us),
        "redis_us_rounds": entry.samples.iter().map(Sample::cpu_us).collect::<Vec<_>>(),
        "in_commands_us": entry.median(Sample::commands_us),
        "client_us": entry.samples.first().and_then(Sample::client_us),
        "per_second": entry.median(Sample::per_second),
        "p50_us": entry.median(|sample| sample.asked.p50_us),
        "p99_us": entry.median(|sample| sample.asked.p99_us),
    })
}
