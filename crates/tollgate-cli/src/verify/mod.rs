//! `tollgate verify`: measures the published guarantees on this machine.
//!
//! Each check is a file in [`checks`]. It returns measurements, each a figure with its bound, and a
//! guarantee holds if every figure is within its bound. What a check needs of the outside world (servers,
//! clients, a stub upstream, a proxy with faults) is in [`harness`].

mod args;
mod check;
mod checks;
mod harness;
mod measurement;
mod report;
mod runner;
mod workspace;

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tollgate::Clock;

use crate::{Outcome, output};
pub(crate) use args::VerifyArgs;
use check::{CheckContext, StoreAddress};
use checks::CHECKS;
use report::VerifyReport;
use runner::{CheckResult, CheckState, CurrentWorkspace};

pub(crate) fn run(args: &VerifyArgs) -> anyhow::Result<Outcome> {
    let current = CurrentWorkspace::default();
    current.close_on_signal()?;
    let program = match &args.program {
        // The servers run in other folders.
        Some(path) => std::path::absolute(path).context("--program")?,
        None => std::env::current_exe().context("cannot find this program; give --program")?,
    };
    // A report that cannot be written is an error before the checks, not after them.
    let file = args.report.as_deref().map(|path| {
        let failed = || format!("cannot write {}", path.display());
        std::fs::File::create(path).with_context(failed)
    });
    let mut file = file.transpose()?;
    let wanted: Vec<_> = CHECKS
        .iter()
        .filter(|check| args.only.is_empty() || args.only.iter().any(|name| name == check.name))
        .collect();
    let context = CheckContext {
        program,
        quick: args.quick,
        store: args.store.as_deref().map(StoreAddress::new),
        workspace: Arc::default(),
        progress: bar(wanted.len() as u64),
        clock: Clock::system(),
    };
    let watch = context.stopwatch();
    let mut results = Vec::new();
    for check in wanted {
        context.progress.set_prefix(check.name);
        context.step("");
        let result = runner::run_check(check, &context, &current);
        context.progress.inc(1);
        if !args.json {
            context.progress.suspend(|| report::print_check(&result))?;
        }
        results.push(result);
    }
    context.progress.finish_and_clear();
    let report = VerifyReport { results: &results, took: watch.elapsed(), quick: args.quick };
    if let Some(file) = &mut file {
        file.write_all(report.markdown().as_bytes()).context("cannot write the report")?;
    }
    match args.json {
        true => drop(output::json(&report.json())?),
        false => report.print_summary()?,
    }
    outcome(&results)
}

/// Returns the outcome: a broken guarantee is a finding, and a check that shows nothing an error.
fn outcome(results: &[CheckResult]) -> anyhow::Result<Outcome> {
    let count = |state| results.iter().filter(|result| result.state() == state).count();
    if count(CheckState::Broken) > 0 {
        return Ok(Outcome::Found);
    }
    match (count(CheckState::Failed), count(CheckState::Holds)) {
        (0, 0) => bail!("no check ran, so nothing is verified"),
        (0, _) => Ok(Outcome::Fine),
        (1, _) => bail!("one check could not be completed"),
        (many, _) => bail!("{many} checks could not be completed"),
    }
}

/// Returns a progress bar, hidden unless standard error is a terminal.
fn bar(length: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len}  {elapsed:>4}  {prefix}: {msg}");
    let bar = ProgressBar::new(length);
    let bar = style.map_or(bar.clone(), |style| bar.with_style(style));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
