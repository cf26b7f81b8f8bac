//! One hot key on several nodes: the savings of leases, and the cost of refusals.

use serde_json::{Value, json};
use tollgate::Consistency::{self, Leased, Strict};

use super::bench::RedisBench;
use super::callers::{Amount, drive};
use super::limit::{DailyLimit, TIGHT};
use super::sample::{CallerStats, commands_during};
use super::subject::RedisSubject;
use crate::report::Table;
use crate::sections::Section;
use crate::targets::Target;

/// Nodes that share the key.
const NODES: usize = 4;
const DECISIONS: usize = 10_000;
/// Decisions before anything is counted, so that all nodes know that the key is exhausted.
const WARM_UP: usize = 1_000;

/// A limit above the number of decisions.
const PLENTY: DailyLimit = DailyLimit(100 * DECISIONS as u64);
/// A limit of half the number of decisions.
const HALF: DailyLimit = DailyLimit(DECISIONS as u64 / 2);

/// A mode with a limit, and its results.
struct HotKeyCase {
    name: String,
    /// The number of commands about the key.
    commands: u64,
    stats: CallerStats,
    /// The number of decisions allowed beyond the limit.
    overshoot: f64,
}

impl HotKeyCase {
    /// Makes decisions about a new key on new nodes.
    fn run(
        bench: &RedisBench,
        consistency: Consistency,
        limit: DailyLimit,
    ) -> Result<HotKeyCase, String> {
        let (outcome, before) = match limit {
            PLENTY => ("all allowed", 0),
            HALF => ("half allowed", 0),
            _ => ("all refused", WARM_UP),
        };
        let name = format!("{consistency:?}, {outcome}").to_lowercase();
        HotKeyCase::measure(bench, &name, consistency, limit, before)
            .map_err(|error| format!("{name}: {error}"))
    }

    fn measure(
        bench: &RedisBench,
        name: &str,
        consistency: Consistency,
        limit: DailyLimit,
        before: usize,
    ) -> Result<HotKeyCase, String> {
        let (url, key) = (bench.redis.url(), name.replace([',', ' '], "-"));
        let keys = vec![key.clone(); DECISIONS];
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            let limits = [limit];
            let node = RedisSubject::tollgate(&url, "hot", &limits, consistency);
            nodes.push(bench.runtime.block_on(node)?);
        }
        let decide = |count| bench.runtime.block_on(drive(&nodes, &keys[..count], Amount::AllKeys));
        decide(before)?;
        let mut stats = None;
        let commands = commands_during(&bench.redis, &key, || {
            stats = Some(decide(DECISIONS)?);
            Ok(())
        })?;
        let stats = stats.ok_or("there were no decisions")?;
        let most = if before > 0 { 0.0 } else { limit.most_in(stats.seconds) };
        let overshoot = (stats.allowed - most).max(0.0);
        Ok(HotKeyCase { name: name.to_owned(), commands, stats, overshoot })
    }

    fn as_json(&self) -> Value {
        json!({
            "case": self.name,
            "round_trips": self.commands,
            "allowed": self.stats.allowed,
            "overshoot": self.overshoot,
            "p50_us": self.stats.p50_us,
            "p99_us": self.stats.p99_us,
        })
    }
}

pub(crate) fn run(bench: &RedisBench) -> Result<Section, String> {
    let pair = |limit| -> Result<[HotKeyCase; 2], String> {
        Ok([HotKeyCase::run(bench, Strict, limit)?, HotKeyCase::run(bench, Leased, limit)?])
    };
    let [plenty, half, refused] = [pair(PLENTY)?, pair(HALF)?, pair(TIGHT)?];
    let wanted = plenty[0].commands as f64 / 50.0;
    let mut targets = vec![Target {
        what: "round trips, hot key, leased (at most strict / 50)".to_owned(),
        measured: Some(plenty[1].commands as f64),
        most: wanted,
    }];
    let mut none = |what: &str, case: &HotKeyCase, measured: f64| {
        let what = format!("{what}, hot key, {}", case.name);
        targets.push(Target { what, measured: Some(measured), most: 0.0 });
    };
    half.iter().for_each(|case| none("allowed beyond the limit", case, case.overshoot));
    refused.iter().for_each(|case| none("round trips", case, case.commands as f64));

    let cases: Vec<HotKeyCase> = [plenty, half, refused].into_iter().flatten().collect();
    let mut table = Table::new(["", "round trips", "allowed", "beyond", "p50 µs", "p99 µs"]);
    for HotKeyCase { name, commands, stats, overshoot } in &cases {
        table.row([
            name.clone(),
            commands.to_string(),
            stats.allowed.to_string(),
            overshoot.to_string(),
            format!("{:.1}", stats.p50_us),
            format!("{:.1}", stats.p99_us),
        ]);
    }
    let figures = json!({ "hot": cases.iter().map(HotKeyCase::as_json).collect::<Vec<_>>() });
    let title = format!("One hot key on {NODES} nodes, {DECISIONS} decisions");
    Ok(Section { title, table, targets, figures })
}
