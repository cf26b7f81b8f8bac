//! A decision as text.

use std::io::{self, Write};

use serde_json::Value;

use crate::output::{self, style};
use crate::style::Tone;
use crate::table::{Align, Cell};
use crate::text::duration;

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
            Cell::from(match &limit["rule"] {
                Value::Null => String::new(),
                rule => output::text(rule),
            }),
            Cell::new(tone, output::text(left)),
            output::text(&limit["limit"]).into(),
            millis(&limit["reset_after_ms"]).unwrap_or_default().into(),
            Cell::new(Tone::Dim, mode),
        ]
    });
    let head = [
        ("rule", Align::Left),
        ("left", Align::Right),
        ("of", Align::Right),
        ("full in", Align::Right),
        ("", Align::Left),
    ];
    output::table(head, rows)?;
    Ok(())
}

fn wait(reply: &Value) -> String {
    match reply["wait_ms"].as_u64() {
        None | Some(0) => String::new(),
        Some(wait) => format!(", after {}", duration(wait * 1000)),
    }
}

fn millis(value: &Value) -> Option<String> {
    Some(duration(value.as_u64()?.saturating_mul(1000)))
}
