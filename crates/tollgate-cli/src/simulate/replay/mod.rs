//! Rules on an access log: what would have been denied, and what other rules would change.
//!
//! The log is read line by line under a clock that shows what the lines say. What is kept does
//! not grow with the log: the most refused keys, and counts.

mod json;
mod keys;
mod report;
mod side;
mod tally;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::bail;
use tollgate::Time;
use tollgate::testing::ManualClock;

use super::args::SimulateArgs;
use super::panel::Origin;
use super::plot;
use crate::lines::Lines;
use crate::log::{Entry, Order};
use crate::style::Style;
use crate::text;
use side::Side;
use tally::Change;

/// Lines that are not understood and shown all the same.
const SHOWN_LINES: usize = 3;

/// What is known of the log itself.
#[derive(Debug, Default)]
struct LogFacts {
    name: String,
    requests: u64,
    first_us: Option<u64>,
    last_us: u64,
    /// Lines that came too late to be put in order.
    late: u64,
    not_understood: u64,
    /// The first of them.
    shown: Vec<NotUnderstood>,
}

#[derive(Debug, serde::Serialize)]
struct NotUnderstood {
    line: u64,
    reason: String,
    text: String,
}

/// All that a run finds out.
struct Replay<'a> {
    args: &'a SimulateArgs,
    clock: ManualClock,
    facts: LogFacts,
    candidate: Side,
    current: Option<Side>,
    change: Change,
}

pub(super) fn run(rules: &Path, log: &Path, args: &SimulateArgs) -> anyhow::Result<()> {
    if let Some(path) = &args.plot {
        plot::can_write(path)?;
    }
    let clock = ManualClock::at(Time::EPOCH);
    let label = if args.against.is_some() { "candidate" } else { "rules" };
    let candidate = Side::open(rules, label, &clock)?;
    let current = args.against.as_deref().map(|path| Side::open(path, "current", &clock));
    let (facts, change) = (LogFacts::default(), Change::default());
    let mut replay =
        Replay { args, clock, facts, candidate, current: current.transpose()?, change };
    let mut lines = Lines::open(log, "log", true)?;
    let read = replay.read(&mut lines);
    lines.finish();
    read?;
    replay.write()?;
    if let Some(path) = &args.plot {
        let panels: Vec<_> = replay.sides().map(Side::panel).collect();
        let name = format!("{} under {}", replay.facts.name, replay.candidate.name);
        plot::save(path, &panels, &name, Origin::Date)?;
    }
    Ok(())
}

impl Replay<'_> {
    fn sides(&self) -> impl Iterator<Item = &Side> {
        [&self.candidate].into_iter().chain(&self.current)
    }

    fn read(&mut self, lines: &mut Lines) -> anyhow::Result<()> {
        self.facts.name = lines.name().to_owned();
        let mut order = Order::default();
        while let Some((number, line)) = lines.next()? {
            match self.args.format.parse(line, &self.args.map) {
                Ok(entry) => order.push(entry).into_iter().for_each(|entry| self.step(&entry)),
                Err(reason) => self.facts.add_not_understood(number, reason, line),
            }
        }
        while let Some(entry) = order.pop() {
            self.step(&entry);
        }
        if let (0, Some(first)) = (self.facts.requests, self.facts.shown.first()) {
            bail!(
                "no line of {} is that of an access log; line {}: {}\n  {}\n\
                 --format says how lines are written, --map what fields are called",
                self.facts.name,
                first.line,
                first.reason,
                first.text
            );
        }
        Ok(())
    }

    fn step(&mut self, entry: &Entry) {
        // What is too late to be put in order is decided now: no clock runs backwards.
        let late = entry.at < self.clock.now();
        self.facts.late += u64::from(late);
        let at = if late { self.clock.now() } else { entry.at };
        self.clock.set(at);
        let at_us = at.as_nanos() / 1_000;
        self.facts.requests += 1;
        self.facts.first_us.get_or_insert(at_us);
        self.facts.last_us = at_us;
        let domain = self.args.domain.as_deref();
        let answer = self.candidate.step(entry, domain, at_us);
        if let Some(current) = &mut self.current {
            let before = current.step(entry, domain, at_us);
            self.change.record(at_us, &answer, &before);
        }
    }

    fn write(&self) -> anyhow::Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        match self.args.json {
            true => json::write(&mut out, self)?,
            false => report::write(&mut out, Style::when(io::stdout().is_terminal()), self)?,
        }
        Ok(out.flush()?)
    }
}

impl LogFacts {
    fn add_not_understood(&mut self, line: u64, reason: String, bytes: &[u8]) {
        self.not_understood += 1;
        if self.shown.len() < SHOWN_LINES {
            let start = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
            self.shown.push(NotUnderstood { line, reason, text: text::excerpt(start.trim_end()) });
        }
    }
}
