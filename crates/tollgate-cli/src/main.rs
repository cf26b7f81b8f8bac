//! The `tollgate` command: reads the arguments, runs what they ask for, and turns the outcome
//! into an exit code.
//!
//! 0 is fine, 1 is for commands that answer "denied" or "found something", 2 is an error.

mod cli;
mod simulate;
mod style;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command, SimulateArgs};
use style::Style;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Some(Command::Simulate(args)) => simulate::run(&args),
        None => simulate::run(&SimulateArgs::demo()).and_then(|()| {
            let what = "The server comes in a later version. What there is today:";
            Ok(writeln!(io::stdout(), "\n{what}\n  {} --help", program())?)
        }),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough: `tollgate … | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let style = Style::when(io::stderr().is_terminal());
            eprintln!("{} {error:#}", style.bad("error:"));
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(broken)
}

/// How this program was called, so that the commands we suggest can be copied.
fn program() -> String {
    std::env::args().next().filter(|name| !name.is_empty()).unwrap_or_else(|| "tollgate".into())
}
