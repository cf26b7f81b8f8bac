//! The report: lines for people, JSON, and Markdown.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use serde_json::{Value, json};

use super::check::CheckRun;
use super::measurement::Measurement;
use super::runner::{CheckResult, CheckState};
use crate::output;
use crate::style::Tone;
use crate::table::{Align, Cell, Table};

/// The results of all checks.
pub(super) struct VerifyReport<'a> {
    pub(super) results: &'a [CheckResult],
    pub(super) took: Duration,
    pub(super) quick: bool,
}

fn tone(state: CheckState) -> Tone {
    match state {
        CheckState::Holds => Tone::Allowed,
        CheckState::Broken | CheckState::Failed => Tone::Bad,
        CheckState::Skipped => Tone::Denied,
    }
}

/// Returns the measurements of a check; none if it was skipped or failed.
fn measurements(result: &CheckResult) -> &[Measurement] {
    match &result.outcome {
        Ok(CheckRun::Measured(measured)) => measured,
        _ => &[],
    }
}

/// Returns why there are no measurements: the reason of a skipped check, or the error.
fn note(result: &CheckResult) -> Option<String> {
    match &result.outcome {
        Ok(CheckRun::Measured(all)) if all.is_empty() => Some("it measured nothing".to_owned()),
        Ok(CheckRun::Measured(_)) => None,
        Ok(CheckRun::Skipped(reason)) => Some(reason.clone()),
        Err(error) => Some(format!("{error:#}")),
    }
}

fn guarantees(result: &CheckResult) -> String {
    let numbers: Vec<String> = result.check.guarantees.iter().map(u8::to_string).collect();
    numbers.join(", ")
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Prints the result of one check.
pub(super) fn print_check(result: &CheckResult) -> io::Result<()> {
    let (style, state) = (output::style(), result.state());
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(
        out,
        "{} {}  {}  {}",
        style.tone(tone(state), format!("{:<7}", state.name())),
        style.bold(result.check.name),
        result.check.title,
        style.dim(format!("guarantee {}, {}", guarantees(result), seconds(result.took))),
    )?;
    if let Some(note) = note(result) {
        writeln!(out, "        {note}")?;
    }
    let mut table =
        Table::new([("", Align::Left), ("", Align::Right), ("", Align::Left), ("", Align::Left)]);
    for measured in measurements(result) {
        let (figure, mark) = match measured.holds() {
            true => (Tone::Plain, ""),
            false => (Tone::Bad, "broken"),
        };
        table.push([
            Cell::new(Tone::Plain, measured.subject()),
            Cell::new(figure, measured.figure_text()),
            Cell::new(Tone::Dim, measured.bound_text()),
            Cell::new(Tone::Bad, mark),
        ]);
    }
    table.write(&mut out, style, 8)?;
    out.flush()
}

impl VerifyReport<'_> {
    fn count(&self, state: CheckState) -> usize {
        self.results.iter().filter(|result| result.state() == state).count()
    }

    /// Returns the counts in words: `8 hold, 0 broken, 1 skipped`.
    fn summary(&self) -> String {
        let mut summary = format!(
            "{} hold, {} broken, {} skipped",
            self.count(CheckState::Holds),
            self.count(CheckState::Broken),
            self.count(CheckState::Skipped),
        );
        match self.count(CheckState::Failed) {
            0 => {}
            failed => _ = write!(summary, ", {failed} not completed"),
        }
        summary
    }

    pub(super) fn print_summary(&self) -> io::Result<()> {
        let style = output::style();
        writeln!(io::stdout(), "\n{}  {}", style.bold(self.summary()), seconds(self.took))
    }

    pub(super) fn json(&self) -> Value {
        let check = |result: &CheckResult| {
            let measured: Vec<Value> = measurements(result).iter().map(Measurement::json).collect();
            json!({
                "name": result.check.name,
                "title": result.check.title,
                "guarantees": result.check.guarantees,
                "state": result.state().name(),
                "note": note(result),
                "seconds": result.took.as_secs_f64(),
                "measurements": measured,
            })
        };
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "build": build(),
            "machine": machine(),
            "quick": self.quick,
            "seconds": self.took.as_secs_f64(),
            "holds": self.count(CheckState::Holds),
            "broken": self.count(CheckState::Broken),
            "skipped": self.count(CheckState::Skipped),
            "errors": self.count(CheckState::Failed),
            "checks": self.results.iter().map(check).collect::<Vec<Value>>(),
        })
    }

    /// Returns the report as a page of Markdown.
    pub(super) fn markdown(&self) -> String {
        let quick = if self.quick { ", --quick" } else { "" };
        let mut page = format!(
            "# Guarantees of tollgate {}, measured\n\n`tollgate verify{quick}` ({} build) on {}: {} in {}.\n\n\
             | guarantee | check | measured | figure | bound | |\n| --- | --- | --- | --- | --- | --- |\n",
            env!("CARGO_PKG_VERSION"),
            build(),
            machine(),
            self.summary(),
            seconds(self.took),
        );
        for result in self.results {
            let (name, numbers) = (result.check.name, guarantees(result));
            if let Some(note) = note(result) {
                let state = result.state().name();
                _ = writeln!(page, "| {numbers} | {name} | {} | | | {state} |", cell(&note));
            }
            for measured in measurements(result) {
                let state = if measured.holds() { "holds" } else { "**broken**" };
                let (subject, figure) = (cell(measured.subject()), measured.figure_text());
                let bound = measured.bound_text();
                _ = writeln!(
                    page,
                    "| {numbers} | {name} | {subject} | {figure} | {bound} | {state} |"
                );
            }
        }
        page
    }
}

