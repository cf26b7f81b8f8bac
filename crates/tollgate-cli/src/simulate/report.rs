//! Verdicts as lines of JSON, or as a table.

use std::io::{self, Write};

use serde::Serialize;
use tollgate::limit::AlgorithmName;

use super::simulation::EventVerdict;
use super::tally::TraceTally;
use super::trace_event::TraceEvent;
use crate::style::Style;
use crate::text;

/// The number of rows that decide the widths of columns.
const PREVIEW: usize = 500;
/// The number of keys in a summary.
const MAX_KEYS: usize = 10;

/// One line of JSON output. Field names and order are a contract.
#[derive(Serialize)]
struct VerdictLine<'a> {
    at_us: u64,
    key: &'a str,
    allowed: bool,
    limit: u64,
    remaining: u64,
    retry_after_us: Option<u64>,
    reset_after_us: u64,
    wait_us: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    never: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<&'static str>,
}

/// Writes a verdict as JSON.
pub(super) fn json(
    out: &mut impl Write,
    event: &TraceEvent,
    verdict: &EventVerdict,
    algorithm: Option<AlgorithmName>,
) -> io::Result<()> {
    let line = VerdictLine {
        at_us: event.at_us,
        key: &event.key,
        allowed: verdict.allowed,
        limit: verdict.limit,
        remaining: verdict.remaining,
        retry_after_us: verdict.retry_after_us,
        reset_after_us: verdict.reset_after_us,
        wait_us: verdict.wait_us,
        never: verdict.never,
        algorithm: algorithm.map(AlgorithmName::as_str),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

const COLUMNS: usize = 9;
const HEAD: [&str; COLUMNS] =
    ["at", "key", "op", "cost", "verdict", "left", "retry in", "full in", "wait"];
/// Whether a column is text; numbers are aligned right.
const LEFT: [bool; COLUMNS] = [false, true, true, false, true, false, false, false, false];

/// A table whose columns fit the first rows; wider cells in later rows are not aligned.
pub(super) struct TraceTable {
    style: Style,
    widths: [usize; COLUMNS],
    rows: Vec<TraceRow>,
    started: bool,
}

struct TraceRow {
    cells: [String; COLUMNS],
    allowed: bool,
}

impl TraceTable {
    pub(super) fn new(style: Style) -> TraceTable {
        let widths = HEAD.map(|title| title.chars().count());
        TraceTable { style, widths, rows: Vec::new(), started: false }
    }

    /// Adds a verdict.
    pub(super) fn push(
        &mut self,
        out: &mut impl Write,
        event: &TraceEvent,
        verdict: &EventVerdict,
    ) -> io::Result<()> {
        let row = TraceRow { cells: cells(event, verdict), allowed: verdict.allowed };
        if self.started {
            return self.write(out, &row);
        }
        for (width, cell) in self.widths.iter_mut().zip(&row.cells) {
            *width = cell.chars().count().max(*width);
        }
        self.rows.push(row);
        if self.rows.len() < PREVIEW { Ok(()) } else { self.start(out) }
    }

    /// Writes the buffered rows, whose widths are known now.
    pub(super) fn start(&mut self, out: &mut impl Write) -> io::Result<()> {
        if std::mem::replace(&mut self.started, true) || self.rows.is_empty() {
            return Ok(());
        }
        let head = self.align(&HEAD.map(String::from));
        writeln!(out, "{}", self.style.dim(head.concat().trim_end()))?;
        std::mem::take(&mut self.rows).iter().try_for_each(|row| self.write(out, row))
    }

    fn align(&self, cells: &[String; COLUMNS]) -> [String; COLUMNS] {
        std::array::from_fn(|i| {
            let (cell, width) = (&cells[i], self.widths[i]);
            let gap = if i == 0 { "" } else { "  " };
            if LEFT[i] { format!("{gap}{cell:<width$}") } else { format!("{gap}{cell:>width$}") }
        })
    }

    fn write(&self, out: &mut impl Write, row: &TraceRow) -> io::Result<()> {
        let cells = self.align(&row.cells);
        let (before, verdict, after) = (cells[..4].concat(), &cells[4], cells[5..].concat());
        match row.allowed {
            true => writeln!(out, "{before}{}{after}", self.style.allowed(verdict)),
            false => writeln!(out, "{before}{}{after}", self.style.denied(verdict)),
        }
    }
}

fn cells(event: &TraceEvent, verdict: &EventVerdict) -> [String; COLUMNS] {
    let word = match (event.op.can_be_denied(), verdict.allowed) {
        (true, true) => "allowed",
        (true, false) if verdict.never => "never",
        (true, false) => "denied",
        (false, true) => "ok",
        (false, false) => "in debt",
    };
    let dash = || "-".to_owned();
    [
        text::duration(event.at_us),
        text::key(&event.key),
        event.op.as_str().into(),
        event.cost.to_string(),
        word.into(),
        format!("{}/{}", text::amount(verdict.remaining), text::amount(verdict.limit)),
        verdict.retry_after_us.map_or_else(dash, text::duration),
        text::duration(verdict.reset_after_us),
        text::duration(verdict.wait_us),
    ]
}

/// Writes the totals, and the keys with the most denials.
pub(super) fn summary(out: &mut impl Write, style: Style, tally: &TraceTally) -> io::Result<()> {
    let requests = tally.total.allowed + tally.total.denied;
    let allowed = format!("{} allowed", tally.total.allowed);
    let denied = format!("{} denied", tally.total.denied);
    let (allowed, denied) = (style.allowed(allowed), style.denied(denied));
    write!(out, "{}: {allowed}, {denied}", style.bold(text::count(requests, "request")))?;
    if tally.others > 0 {
        write!(out, "; {}", text::count(tally.others, "other operation"))?;
    }
    let most = tally.most_denied(MAX_KEYS);
    for (index, (key, counts)) in most.iter().enumerate() {
        let start = if index == 0 { ". Most denied: " } else { ", " };
        let requests = counts.allowed + counts.denied;
        write!(out, "{start}{} {} of {requests}", text::key(key), counts.denied)?;
    }
    writeln!(out)
}
