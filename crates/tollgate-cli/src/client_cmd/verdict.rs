//! A decision as text.

use std::io::{self, Write};

use serde_json::Value;

use crate::output::{self, style};
use crate::style::Tone;
use crate::table::{Align, Cell};
use crate::text::{self, duration};

/// Prints a decision and the state of each limit.
pub(super) fn print(reply: &Value, success: &str) -> anyhow::Result<()> {
    let style = style();
    let mut out = io::stdout().lock();
    match reply["allowed"] != false {
        true => writeln!(out, "{}{}", style.allowed(success), wait(reply))?,
        false => {
            let by = match &reply["rule"] {
                Value::Null => String::new(),
                rule => format!(" by {}", output::text(rule)),
            };
            let retry = match millis(&reply["retry_after_ms"]) {
                Some(retry) => format!("retry in {retry}"),
                None if matches!(reply["code"].as_u64(), Some(400..)) => {
                    "it exceeds the whole limit".to_owned()
                }
                // A peek, which is not denied itself.
                None => "nothing is left".to_owned(),
            };
            writeln!(out, "{}{by}; {retry}", style.denied("denied"))?;
        }
    }
    if let Some(key) = reply["key"].as_str().filter(|key| text::lacks_attribute(key)) {
        let rule = output::text(&reply["rule"]);
        let note = format!(
            "counted as {}: the request lacks an attribute that {rule} counts by",
            text::rule_key(key)
        );
        writeln!(out, "{}", style.dim(note))?;
    }
    drop(out);
    let limits = reply["limits"].as_array().map(Vec::as_slice).unwrap_or_default();
    if limits.is_empty() {
        return Ok(());
    }
    let rows = limits.iter().map(|limit| {
        let left = &limit["remaining"];
        let tone = if *left == 0 { Tone::Denied } else { Tone::Plain };
        let mode = limit["mode"].as_str().filter(|mode| *mode != "enforce").unwrap_or_default();
        [
            Cell::from(output::text(&limit["policy"])),
            Cell::new(tone, amount(left)),
            amount(&limit["limit"]).into(),
            limit["window_s"].as_u64().map_or_else(String::new, window).into(),
            millis(&limit["reset_after_ms"]).unwrap_or_default().into(),
            Cell::new(Tone::Dim, mode),
        ]
    });
    let head = [
        ("limit", Align::Left),
        ("left", Align::Right),
        ("of", Align::Right),
        ("in", Align::Right),
        ("full in", Align::Right),
        ("", Align::Left),
    ];
    output::table(head, rows)?;
    Ok(())
}

/// Formats an amount of a limit.
fn amount(value: &Value) -> String {
    value.as_u64().map_or_else(|| output::text(value), text::amount)
}

/// Formats the time in which a limit is restored.
fn window(seconds: u64) -> String {
    duration(seconds.saturating_mul(1_000_000))
}

fn wait(reply: &Value) -> String {
    match reply["wait_ms"].as_u64() {
        None | Some(0) => String::new(),
        Some(wait) => format!(", after {}", duration(wait.saturating_mul(1000))),
    }
}

fn millis(value: &Value) -> Option<String> {
    Some(duration(value.as_u64()?.saturating_mul(1000)))
}
