//! The command line: one variant for each command, whose arguments are in its module.

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
  tollgate                                    the server with sample rules, all doors on loopback
  tollgate serve --rules tollgate.yaml        the server with your rules
  tollgate gateway --to http://localhost:3000 a reverse proxy in front of a service
  tollgate check demo ip=192.0.2.1 route='POST /login'
  tollgate init                               a commented tollgate.yaml to start from
  tollgate validate tollgate.yaml             errors and warnings of the rules
  tollgate test tollgate.yaml                 the test cases of the rules
  tollgate explain tollgate.yaml POST /login ip=203.0.113.7
  tollgate simulate tollgate.yaml --log access.log
  tollgate simulate --help                    limits on a timeline

Exit codes: 0 success, 1 denied or findings, 2 error.";

/// A rate limiter: a server with many doors, and tools for its rules.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Moves an argument to the top of the help.
fn first(argument: Arg) -> Arg {
    argument.display_order(0)
}

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server (also `tollgate` without a command)
    Serve(Box<ServeArgs>),
    /// Run a rate-limiting reverse proxy in front of the upstreams given by --to
    #[command(mut_arg("to", first), mut_arg("listen", first), after_help = GATEWAY_HELP)]
    Gateway(Box<ServeArgs>),
    /// Write a commented tollgate.yaml to start from
    Init(InitArgs),
    /// Convert the configuration of another system to a rules file
    Import(ImportArgs),
    /// Check rules for errors and warnings
    Validate(ValidateArgs),
    /// Explain which rules apply to one request, and how they decide
    Explain(ExplainArgs),
    /// Run the test cases of rules, under virtual time
    Test(TestArgs),
    /// Run limits on a timeline, or rules on an access log, under virtual time
    #[command(long_about = SIMULATE_ABOUT)]
    Simulate(SimulateArgs),
    /// Check a request at a running server, and charge it if it is allowed
    Check(CheckArgs),
    /// Show the limits of a request or a key at a running server, without charging
    Peek(KeyArgs),
    /// Reset the counters of a request or a key at a running server
    Reset(KeyArgs),
    /// Show the busiest keys of a running server
    Top(TopArgs),
    /// Follow the decisions of a running server
    Tail(TailArgs),
    /// Manage banned keys of a running server
    Ban(BanCommand),
    /// Manage deferred requests of a running server
    Deferred(DeferredCommand),
    /// Measure throughput and latency of a running server
    Bench(BenchArgs),
    /// Manage rules in a rules service, or run one
    Rules(RulesCommand),
    /// Manage overrides in a rules service: other limits for some clients
    Override(OverrideCommand),
    /// Manage lists of addresses and names in a rules service
    Lists(ListsCommand),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_valid() {
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
