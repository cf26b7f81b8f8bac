//! `tollgate simulate`: limits on a timeline, or rules on an access log, under virtual time.
//!
//! A trace is read event by event, every lane decides each event, and a report is written as
//! the answers come. What is kept grows with the keys, never with the length of the trace.

mod args;
mod compare;
mod demo;
mod event;
mod fault;
mod panel;
mod plot;
mod replay;
mod report;
mod run;
mod tally;
mod terminal;
mod timeline;
mod trace;

use std::io::{self, BufWriter, IsTerminal, Write};

use crate::Outcome;
use crate::style::Style;
pub(crate) use args::{SIMULATE_ABOUT, SimulateArgs};
use compare::Lane;
use event::Event;
use panel::{Origin, Panel};
use trace::Trace;

/// Runs what the arguments ask for.
pub(crate) fn run(args: &SimulateArgs) -> anyhow::Result<Outcome> {
    match (&args.rules, &args.log) {
        (Some(rules), Some(log)) => replay::run(rules, log, args)?,
        _ => run_limits(args)?,
    }
    Ok(Outcome::Fine)
}

/// Limits on a trace.
fn run_limits(args: &SimulateArgs) -> anyhow::Result<()> {
    let limits = match (args.demo, &args.limit[..]) {
        (true, []) => vec![demo::LIMIT.parse()?],
        (_, given) => given.to_vec(),
    };
    let algorithms = match (args.demo, &args.compare[..]) {
        (true, []) => &demo::ALGORITHMS[..],
        (_, given) => given,
    };
    let mut lanes = compare::lanes(&limits, algorithms)?;
    if let Some(path) = &args.plot {
        plot::can_write(path)?;
    }

    let stdout = io::stdout();
    let style = Style::when(stdout.is_terminal());
    let mut out = Output {
        out: BufWriter::with_capacity(1 << 16, stdout.lock()),
        form: match (args.json, algorithms) {
            (true, _) => Form::Json,
            (false, []) => Form::Table(report::Table::new(style)),
            (false, _) => Form::Comparison,
        },
    };
    match &args.trace {
        Some(path) if !args.demo => {
            // A bar between the rows of a table would be in the way.
            let bar = matches!(out.form, Form::Comparison) || !io::stdout().is_terminal();
            read(Trace::open(path, bar)?, &mut lanes, &mut out)?;
        }
        _ => demo::events().try_for_each(|event| decide(&event, &mut lanes, &mut out))?,
    }

    let Output { mut out, form } = out;
    match form {
        Form::Json => {}
        Form::Table(mut table) => {
            table.settle(&mut out)?;
            report::summary(&mut out, style, &lanes[0].tally)?;
        }
        Form::Comparison => {
            if args.demo {
                demo::introduce(&mut out, style, &compare::text(&limits))?;
            }
            terminal::charts(&mut out, style, &panels(&lanes), Origin::Trace)?;
            let window_us = compare::window_us(&limits).unwrap_or_default();
            terminal::comparison(&mut out, style, &mut lanes, window_us)?;
            if args.demo {
                demo::explain(&mut out, style, args)?;
            }
        }
    }
    out.flush()?;
    if let Some(path) = &args.plot {
        plot::save(path, &panels(&lanes), &compare::text(&limits), Origin::Trace)?;
    }
    Ok(())
}

fn panels(lanes: &[Lane]) -> Vec<Panel<'_>> {
    lanes.iter().map(Lane::panel).collect()
}

/// Where answers go, and in what form.
struct Output<W: Write> {
    out: W,
    form: Form,
}

enum Form {
    Json,
    Table(report::Table),
    /// Only what all of them add up to.
    Comparison,
}

fn read(mut trace: Trace, lanes: &mut [Lane], out: &mut Output<impl Write>) -> anyhow::Result<()> {
    let outcome = loop {
        match trace.next() {
            Ok(Some(event)) => decide(&event, lanes, out)?,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
        // Whoever writes the trace as it goes may wait for an answer.
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

fn decide(event: &Event, lanes: &mut [Lane], out: &mut Output<impl Write>) -> anyhow::Result<()> {
    for lane in lanes {
        let answer = lane.step(event)?;
        match &mut out.form {
            Form::Json => report::json(&mut out.out, event, &answer, lane.algorithm)?,
            Form::Table(table) => table.push(&mut out.out, event, &answer)?,
            Form::Comparison => {}
        }
    }
    Ok(())
}

impl<W: Write> Output<W> {
    fn flush(&mut self) -> io::Result<()> {
        if let Form::Table(table) = &mut self.form {
            table.settle(&mut self.out)?;
        }
        self.out.flush()
    }
}
