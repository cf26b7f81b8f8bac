//! The command line: one variant for each command, whose arguments are in its module.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::{Arg, CommandFactory, Parser, Subcommand};

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
use crate::verify::VerifyArgs;

/// The command of `tollgate` without one.
const SERVE: &str = "serve";
/// The commands whose flags are the settings of a server.
const SERVERS: [&str; 2] = [SERVE, "gateway"];

const EXAMPLES: &str = "\
Examples:
  tollgate                                    the server with sample rules, all doors on loopback
  tollgate --rules tollgate.yaml              the server with your rules
  tollgate gateway --to localhost:3000        a reverse proxy in front of a service
  tollgate check POST /login ip=192.0.2.1     a request to a running server
  tollgate init                               a commented tollgate.yaml to start from
  tollgate validate                           errors and warnings of the rules
  tollgate test                               the test cases of the rules
  tollgate explain POST /login ip=203.0.113.7 which rules apply to a request
  tollgate simulate tollgate.yaml --log access.log
  tollgate simulate --help                    limits on a timeline

Exit codes: 0 success, 1 denied or findings, 2 error.";

/// A rate limiter: a server with many doors, and tools for its rules.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Returns the words of the command line, with `serve` where no command is named: `tollgate` alone,
/// or with settings such as `tollgate --rules tollgate.yaml`.
pub(crate) fn words() -> Vec<OsString> {
    with_command(std::env::args_os().collect())
}

fn with_command(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_of_program = |word: &OsString| {
        !word.to_string_lossy().starts_with('-')
            || ["-h", "--help", "-V", "--version"].iter().any(|own| word == own)
    };
    if words.is_empty() {
        words.push("tollgate".into());
    }
    if !words.get(1).is_some_and(is_of_program) {
        words.insert(1, SERVE.into());
    }
    words
}

/// Returns the parser of the command line.
///
/// Each setting of a server is a variable whose name follows from that of its flag, so that the help
/// does not repeat it.
pub(crate) fn parser() -> clap::Command {
    let without_variables = |server: clap::Command| server.mut_args(|arg| arg.hide_env(true));
    let parser = Cli::command();
    SERVERS.into_iter().fold(parser, |parser, name| parser.mut_subcommand(name, without_variables))
}

/// Returns all settings of a server, a line each, if the words ask for them: clap's own `--help` has
/// five lines for each.
pub(crate) fn help_of_server(words: &[OsString]) -> Option<StyledStr> {
    let words: Vec<&str> = words.iter().skip(1).map_while(|word| word.to_str()).collect();
    let is_server = |name: &&str| SERVERS.contains(name);
    let name = match words.as_slice() {
        ["help", name] => Some(name).filter(|name| is_server(name)),
        [name, rest @ ..] if rest.contains(&"--help") => Some(name).filter(|name| is_server(name)),
        _ => None,
    }?;
    let mut parser = parser();
    parser.build();
    let server = parser.find_subcommand_mut(name)?;
    // The help option is described as if it had a longer form.
    let all = server.clone().mut_args(|arg| arg.hide_short_help(false));
    Some(all.mut_arg("help", |arg| arg.help("Print this help; -h is shorter")).render_help())
}

/// Moves an argument to the top of the help.
fn first(argument: Arg) -> Arg {
    argument.display_order(0).help_heading(None::<&str>)
}

/// Moves an argument to the second place of the help.
fn second(argument: Arg) -> Arg {
    argument.display_order(1).help_heading(None::<&str>)
}

/// Turns off a door unless its address is given.
fn off(argument: Arg) -> Arg {
    argument.default_value("off")
}

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server (also `tollgate` without a command)
    Serve(Box<ServeArgs>),
    /// Run a rate-limiting reverse proxy in front of the upstreams given by --to
    #[command(
        mut_arg("to", first),
        mut_arg("listen", second),
        mut_arg("grpc", off),
        mut_arg("resp", off),
        after_help = GATEWAY_HELP
    )]
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
    /// Measure the published guarantees on this machine
    Verify(VerifyArgs),
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
        parser().debug_assert();
    }

    /// All settings fit on a few screens, with their defaults, grouped by topic.
    #[test]
    fn the_help_of_a_server_has_a_line_for_each_setting() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for line in ["tollgate serve --help", "tollgate gateway --help", "tollgate help serve"] {
            let help = help_of_server(&words(line)).unwrap().to_string();
            let flags = help.lines().filter(|line| line.trim_start().starts_with("--")).count();
            assert!(flags > 70 && help.lines().count() < 2 * flags + 30, "{help}");
            for expected in ["Store:", "[default: 127.0.0.1:8080]", "--bounds-streams", "TOLLGATE_"]
            {
                assert!(help.contains(expected), "{expected}: {help}");
            }
        }
        for line in ["tollgate serve -h", "tollgate --help", "tollgate check --help"] {
            assert!(help_of_server(&words(line)).is_none(), "{line}");
        }
    }

    #[test]
    fn settings_without_a_command_are_those_of_the_server() {
        let cases = [
            ("tollgate", "tollgate serve"),
            ("tollgate --rules x", "tollgate serve --rules x"),
            ("tollgate --help", "tollgate --help"),
            ("tollgate -V", "tollgate -V"),
            ("tollgate check --ready", "tollgate check --ready"),
        ];
        for (given, expected) in cases {
            let words = with_command(given.split(' ').map(OsString::from).collect());
            assert_eq!(words.join(" ".as_ref()), *expected, "{given}");
        }
        assert_eq!(with_command(Vec::new()), ["tollgate", "serve"]);
    }

    /// Settings of servers are variables, and so is what every client command shares. Flags of one
    /// call are not: a variable that is left over from elsewhere must not change what a command does.
    #[test]
    fn only_settings_are_variables() {
        const SERVER_PATHS: [&str; 3] =
            ["tollgate serve", "tollgate gateway", "tollgate rules serve"];
        const SHARED: [&str; 3] = ["json", "server", "token"];
        fn check(command: &clap::Command, path: &str) {
            let flags = command.get_arguments().filter(|arg| arg.get_long().is_some());
            for arg in flags {
                let name = arg.get_id().as_str();
                let is_setting = match name {
                    "help" | "version" | "check" => false,
                    name => SERVER_PATHS.contains(&path) || SHARED.contains(&name),
                };
                let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned());
                assert_eq!(variable.is_some(), is_setting, "{path} --{name}: {variable:?}");
                // The help says which variable a setting has by its flag alone, with one exception.
                if let Some(variable) = variable.filter(|_| SERVER_PATHS[..2].contains(&path)) {
                    let flag = arg.get_long().unwrap_or_default().replace('-', "_").to_uppercase();
                    let expected = if flag == "LOG" { "LOG_FORMAT".to_owned() } else { flag };
                    assert_eq!(variable, format!("TOLLGATE_{expected}"), "{path}");
                }
            }
            for sub in command.get_subcommands() {
                check(sub, &format!("{path} {}", sub.get_name()));
            }
        }
        check(&parser(), "tollgate");
    }
}
