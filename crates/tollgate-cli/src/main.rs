//! The `tollgate` command: reads the arguments, runs what they ask for, and turns the outcome
//! into an exit code.
//!
//! 0 is fine, 1 is for commands that answer "denied" or "found something", 2 is an error.

mod ask;
mod bench;
mod cli;
mod client_cmd;
mod explain;
mod import;
mod init;
mod lines;
mod load;
mod log;
mod quantity;
mod rules_cmd;
mod serve;
mod show;
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

/// Made for many threads with small objects that come and go, as a server has them. Without huge
/// pages (`no_thp`), in which ten thousand idle connections hold half as much again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
        Some(Command::Check(args)) => client_cmd::check(&args),
        Some(Command::Peek(args)) => client_cmd::peek(&args),
        Some(Command::Reset(args)) => client_cmd::reset(&args),
        Some(Command::Top(args)) => client_cmd::top(&args),
        Some(Command::Tail(args)) => client_cmd::tail(&args),
        Some(Command::Ban(command)) => client_cmd::run_ban(&command),
        Some(Command::Deferred(command)) => client_cmd::run_deferred(&command),
        Some(Command::Bench(args)) => bench::run(&args),
        Some(Command::Rules(command)) => rules_cmd::run(&command),
        Some(Command::Override(command)) => rules_cmd::run_override(&command),
        Some(Command::Lists(command)) => rules_cmd::run_lists(&command),
        Some(Command::Serve(_) | Command::Gateway(_)) | None => serve::run(),
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

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(broken)
}

/// How this program was called, so that the commands we suggest can be copied.
fn program() -> String {
    std::env::args().next().filter(|name| !name.is_empty()).unwrap_or_else(|| "tollgate".into())
}

/// Where a server keeps its database and tokens unless told otherwise: systemd's state directory,
/// or a folder here.
fn data_folder() -> PathBuf {
    let state = std::env::var_os("STATE_DIRECTORY").filter(|folder| !folder.is_empty());
    // Of several, systemd names the one that comes first in the unit first.
    let first = state.and_then(|all| std::env::split_paths(&all).next());
    first.unwrap_or_else(|| PathBuf::from("tollgate-data"))
}
