//! The `tollgate` command: parses the arguments, runs a command, and returns an exit code.
//!
//! The library exists for the program of this package, its tests and its fuzz targets; its only function
//! is [`main`].
//!
//! 0 is success, 1 means that a command denied a request or found something, 2 is an error.

mod bench;
mod cli;
mod client_cmd;
mod explain;
#[cfg(any(test, fuzzing))]
pub mod fuzz_targets;
mod import;
mod init;
mod line_reader;
mod load;
mod log;
mod output;
mod quantity;
mod request_words;
mod rules_cmd;
mod serve;
mod service_client;
mod signals;
mod simulate;
mod style;
mod table;
mod test_cmd;
mod text;
mod validate;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use style::Style;

/// The result of a command that ran without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Fine,
    /// The command found an error in rules, a denied request or a failed case.
    Found,
}

impl Outcome {
    pub(crate) fn found(any: bool) -> Outcome {
        if any { Outcome::Found } else { Outcome::Fine }
    }
}

/// Runs the command that the arguments of the process name, and returns its exit code.
pub fn main() -> ExitCode {
    let outcome = match Cli::parse_from(cli::words()).command {
        Command::Init(args) => init::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Test(args) => test_cmd::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Check(args) => client_cmd::check(&args),
        Command::Peek(args) => client_cmd::peek(&args),
        Command::Reset(args) => client_cmd::reset(&args),
        Command::Top(args) => client_cmd::top(&args),
        Command::Tail(args) => client_cmd::tail(&args),
        Command::Ban(command) => client_cmd::run_ban(&command),
        Command::Deferred(command) => client_cmd::run_deferred(&command),
        Command::Bench(args) => bench::run(&args),
        Command::Rules(command) => rules_cmd::run(&command),
        Command::Override(command) => rules_cmd::run_override(&command),
        Command::Lists(command) => rules_cmd::run_lists(&command),
        Command::Serve(_) | Command::Gateway(_) => serve::run(),
    };
    match outcome {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Found) => ExitCode::from(1),
        // The reader of the output has closed it: `tollgate … | head`.
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

/// Returns the name this program was called by, for commands that are suggested.
fn program() -> String {
    std::env::args().next().filter(|name| !name.is_empty()).unwrap_or_else(|| "tollgate".into())
}

/// Returns the default folder of the database and the tokens: systemd's state directory, or
/// `tollgate-data`.
fn data_folder() -> PathBuf {
    let state = std::env::var_os("STATE_DIRECTORY").filter(|folder| !folder.is_empty());
    // systemd lists several directories in the order of the unit.
    let first = state.and_then(|all| std::env::split_paths(&all).next());
    first.unwrap_or_else(|| PathBuf::from("tollgate-data"))
}
