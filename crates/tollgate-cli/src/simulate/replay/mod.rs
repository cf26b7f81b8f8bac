//! Rules on an access log: which requests are denied, and what other rules would change.
//!
//! The log is read line by line, under a clock that follows its times. Memory does not grow with the
//! log: it contains counts and the keys with the most denials.

mod json;
mod key_denials;
mod report;
mod rule_set_run;
mod tally;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::bail;
use tollgate::Time;
use tollgate::testing::ManualClock;

use super::args::SimulateArgs;
use super::panel::TimeOrigin;
use super::plot;
use crate::line_reader::LineReader;
use crate::log::{EntrySorter, LogEntry};
use crate::style::Style;
use crate::text;
use rule_set_run::RuleSetRun;
use tally::DecisionChange;

/// The maximum number of malformed lines in the report.
const MAX_MALFORMED: usize = 3;

/// The facts about the log.
#[derive(Debug, Default)]
struct LogSummary {
    name: String,
    requests: u64,
    first_us: Option<u64>,
    last_us: u64,
    /// The number of lines that were too late to be sorted.
    late: u64,
    not_understood: u64,
    /// The first malformed lines.
    shown: Vec<MalformedLine>,
}

/// A line that could not be read.
#[derive(Debug, serde::Serialize)]
struct MalformedLine {
    line: u64,
    reason: String,
    text: String,
}

/// A replay of a log and its results.
struct Replay<'a> {
    args: &'a SimulateArgs,
    clock: ManualClock,
    facts: LogSummary,
    candidate: RuleSetRun,
    current: Option<RuleSetRun>,
    change: DecisionChange,
}

pub(super) fn run(rules: &Path, log: &Path, args: &SimulateArgs) -> anyhow::Result<()> {
    if let Some(path) = &args.plot {
        plot::check_writable(path)?;
    }
    let clock = ManualClock::at(Time::EPOCH);
    let label = if args.against.is_some() { "candidate" } else { "rules" };
    let candidate = RuleSetRun::open(rules, label, &clock)?;
    let current = args.against.as_deref().map(|path| RuleSetRun::open(path, "current", &clock));
    let (facts, change) = (LogSummary::default(), DecisionChange::default());
    let mut replay =
        Replay { args, clock, facts, candidate, current: current.transpose()?, change };
    let mut lines = LineReader::open(log, "log", true)?;
    let read = replay.read(&mut lines);
    lines.finish();
    read?;
    replay.write()?;
    if let Some(path) = &args.plot {
        let panels: Vec<_> = replay.rule_sets().map(RuleSetRun::panel).collect();
        let name = format!("{} under {}", replay.facts.name, replay.candidate.name);
        plot::save(path, &panels, &name, TimeOrigin::Date)?;
    }
    Ok(())
}

impl Replay<'_> {
    fn rule_sets(&self) -> impl Iterator<Item = &RuleSetRun> {
        [&self.candidate].into_iter().chain(&self.current)
    }

    fn read(&mut self, lines: &mut LineReader) -> anyhow::Result<()> {
        self.facts.name = lines.name().to_owned();
        let mut order = EntrySorter::default();
        while let Some((number, line)) = lines.next()? {
            match self.args.format.parse(line, &self.args.map) {
                Ok(entry) => order.push(entry).into_iter().for_each(|entry| self.step(&entry)),
                Err(reason) => self.facts.add_malformed(number, reason, line),
            }
        }
        while let Some(entry) = order.pop() {
            self.step(&entry);
        }
        if let (0, Some(first)) = (self.facts.requests, self.facts.shown.first()) {
            bail!(
                "no line of {} could be read as an access log; line {}: {}\n  {}\n\
                 choose the format with --format, and name fields with --map",
                self.facts.name,
                first.line,
                first.reason,
                first.text
            );
        }
        Ok(())
    }

    fn step(&mut self, entry: &LogEntry) {
        // A line that is too late to be sorted is decided now, since the clock never goes back.
        let late = entry.at < self.clock.now();
        self.facts.late += u64::from(late);
        let at = if late { self.clock.now() } else { entry.at };
        self.clock.set(at);
        let at_us = at.as_nanos() / 1_000;
        self.facts.requests += 1;
        self.facts.first_us.get_or_insert(at_us);
        self.facts.last_us = at_us;
        let domain = self.args.domain.as_deref();
        let after = self.candidate.step(entry, domain, at_us);
        if let Some(current) = &mut self.current {
            let before = current.step(entry, domain, at_us);
            self.change.record(at_us, &after, &before);
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

impl LogSummary {
    fn add_malformed(&mut self, line: u64, reason: String, bytes: &[u8]) {
        self.not_understood += 1;
        if self.shown.len() < MAX_MALFORMED {
            let start = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
            self.shown.push(MalformedLine { line, reason, text: text::excerpt(start.trim_end()) });
        }
    }
}
