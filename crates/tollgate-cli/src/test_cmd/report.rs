//! The results of the cases, as text and as JSON.

use std::io::{self, Write};

use serde::Serialize;
use tollgate_rules::{CaseResult, Finding};

use super::FileCases;
use crate::style::{Style, Tone};
use crate::table::{Align, Cell, Table};
use crate::text;

/// Writes the results as text.
pub(super) fn write(out: &mut impl Write, style: Style, results: &[FileCases]) -> io::Result<()> {
    for FileCases { file, cases } in results {
        writeln!(out, "{}", style.bold(file))?;
        if cases.is_empty() {
            writeln!(out, "  {}", style.dim("no cases: add some under tests:"))?;
            continue;
        }
        let mut table = Table::new([("", Align::Left), ("", Align::Left), ("", Align::Right)]);
        for case in cases {
            let mark = match case.passed() {
                true => Cell::new(Tone::Allowed, "✓"),
                false => Cell::new(Tone::Bad, "✗"),
            };
            let requests = Cell::new(Tone::Dim, text::count(case.requests, "request"));
            table.push([mark, text::excerpt(&case.name).into(), requests]);
        }
        table.write(out, style, 2)?;
        for case in cases.iter().filter(|case| !case.passed()) {
            writeln!(out, "\n{}", style.bold(text::excerpt(&case.name)))?;
            writeln!(out, "{}", case.failures.render(style.is_on()))?;
        }
        writeln!(out)?;
    }
    let (passed, failed) = counts(results);
    let cases = style.bold(text::count(passed + failed, "case"));
    let passed = style.allowed(format!("{passed} passed"));
    let failed =
        style.tone(if failed > 0 { Tone::Bad } else { Tone::Plain }, format!("{failed} failed"));
    writeln!(out, "{cases}: {passed}, {failed}")
}

fn counts(results: &[FileCases]) -> (u64, u64) {
    let all = || results.iter().flat_map(|file| &file.cases);
    let passed = all().filter(|case| case.passed()).count();
    (passed as u64, (all().count() - passed) as u64)
}

/// The object that `--json` prints. Its field names are a contract.
#[derive(Serialize)]
struct TestReport<'r> {
    passed: u64,
    failed: u64,
    cases: Vec<CaseReport<'r>>,
}

/// One case in the output of `--json`.
#[derive(Serialize)]
struct CaseReport<'r> {
    file: &'r str,
    domain: &'r str,
    name: &'r str,
    passed: bool,
    requests: u64,
    failures: Vec<Finding<'r>>,
}

/// Writes the results as JSON.
pub(super) fn json(out: &mut impl Write, results: &[FileCases]) -> anyhow::Result<()> {
    let (passed, failed) = counts(results);
    let cases = results
        .iter()
        .flat_map(|FileCases { file, cases }| cases.iter().map(|case| case_report(file, case)));
    serde_json::to_writer(&mut *out, &TestReport { passed, failed, cases: cases.collect() })?;
    Ok(writeln!(out)?)
}

fn case_report<'r>(file: &'r str, case: &'r CaseResult) -> CaseReport<'r> {
    CaseReport {
        file,
        domain: &case.domain,
        name: &case.name,
        passed: case.passed(),
        requests: case.requests,
        failures: case.failures.findings().collect(),
    }
}
