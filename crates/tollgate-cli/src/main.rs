//! The `tollgate` command: reads the arguments, runs what they ask for, and turns the outcome
//! into an exit code.
//!
//! 0 is fine, 1 is for commands that answer "denied" or "found something", 2 is an error.

mod cli;
mod explain;
mod import;
mod init;
mod lines;
mod load;
mod log;
mod rules_cmd;
mod simulate;
mod style;
mod table;
mod test_cmd;
mod text;
mod validate;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use style::Style;

/// How a command ended, if nothing kept it from doing its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Fine,
    /// It found what it looks for: a mistake in rules, a denied request, a failed case.
    Found,
}

impl Outcome {
    pub(crate) fn found(any: bool) -> Outcome {
        if any { Outcome::Found } else { Outcome::Fine }
    }
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Some(Command::Init(args)) => init::run(&args),
        Some(Command::Import(args)) => import::run(&args),
        Some(Command::Validate(args)) => validate::run(&args),
        Some(Command::Explain(args)) => explain::run(&args),
        Some(Command::Test(args)) => test_cmd::run(&args),
        Some(Command::Simulate(args)) => simulate::run(&args),
        Some(Command::Rules(command)) => rules_cmd::run(&command),
        Some(Command::Override(command)) => rules_cmd::run_override(&command),
        Some(Command::Lists(command)) => rules_cmd::run_lists(&command),
        None => demonstrate(),
    };
    match outcome {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Found) => ExitCode::from(1),
        // Whoever reads our output has seen enough: `tollgate … | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let style = Style::when(io::stderr().is_terminal());
            eprintln!("{} {error:#}", style.bad("error:"));
            ExitCode::from(2)
        }
    }
}

/// What `tollgate` alone does.
fn demonstrate() -> anyhow::Result<Outcome> {
    simulate::run(&simulate::SimulateArgs::demo())?;
    let what = "The server comes in a later version. What there is today:";
    writeln!(io::stdout(), "\n{what}\n  {} --help", program())?;
    Ok(Outcome::Fine)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(broken)
}

/// How this program was called, so that the commands we suggest can be copied.
fn program() -> String {
    std::env::args().next().filter(|name| !name.is_empty()).unwrap_or_else(|| "tollgate".into())
}