/// Escapes a text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\r', '\n'], " ")
}

fn build() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "optimised" }
}

/// Describes this machine: what figures depend on.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{} {}, {cores} cores", std::env::consts::OS, std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::super::check::{CheckContext, VerifyCheck};
    use super::*;

    fn never(_: &CheckContext) -> anyhow::Result<CheckRun> {
        Err(anyhow::anyhow!("not run"))
    }

    static CHECK: VerifyCheck = VerifyCheck {
        name: "sample",
        guarantees: &[4, 9],
        title: "a sample",
        time_limit: Duration::ZERO,
        run: never,
    };

    fn result(outcome: anyhow::Result<CheckRun>) -> CheckResult {
        CheckResult { check: &CHECK, took: Duration::from_millis(1_500), outcome }
    }

    fn measured(figures: &[u64]) -> CheckResult {
        let measured =
            figures.iter().map(|figure| Measurement::exactly("a | b", *figure, "requests", 5));
        result(Ok(CheckRun::Measured(measured.collect())))
    }

    #[test]
    fn a_report_shows_each_figure_beside_its_bound() {
        let results = [
            measured(&[5, 6]),
            measured(&[5]),
            result(Ok(CheckRun::Skipped("give --store".to_owned()))),
            never_result(),
        ];
        let states = results.each_ref().map(CheckResult::state);
        use CheckState::{Broken, Failed, Holds, Skipped};
        assert_eq!(states, [Broken, Holds, Skipped, Failed]);
        let report = VerifyReport { results: &results, took: Duration::from_secs(2), quick: true };
        let json = report.json();
        let counts = ["holds", "broken", "skipped", "errors"].map(|name| json[name].clone());
        assert_eq!(counts, [1, 1, 1, 1]);
        assert_eq!(json["checks"][0]["measurements"][1]["holds"], false);
        assert_eq!(json["checks"][2]["note"], "give --store");
        let page = report.markdown();
        for line in [
            "| 4, 9 | sample | a \\| b | 6 requests | exactly 5 | **broken** |",
            "| 4, 9 | sample | a \\| b | 5 requests | exactly 5 | holds |",
            "| 4, 9 | sample | give --store | | | skipped |",
            "| 4, 9 | sample | not run | | | error |",
        ] {
            assert!(page.lines().any(|other| other == line), "{line} in {page}");
        }
        assert!(page.contains("1 hold, 1 broken, 1 skipped, 1 not completed"), "{page}");
    }

    fn never_result() -> CheckResult {
        result(Err(anyhow::anyhow!("not run")))
    }

    #[test]
    fn a_check_that_measured_nothing_proves_nothing() {
        assert_eq!(measured(&[]).state(), CheckState::Failed);
    }
}
