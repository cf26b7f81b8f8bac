//! The explanation as text.

use std::io::{self, Write};

use tollgate_rules::{Explanation, LimitExplanation, RuleExplanation, Rules};

use crate::style::{Style, Tone};
use crate::table::{Align, Cell, Table};
use crate::text;

/// Writes an explanation.
pub(super) fn write(
    out: &mut impl Write,
    style: Style,
    explanation: &Explanation,
    rules: &Rules,
) -> io::Result<()> {
    let summary = format!("{} ({})", explanation.summary, explanation.code);
    let tone = if explanation.allowed { Tone::Allowed } else { Tone::Denied };
    write!(out, "{}", style.tone(tone, summary))?;
    match (&explanation.domain, &explanation.rule) {
        (Some(domain), Some(rule)) => writeln!(out, ", decided by {rule} of the domain {domain}"),
        (Some(domain), None) => writeln!(out, ", in the domain {domain}"),
        (None, _) => {
            let names: Vec<&str> = rules.domain_names().collect();
            writeln!(out, ": no such domain; write domain=… with one of {}", names.join(", "))
        }
    }?;
    let (matching, others): (Vec<_>, Vec<_>) =
        explanation.rules.iter().partition(|rule| rule.matches);
    for rule in &matching {
        writeln!(out)?;
        write_rule(out, style, rule, explanation)?;
    }
    for rule in matching.iter().filter(|rule| !rule.missing.is_empty()) {
        let note = format!(
            "{}: the request lacks {}; all such requests share one counter.",
            text::key(&rule.name),
            rule.missing.join(", ")
        );
        writeln!(out, "\n{}", style.denied(note))?;
    }
    if !others.is_empty() {
        writeln!(out, "\n{}", style.bold("Does not apply"))?;
        let mut table = Table::new([("", Align::Left), ("", Align::Left)]);
        for rule in others {
            let reason = rule.why_not.as_deref().unwrap_or_default();
            table.push([text::key(&rule.name).into(), Cell::new(Tone::Dim, reason)]);
        }
        table.write(out, style, 2)?;
    }
    Ok(())
}

/// Writes a rule that matches, with its limits.
fn write_rule(
    out: &mut impl Write,
    style: Style,
    rule: &RuleExplanation,
    explanation: &Explanation,
) -> io::Result<()> {
    let mut details = Vec::new();
    match (rule.key.as_deref(), &explanation.rule) {
        (Some(key), _) => details.push(format!("counts {}", text::rule_key(key))),
        (None, Some(decided)) if *decided != rule.name => {
            details.push(format!("not checked, since {decided} decides"));
        }
        (None, _) => details.push(format!("then {}", rule.then)),
    }
    if rule.key.is_some() {
        if rule.bucket != rule.name {
            details.push(format!("in the bucket {}", rule.bucket));
        }
        if rule.then != "deny" {
            details.push(format!("then {}", rule.then));
        }
    }
    if rule.mode != "enforce" || rule.file_mode.is_some() {
        details.push(format!("mode {}", rule.mode));
    }
    if let Some(in_file) = &rule.file_mode {
        details.push(format!("set while running (its file says {in_file})"));
    }
    if let Some(ms) = rule.banned_ms {
        details.push(format!("banned for {}", text::duration(ms.saturating_mul(1_000))));
    }
    if rule.repeated {
        details.push("charged before under the same id".to_owned());
    }
    writeln!(out, "{}: {}", style.bold(&rule.name), details.join(", "))?;
    if rule.limits.is_empty() {
        return Ok(());
    }
    let mut table = Table::new([
        ("limit", Align::Left),
        ("from", Align::Left),
        ("cost", Align::Right),
        ("", Align::Left),
        ("left", Align::Right),
        ("retry in", Align::Right),
        ("full in", Align::Right),
        ("wait", Align::Right),
    ]);
    rule.limits.iter().for_each(|limit| table.push(row(limit)));
    table.write(out, style, 2)
}

fn row(limit: &LimitExplanation) -> [Cell; 8] {
    let millis = |ms: u64| text::duration(ms.saturating_mul(1_000));
    let verdict = match (limit.allowed, limit.retry_after_ms) {
        (true, _) => Cell::new(Tone::Allowed, "allows"),
        (false, Some(_)) => Cell::new(Tone::Denied, "refuses"),
        (false, None) => Cell::new(Tone::Denied, "never fits"),
    };
    [
        limit.limit.as_str().into(),
        limit.from.as_str().into(),
        limit.cost.into(),
        verdict,
        format!("{}/{}", text::amount(limit.remaining), text::amount(limit.capacity)).into(),
        limit.retry_after_ms.map_or_else(|| "-".to_owned(), millis).into(),
        millis(limit.reset_after_ms).into(),
        millis(limit.wait_ms).into(),
    ]
}
