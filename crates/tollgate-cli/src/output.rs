//! Printing of responses from a server or a rules service.

use std::io::{self, BufWriter, IsTerminal, Write};

use serde_json::Value;

use crate::Outcome;
use crate::service_client::{ServiceClient, ServiceReply, ServiceRequest};
use crate::style::{Style, Tone};
use crate::table::{Align, Cell, Table};
use crate::text;

/// The rule that servers report for inline limits.
const INLINE_LIMIT: &str = "brought";

pub(crate) fn style() -> Style {
    Style::when(io::stdout().is_terminal())
}

/// Prints JSON on one line.
pub(crate) fn json(value: &Value) -> anyhow::Result<Outcome> {
    writeln!(io::stdout(), "{value}")?;
    Ok(Outcome::Fine)
}

/// Returns a field as text, with control characters escaped.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.chars().flat_map(escaped).collect(),
        other => other.to_string(),
    }
}

fn escaped(c: char) -> Vec<char> {
    if c.is_control() { c.escape_default().collect() } else { vec![c] }
}

/// Formats a timestamp such as `2026-11-16T01:36:02.123Z` to the second.
pub(crate) fn time(value: &Value) -> String {
    let text = text(value);
    match text.split_once('.') {
        Some((seconds, _)) => format!("{}Z", seconds.replace('T', " ")),
        None => text,
    }
}

/// Returns the rule and the key of a decision or a busy key. An inline limit has no domain and no
/// rule, and its key is the caller's own text.
pub(crate) fn rule_and_key(decision: &Value) -> (String, String) {
    let key = decision["key"].as_str().unwrap_or_default();
    match (decision["domain"].as_str(), decision["rule"].as_str()) {
        (None | Some(""), Some(INLINE_LIMIT)) => ("(inline limit)".to_owned(), text::key(key)),
        _ => (self::text(&decision["rule"]), text::rule_key(key)),
    }
}

/// Says that something was added. In a dry run it has no id.
pub(crate) fn added(what: &str, body: &Value) -> String {
    match &body["id"] {
        Value::Null => "adding it".to_owned(),
        id => format!("added {what} {id},"),
    }
}

/// Prints rows under a head.
pub(crate) fn table<const N: usize>(
    head: [(&'static str, Align); N],
    rows: impl Iterator<Item = [Cell; N]>,
) -> anyhow::Result<Outcome> {
    let mut table = Table::new(head);
    rows.for_each(|row| table.push(row));
    let mut out = BufWriter::new(io::stdout().lock());
    table.write(&mut out, style(), 0)?;
    out.flush()?;
    Ok(Outcome::Fine)
}

/// Requests a change and prints the result: the findings if the rules are invalid, or `what`.
pub(crate) fn change(
    service: &ServiceClient,
    request: ServiceRequest<'_>,
    what: impl FnOnce(&Value) -> String,
) -> anyhow::Result<Outcome> {
    match service.send(request)? {
        ServiceReply::NotFound(detail) => anyhow::bail!("{detail}"),
        ServiceReply::InvalidRules(problem) => print_findings(service, &problem),
        ServiceReply::Success(response) => {
            let body: Value = serde_json::from_slice(&response.body)?;
            if service.json {
                return json(&body);
            }
            print_change(&body, &what(&body))?;
            Ok(Outcome::Fine)
        }
    }
}

fn print_findings(service: &ServiceClient, problem: &Value) -> anyhow::Result<Outcome> {
    if service.json {
        json(problem)?;
    } else {
        let mut out = io::stdout().lock();
        if let Some(rendered) = problem["rendered"].as_str() {
            writeln!(out, "{rendered}\n")?;
        }
        writeln!(out, "{}", style().bad(text(&problem["detail"])))?;
    }
    Ok(Outcome::Found)
}

fn print_change(body: &Value, what: &str) -> anyhow::Result<()> {
    let (style, mut out) = (style(), BufWriter::new(io::stdout().lock()));
    for line in body["diff"].as_str().unwrap_or_default().lines() {
        let tone = match line.as_bytes().first() {
            Some(b'+') => Tone::Allowed,
            Some(b'-') => Tone::Denied,
            Some(b'@') => Tone::Dim,
            _ => Tone::Plain,
        };
        writeln!(out, "{}", style.tone(tone, line))?;
    }
    for (mark, tone, names) in [
        ("added", Tone::Allowed, &body["rules"]["added"]),
        ("removed", Tone::Denied, &body["rules"]["removed"]),
        ("changed", Tone::Bold, &body["rules"]["changed"]),
        ("other", Tone::Bold, &body["rules"]["sections"]),
    ] {
        let names: Vec<String> = names.as_array().into_iter().flatten().map(text).collect();
        if !names.is_empty() {
            writeln!(out, "{mark:>8}  {}", style.tone(tone, names.join(", ")))?;
        }
    }
    for warning in body["warnings"].as_array().into_iter().flatten() {
        let (file, line) = (text(&warning["file"]), text(&warning["line"]));
        let message = text(&warning["message"]);
        writeln!(out, "{} {file}:{line}: {message}", style.denied("warning:"))?;
    }
    let revision = text(&body["revision"]);
    match (body["dry_run"] == true, body["changed"] == true) {
        (_, false) => writeln!(out, "nothing to change")?,
        (true, true) => writeln!(out, "{what} would succeed; nothing was changed (dry run)")?,
        (false, true) => writeln!(out, "{what} {}", style.dim(format!("revision {revision}")))?,
    }
    Ok(out.flush()?)
}
