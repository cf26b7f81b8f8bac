//! How the cases went, for people and for programs.

use std::io::{self, Write};

use serde::Serialize;
use tollgate::rules::{CaseResult, Finding};

use super::Ran;
use crate::style::{Style, Tone};
use crate::table::{Align, Cell, Table};
use crate::text;

pub(super) fn write(out: &mut impl Write, style: Style, ran: &[Ran]) -> io::Result<()> {
    for Ran { file, cases } in ran {
        writeln!(out, "{}", style.bold(file))?;
        if cases.is_empty() {
            writeln!(out, "  {}", style.dim("no cases: write some under tests:"))?;
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
    let (passed, failed) = counts(ran);
    let cases = style.bold(text::count(passed + failed, "case"));
    let passed = style.allowed(format!("{passed} passed"));
    let failed =
        style.tone(if failed > 0 { Tone::Bad } else { Tone::Plain }, format!("{failed} failed"));
    writeln!(out, "{cases}: {passed}, {failed}")
}

fn counts(ran: &[Ran]) -> (u64, u64) {
    let all = || ran.iter().flat_map(|file| &file.cases);
    let passed = all().filter(|case| case.passed()).count();
    (passed as u64, (all().count() - passed) as u64)
}

/// The object `--json` prints. Names are a contract.
#[derive(Serialize)]
struct Report<'r> {
    passed: u64,
    failed: u64,
    cases: Vec<Case<'r>>,
}

#[derive(Serialize)]
struct Case<'r> {
    file: &'r str,
    domain: &'r str,
    name: &'r str,
    passed: bool,
    requests: u64,
    failures: Vec<Finding<'r>>,
}

pub(super) fn json(out: &mut impl Write, ran: &[Ran]) -> anyhow::Result<()> {
    let (passed, failed) = counts(ran);
    let cases = ran.iter().flat_map(|Ran { file, cases }| cases.iter().map(|case| of(file, case)));
    serde_json::to_writer(&mut *out, &Report { passed, failed, cases: cases.collect() })?;
    Ok(writeln!(out)?)
}

fn of<'r>(file: &'r str, case: &'r CaseResult) -> Case<'r> {
    Case {
        file,
        domain: &case.domain,
        name: &case.name,
        passed: case.passed(),
        requests: case.requests,
        failures: case.failures.findings().collect(),
    }
}
