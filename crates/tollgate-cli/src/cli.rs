//! What may be written on the command line: one variant for each command, whose arguments live
//! with it.

use clap::{Arg, Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::client_cmd::{BanCommand, CheckArgs, DeferredCommand, KeyArgs, TailArgs, TopArgs};
use crate::explain::ExplainArgs;
use crate::import::ImportArgs;
use crate::init::InitArgs;
use crate::rules_cmd::{ListsCommand, OverrideCommand, RulesCommand};
use crate::serve::{GATEWAY_HELP, ServeArgs};
use crate::simulate::{SIMULATE_ABOUT, SimulateArgs};
use crate::test_cmd::TestArgs;
use crate::validate::ValidateArgs;

const EXAMPLES: &str = "\
Examples:
  tollgate                                    the server, at once: sample rules, all doors on loopback
  tollgate serve --rules tollgate.yaml        the server with your rules
  tollgate gateway --to http://localhost:3000 in front of a service
  tollgate check demo ip=192.0.2.1 route='POST /login'
  tollgate init                               write tollgate.yaml, to start from
  tollgate validate tollgate.yaml             what is wrong with it, if anything
  tollgate test tollgate.yaml                 run the cases written beside the rules
  tollgate explain tollgate.yaml POST /login ip=203.0.113.7
  tollgate simulate tollgate.yaml --log access.log
  tollgate simulate --help                    how a limit behaves on a timeline

Exit codes: 0 fine, 1 denied or findings, 2 error.";

/// A rate limiter: a server with many doors, and what helps to write its rules.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What a command cannot do without comes first in its help.
fn first(argument: Arg) -> Arg {
    argument.display_order(0)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server; so does `tollgate` alone
    Serve(Box<ServeArgs>),
    /// Run a reverse proxy that limits; --to says where requests go
    #[command(mut_arg("to", first), mut_arg("listen", first), after_help = GATEWAY_HELP)]
    Gateway(Box<ServeArgs>),
    /// Write a commented tollgate.yaml to start from
    Init(InitArgs),
    /// Print the rules file that says what another system's configuration says
    Import(ImportArgs),
    /// Say what is wrong with rules, and where
    Validate(ValidateArgs),
    /// Say which rules apply to one request, and how they decide
    Explain(ExplainArgs),
    /// Run the cases written beside the rules, under virtual time
    Test(TestArgs),
    /// Run limits on a timeline, or rules on an access log, under virtual time
    #[command(long_about = SIMULATE_ABOUT)]
    Simulate(SimulateArgs),
    /// Ask a running server: may this pass? What is allowed is spent
    Check(CheckArgs),
    /// Ask a running server how a request or a key stands; nothing is spent
    Peek(KeyArgs),
    /// Have a running server forget what a request or a key has spent
    Reset(KeyArgs),
    /// Who is noisy at a running server
    Top(TopArgs),
    /// Decisions of a running server, as they are made
    Tail(TailArgs),
    /// Keys that a running server refuses whatever is left
    Ban(BanCommand),
    /// Requests that a running server keeps for later
    Deferred(DeferredCommand),
    /// Load a door of a running server, and say how it went
    Bench(BenchArgs),
    /// Rules in a rules service, and the service itself
    Rules(RulesCommand),
    /// Other limits for some, in a rules service
    Override(OverrideCommand),
    /// Lists of addresses and names, in a rules service
    Lists(ListsCommand),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn every_flag_is_also_a_variable() {
        fn check(command: &clap::Command) {
            let own = |arg: &&clap::Arg| !matches!(arg.get_id().as_str(), "help" | "version");
            let flags = command.get_arguments().filter(|arg| arg.get_long().is_some());
            for arg in flags.filter(own) {
                let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned());
                let named = variable.is_some_and(|name| name.starts_with("TOLLGATE_"));
                assert!(named, "{} {}", command.get_name(), arg.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&<Cli as clap::CommandFactory>::command());
    }
}
