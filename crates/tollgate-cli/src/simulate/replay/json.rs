//! What a log came to, for programs: one object. Names are a contract.

use std::io::Write;

use serde::Serialize;

use super::keys::Keys;
use super::side::Side;
use super::{NotUnderstood, Replay};
use crate::log::rfc3339;

#[derive(Serialize)]
struct Report<'a> {
    log: Log<'a>,
    candidate: Rules<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<Rules<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<Change<'a>>,
}

#[derive(Serialize)]
struct Log<'a> {
    name: &'a str,
    requests: u64,
    from: Option<String>,
    to: Option<String>,
    late: u64,
    not_understood: u64,
    first_not_understood: &'a [NotUnderstood],
}

#[derive(Serialize)]
struct Rules<'a> {
    name: &'a str,
    allowed: u64,
    denied: u64,
    shadow_denied: u64,
    unmatched: u64,
    rules: Vec<Rule<'a>>,
    denied_keys: KeyList<'a>,
    shadow_denied_keys: KeyList<'a>,
}

#[derive(Serialize)]
struct Rule<'a> {
    rule: &'a str,
    asked: u64,
    denied: u64,
    shadow_denied: u64,
}

#[derive(Serialize)]
struct KeyList<'a> {
    /// How many there were; with `partial`, are remembered.
    count: usize,
    partial: bool,
    top: Vec<Key<'a>>,
}

#[derive(Serialize)]
struct Key<'a> {
    rule: &'a str,
    key: &'a str,
    denied: u64,
    first: String,
    last: String,
}

#[derive(Serialize)]
struct Change<'a> {
    newly_denied: u64,
    no_longer_denied: u64,
    newly_denied_keys: KeyList<'a>,
    no_longer_denied_keys: KeyList<'a>,
}

pub(super) fn write(out: &mut impl Write, replay: &Replay<'_>) -> anyhow::Result<()> {
    let (facts, top) = (&replay.facts, replay.args.top);
    let report = Report {
        log: Log {
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
        change: replay.current.as_ref().map(|_| Change {
            newly_denied: replay.change.newly_denied,
            no_longer_denied: replay.change.no_longer_denied,
            newly_denied_keys: keys(&replay.change.newly, top),
            no_longer_denied_keys: keys(&replay.change.no_longer, top),
        }),
    };
    serde_json::to_writer(&mut *out, &report)?;
    Ok(writeln!(out)?)
}

fn rules(side: &Side, top: usize) -> Rules<'_> {
    let tally = &side.tally;
    Rules {
        name: &side.name,
        allowed: tally.total.allowed,
        denied: tally.total.denied,
        shadow_denied: tally.shadow,
        unmatched: tally.unmatched,
        rules: tally
            .rules
            .iter()
            .map(|(rule, counts)| Rule {
                rule,
                asked: counts.asked,
                denied: counts.denied,
                shadow_denied: counts.shadow,
            })
            .collect(),
        denied_keys: keys(&tally.denied, top),
        shadow_denied_keys: keys(&tally.shadowed, top),
    }
}

fn keys(keys: &Keys, top: usize) -> KeyList<'_> {
    KeyList {
        count: keys.len(),
        partial: keys.is_partial(),
        top: keys
            .top(top)
            .into_iter()
            .map(|(who, times)| Key {
                rule: &who.rule,
                key: &who.key,
                denied: times.count,
                first: rfc3339(times.first_us),
                last: rfc3339(times.last_us),
            })
            .collect(),
    }
}
