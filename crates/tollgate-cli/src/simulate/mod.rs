//! `tollgate simulate`: limits on a timeline, or rules on an access log, under virtual time.
//!
//! A trace is read event by event, every run decides each event, and the verdicts are written as they
//! are made. Memory grows with the number of keys, not with the length of the trace.

mod algorithm_run;
mod args;
mod demo;
mod fault;
mod panel;
mod plot;
mod replay;
mod report;
mod simulation;
mod tally;
mod terminal;
mod timeline;
mod trace;
mod trace_event;

use std::io::{self, BufWriter, IsTerminal, Write};

use crate::Outcome;
use crate::style::Style;
use algorithm_run::AlgorithmRun;
pub(crate) use args::{SIMULATE_ABOUT, SimulateArgs};
use panel::{Panel, TimeOrigin};
use trace::Trace;
use trace_event::TraceEvent;

/// Runs a simulation of limits or of rules.
pub(crate) fn run(args: &SimulateArgs) -> anyhow::Result<Outcome> {
    match (&args.rules, &args.log) {
        (Some(rules), Some(log)) => replay::run(rules, log, args)?,
        _ => run_limits(args)?,
    }
    Ok(Outcome::Fine)
}

/// Runs limits on a trace.
fn run_limits(args: &SimulateArgs) -> anyhow::Result<()> {
    let limits = match (args.demo, &args.limit[..]) {
        (true, []) => vec![demo::LIMIT.parse()?],
        (_, given) => given.to_vec(),
    };
    let algorithms = match (args.demo, &args.compare[..]) {
        (true, []) => &demo::ALGORITHMS[..],
        (_, given) => given,
    };
    let mut runs = algorithm_run::runs(&limits, algorithms)?;
    if let Some(path) = &args.plot {
        plot::check_writable(path)?;
    }

    let stdout = io::stdout();
    let style = Style::when(stdout.is_terminal());
    let mut out = TraceOutput {
        out: BufWriter::with_capacity(1 << 16, stdout.lock()),
        form: match (args.json, algorithms) {
            (true, _) => OutputForm::Json,
            (false, []) => OutputForm::Table(report::TraceTable::new(style)),
            (false, _) => OutputForm::Comparison,
        },
    };
    match &args.trace {
        Some(path) if !args.demo => {
            // A progress bar would mix with the rows of a table.
            let bar = matches!(out.form, OutputForm::Comparison) || !io::stdout().is_terminal();
            read(Trace::open(path, bar)?, &mut runs, &mut out)?;
        }
        _ => demo::events().try_for_each(|event| decide(&event, &mut runs, &mut out))?,
    }

    let TraceOutput { mut out, form } = out;
    match form {
        OutputForm::Json => {}
        OutputForm::Table(mut table) => {
            table.start(&mut out)?;
            report::summary(&mut out, style, &runs[0].tally)?;
        }
        OutputForm::Comparison => {
            if args.demo {
                demo::introduce(&mut out, style, &algorithm_run::text(&limits))?;
            }
            terminal::charts(&mut out, style, &panels(&runs), TimeOrigin::Trace)?;
            let window_us = algorithm_run::window_us(&limits).unwrap_or_default();
            terminal::comparison(&mut out, style, &mut runs, window_us)?;
            if args.demo {
                demo::explain(&mut out, style, args)?;
            }
        }
    }
    out.flush()?;
    if let Some(path) = &args.plot {
        plot::save(path, &panels(&runs), &algorithm_run::text(&limits), TimeOrigin::Trace)?;
    }
    Ok(())
}

fn panels(runs: &[AlgorithmRun]) -> Vec<Panel<'_>> {
    runs.iter().map(AlgorithmRun::panel).collect()
}

/// The output of verdicts and its form.
struct TraceOutput<W: Write> {
    out: W,
    form: OutputForm,
}

/// The form of the output.
enum OutputForm {
    Json,
    Table(report::TraceTable),
    /// Only the totals.
    Comparison,
}

fn read(
    mut trace: Trace,
    runs: &mut [AlgorithmRun],
    out: &mut TraceOutput<impl Write>,
) -> anyhow::Result<()> {
    let outcome = loop {
        match trace.next() {
            Ok(Some(event)) => decide(&event, runs, out)?,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
        // The writer of the trace may wait for the verdict before it writes more.
        if trace.is_drained() {
            out.flush()?;
        }
    };
    trace.finish();
    if outcome.is_err() {
        out.flush()?;
    }
    outcome
}

fn decide(
    event: &TraceEvent,
    runs: &mut [AlgorithmRun],
    out: &mut TraceOutput<impl Write>,
) -> anyhow::Result<()> {
    for run in runs {
        let verdict = run.step(event)?;
        match &mut out.form {
            OutputForm::Json => report::json(&mut out.out, event, &verdict, run.algorithm)?,
            OutputForm::Table(table) => table.push(&mut out.out, event, &verdict)?,
            OutputForm::Comparison => {}
        }
    }
    Ok(())
}

impl<W: Write> TraceOutput<W> {
    fn flush(&mut self) -> io::Result<()> {
        if let OutputForm::Table(table) = &mut self.form {
            table.start(&mut self.out)?;
        }
        self.out.flush()
    }
}
