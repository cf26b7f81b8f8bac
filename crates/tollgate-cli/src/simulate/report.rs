//! Answers as they come: lines of JSON, or a table for people.

use std::io::{self, Write};

use serde::Serialize;
use tollgate::limit::AlgorithmName;

use super::event::Event;
use super::run::Answer;
use super::tally::Tally;
use crate::style::Style;
use crate::text;

/// Rows looked at before the columns' widths are settled.
const PREVIEW: usize = 500;
/// Keys named in a summary.
const NAMED_KEYS: usize = 10;

/// One line of output. Names and order are a contract.
#[derive(Serialize)]
struct Line<'a> {
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

/// Writes an answer as JSON.
pub(super) fn json(
    out: &mut impl Write,
    event: &Event,
    answer: &Answer,
    algorithm: Option<AlgorithmName>,
) -> io::Result<()> {
    let line = Line {
        at_us: event.at_us,
        key: &event.key,
        allowed: answer.allowed,
        limit: answer.limit,
        remaining: answer.remaining,
        retry_after_us: answer.retry_after_us,
        reset_after_us: answer.reset_after_us,
        wait_us: answer.wait_us,
        never: answer.never,
        algorithm: algorithm.map(AlgorithmName::as_str),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

const COLUMNS: usize = 9;
const HEAD: [&str; COLUMNS] =
    ["at", "key", "op", "cost", "verdict", "left", "retry in", "full in", "wait"];
/// Which columns are text; numbers stand on the right.
const LEFT: [bool; COLUMNS] = [false, true, true, false, true, false, false, false, false];

/// A table whose columns fit the first rows; what is wider later sticks out.
pub(super) struct Table {
    style: Style,
    widths: [usize; COLUMNS],
    rows: Vec<Row>,
    settled: bool,
}

struct Row {
    cells: [String; COLUMNS],
    allowed: bool,
}

impl Table {
    pub(super) fn new(style: Style) -> Table {
        let widths = HEAD.map(|title| title.chars().count());
        Table { style, widths, rows: Vec::new(), settled: false }
    }

    /// Adds an answer.
    pub(super) fn push(
        &mut self,
        out: &mut impl Write,
        event: &Event,
        answer: &Answer,
    ) -> io::Result<()> {
        let row = Row { cells: cells(event, answer), allowed: answer.allowed };
        if self.settled {
            return self.write(out, &row);
        }
        for (width, cell) in self.widths.iter_mut().zip(&row.cells) {
            *width = cell.chars().count().max(*width);
        }
        self.rows.push(row);
        if self.rows.len() < PREVIEW { Ok(()) } else { self.settle(out) }
    }

    /// Writes what was kept back to find the widths.
    pub(super) fn settle(&mut self, out: &mut impl Write) -> io::Result<()> {
        if std::mem::replace(&mut self.settled, true) || self.rows.is_empty() {
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

    fn write(&self, out: &mut impl Write, row: &Row) -> io::Result<()> {
        let cells = self.align(&row.cells);
        let (before, verdict, after) = (cells[..4].concat(), &cells[4], cells[5..].concat());
        match row.allowed {
            true => writeln!(out, "{before}{}{after}", self.style.allowed(verdict)),
            false => writeln!(out, "{before}{}{after}", self.style.denied(verdict)),
        }
    }
}

fn cells(event: &Event, answer: &Answer) -> [String; COLUMNS] {
    let verdict = match (event.op.asks(), answer.allowed) {
        (true, true) => "allowed",
        (true, false) if answer.never => "never",
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
        verdict.into(),
        format!("{}/{}", text::amount(answer.remaining), text::amount(answer.limit)),
        answer.retry_after_us.map_or_else(dash, text::duration),
        text::duration(answer.reset_after_us),
        text::duration(answer.wait_us),
    ]
}

/// Writes how it went in all, and who was denied most.
pub(super) fn summary(out: &mut impl Write, style: Style, tally: &Tally) -> io::Result<()> {
    let asked = tally.total.allowed + tally.total.denied;
    let allowed = format!("{} allowed", tally.total.allowed);
    let denied = format!("{} denied", tally.total.denied);
    let (allowed, denied) = (style.allowed(allowed), style.denied(denied));
    write!(out, "{}: {allowed}, {denied}", style.bold(text::count(asked, "request")))?;
    if tally.others > 0 {
        write!(out, "; {}", text::count(tally.others, "other operation"))?;
    }
    let most = tally.most_denied(NAMED_KEYS);
    for (index, (key, counts)) in most.iter().enumerate() {
        let start = if index == 0 { ". Most denied: " } else { ", " };
        let asked = counts.allowed + counts.denied;
        write!(out, "{start}{} {} of {asked}", text::key(key), counts.denied)?;
    }
    writeln!(out)
}
