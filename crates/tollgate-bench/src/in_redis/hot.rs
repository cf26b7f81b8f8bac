//! One hot key on several nodes: what leases save, and what refusals cost.

use serde_json::{Value, json};
use tollgate::Consistency::{self, Leased, Strict};

use super::bench::Bench;
use super::drive::{Amount, drive};
use super::limit::{Daily, TIGHT};
use super::sample::{Asked, commands_during};
use super::subject::Subject;
use crate::report::Table;
use crate::sections::Section;
use crate::targets::Target;

/// Nodes that share the key.
const NODES: usize = 4;
const DECISIONS: usize = 10_000;
/// Asked before anything is counted, where everybody is to be refused: enough for all nodes to learn
/// that the key is exhausted.
const LEARNED: usize = 1_000;

/// More than is asked for.
const PLENTY: Daily = Daily(100 * DECISIONS as u64);
/// Half of what is asked for.
const HALF: Daily = Daily(DECISIONS as u64 / 2);

/// A mode and a limit, and what they showed.
struct Case {
    name: String,
    /// Commands about the key.
    commands: u64,
    asked: Asked,
    /// How many more passed than the limit allows.
    overshoot: f64,
}

impl Case {
    /// Lets new nodes decide about a new key.
    fn run(bench: &Bench, consistency: Consistency, limit: Daily) -> Result<Case, String> {
        let (outcome, before) = match limit {
            PLENTY => ("all allowed", 0),
            HALF => ("half allowed", 0),
            _ => ("all refused", LEARNED),
        };
        let name = format!("{consistency:?}, {outcome}").to_lowercase();
        Case::ask(bench, &name, consistency, limit, before)
            .map_err(|error| format!("{name}: {error}"))
    }

    fn ask(
        bench: &Bench,
        name: &str,
        consistency: Consistency,
        limit: Daily,
        before: usize,
    ) -> Result<Case, String> {
        let (url, key) = (bench.redis.url(), name.replace([',', ' '], "-"));
        let keys = vec![key.clone(); DECISIONS];
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            let limits = [limit];
            let node = Subject::tollgate(&url, "hot", &limits, consistency);
            nodes.push(bench.runtime.block_on(node)?);
        }
        let decide = |count| bench.runtime.block_on(drive(&nodes, &keys[..count], Amount::Keys));
        decide(before)?;
        let mut asked = None;
        let commands = commands_during(&bench.redis, &key, || {
            asked = Some(decide(DECISIONS)?);
            Ok(())
        })?;
        let asked = asked.ok_or("nobody asked")?;
        let most = if before > 0 { 0.0 } else { limit.most_in(asked.seconds) };
        let overshoot = (asked.allowed - most).max(0.0);
        Ok(Case { name: name.to_owned(), commands, asked, overshoot })
    }

    fn as_json(&self) -> Value {
        json!({
            "case": self.name,
            "round_trips": self.commands,
            "allowed": self.asked.allowed,
            "overshoot": self.overshoot,
            "p50_us": self.asked.p50_us,
            "p99_us": self.asked.p99_us,
        })
    }
}

pub(crate) fn run(bench: &Bench) -> Result<Section, String> {
    let pair = |limit| -> Result<[Case; 2], String> {
        Ok([Case::run(bench, Strict, limit)?, Case::run(bench, Leased, limit)?])
    };
    let [plenty, half, refused] = [pair(PLENTY)?, pair(HALF)?, pair(TIGHT)?];
    let wanted = plenty[0].commands as f64 / 50.0;
    let mut targets = vec![Target {
        what: "round trips, hot key, leased (at most strict / 50)".to_owned(),
        measured: Some(plenty[1].commands as f64),
        most: wanted,
    }];
    let mut none = |what: &str, case: &Case, measured: f64| {
        let what = format!("{what}, hot key, {}", case.name);
        targets.push(Target { what, measured: Some(measured), most: 0.0 });
    };
    half.iter().for_each(|case| none("allowed beyond the limit", case, case.overshoot));
    refused.iter().for_each(|case| none("round trips", case, case.commands as f64));

    let cases: Vec<Case> = [plenty, half, refused].into_iter().flatten().collect();
    let mut table = Table::new(["", "round trips", "allowed", "beyond", "p50 µs", "p99 µs"]);
    for Case { name, commands, asked, overshoot } in &cases {
        table.row([
            name.clone(),
            commands.to_string(),
            asked.allowed.to_string(),
            overshoot.to_string(),
            format!("{:.1}", asked.p50_us),
            format!("{:.1}", asked.p99_us),
        ]);
    }
    let figures = json!({ "hot": cases.iter().map(Case::as_json).collect::<Vec<_>>() });
    let title = format!("One hot key on {NODES} nodes, {DECISIONS} decisions");
    Ok(Section { title, table, targets, figures })
}
