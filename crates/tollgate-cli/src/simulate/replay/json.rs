//! The result of a replay as one JSON object. Field names are a contract.

use std::io::Write;

use serde::Serialize;

use super::key_denials::KeyDenials;
use super::rule_set_run::RuleSetRun;
use super::{MalformedLine, Replay};
use crate::log::rfc3339;

#[derive(Serialize)]
struct ReplayReport<'a> {
    log: LogReport<'a>,
    candidate: RulesReport<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<RulesReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<ChangeReport<'a>>,
}

#[derive(Serialize)]
struct LogReport<'a> {
    name: &'a str,
    requests: u64,
    from: Option<String>,
    to: Option<String>,
    late: u64,
    not_understood: u64,
    first_not_understood: &'a [MalformedLine],
}

#[derive(Serialize)]
struct RulesReport<'a> {
    name: &'a str,
    allowed: u64,
    denied: u64,
    shadow_denied: u64,
    unmatched: u64,
    rules: Vec<RuleReport<'a>>,
    denied_keys: KeyListReport<'a>,
    shadow_denied_keys: KeyListReport<'a>,
}

#[derive(Serialize)]
struct RuleReport<'a> {
    rule: &'a str,
    asked: u64,
    denied: u64,
    shadow_denied: u64,
}

#[derive(Serialize)]
struct KeyListReport<'a> {
    /// The number of keys; with `partial`, of those that are still counted.
    count: usize,
    partial: bool,
    top: Vec<KeyReport<'a>>,
}

#[derive(Serialize)]
struct KeyReport<'a> {
    rule: &'a str,
    key: &'a str,
    denied: u64,
    first: String,
    last: String,
}

#[derive(Serialize)]
struct ChangeReport<'a> {
    newly_denied: u64,
    no_longer_denied: u64,
    newly_denied_keys: KeyListReport<'a>,
    no_longer_denied_keys: KeyListReport<'a>,
}

/// Writes the result of a replay.
pub(super) fn write(out: &mut impl Write, replay: &Replay<'_>) -> anyhow::Result<()> {
    let (facts, top) = (&replay.facts, replay.args.top);
    let report = ReplayReport {
        log: LogReport {
            name: &facts.name,
            requests: facts.requests,
            from: facts.first_us.map(rfc3339),
            to: facts.first_us.map(|_| rfc3339(facts.last_us)),
            late: facts.late,
            not_understood: facts.not_understood,
            first_not_understood: &facts.shown,
        },
        candidate: rules(&replay.candidate, top),
        current: replay.current.as_ref().map(|side| rules(side, top)),
        change: replay.current.as_ref().map(|_| ChangeReport {
            newly_denied: replay.change.newly_denied,
            no_longer_denied: replay.change.no_longer_denied,
            newly_denied_keys: keys(&replay.change.newly, top),
            no_longer_denied_keys: keys(&replay.change.no_longer, top),
        }),
    };
    serde_json::to_writer(&mut *out, &report)?;
    Ok(writeln!(out)?)
}

fn rules(side: &RuleSetRun, top: usize) -> RulesReport<'_> {
    let tally = &side.tally;
    RulesReport {
        name: &side.name,
        allowed: tally.total.allowed,
        denied: tally.total.denied,
        shadow_denied: tally.shadow,
        unmatched: tally.unmatched,
        rules: tally
            .rules
            .iter()
            .map(|(rule, counts)| RuleReport {
                rule,
                asked: counts.matched,
                denied: counts.denied,
                shadow_denied: counts.shadow,
            })
            .collect(),
        denied_keys: keys(&tally.denied, top),
        shadow_denied_keys: keys(&tally.shadowed, top),
    }
}

fn keys(keys: &KeyDenials, top: usize) -> KeyListReport<'_> {
    KeyListReport {
        count: keys.len(),
        partial: keys.is_partial(),
        top: keys
            .top(top)
            .into_iter()
            .map(|(rule_key, times)| KeyReport {
                rule: &rule_key.rule,
                key: &rule_key.key,
                denied: times.count,
                first: rfc3339(times.first_us),
                last: rfc3339(times.last_us),
            })
            .collect(),
    }
}
