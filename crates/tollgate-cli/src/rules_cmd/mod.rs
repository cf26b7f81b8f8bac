//! `tollgate rules`, `override` and `lists`: the rules service, and what is asked of one.

mod files;
mod lists;
mod modes;
mod overrides;
mod serve;

use clap::{Args, Subcommand};

use crate::Outcome;

const RULES_HELP: &str = "\
A server without --rules keeps them itself: these commands ask it. A rules service of its own serves
many limiters:
  tollgate rules serve --data ./rules-data --import rules/
  export TOLLGATE_SERVER=http://127.0.0.1:8082
  export TOLLGATE_TOKEN=…                     from the file `tokens` in that folder

Examples:
  tollgate rules put shop shop.yaml --dry-run
  tollgate rules put shop shop.yaml
  tollgate rules history shop
  tollgate rules rollback shop --to 3
  tollgate rules mode '*' off                 the kill switch
  tollgate rules audit

Exit codes: 0 fine, 1 the rules are wrong, 2 error.";

/// Rules in a rules service
#[derive(Args, Debug)]
#[command(after_help = RULES_HELP)]
pub(crate) struct RulesCommand {
    #[command(subcommand)]
    command: Rules,
}

#[derive(Debug, Subcommand)]
enum Rules {
    /// Run a rules service, from which many limiters fetch
    Serve(serve::ServeArgs),
    /// List the rules files there are
    List(files::ListArgs),
    /// Print a rules file
    Get(files::GetArgs),
    /// Create or replace a rules file
    Put(files::PutArgs),
    /// Remove a rules file
    Remove(files::RemoveArgs),
    /// List the versions of a rules file
    History(files::HistoryArgs),
    /// Make an earlier text of a rules file the newest version
    Rollback(files::RollbackArgs),
    /// Set the mode of a rule while running, or of all: the kill switch
    Mode(modes::ModeArgs),
    /// List the modes that were set while running
    Modes(modes::ModesArgs),
    /// Say who changed what, and when
    Audit(files::AuditArgs),
}

/// Overrides in a rules service: other limits for some, without a rules file
#[derive(Args, Debug)]
pub(crate) struct OverrideCommand {
    #[command(subcommand)]
    command: Override,
}

#[derive(Debug, Subcommand)]
enum Override {
    /// Give some another limit or plan
    Add(overrides::AddArgs),
    /// Take it back
    Remove(overrides::RemoveArgs),
    /// List them
    List(overrides::ListArgs),
}

/// Lists in a rules service: addresses, names and patterns, without a rules file
#[derive(Args, Debug)]
pub(crate) struct ListsCommand {
    #[command(subcommand)]
    command: Lists,
}

#[derive(Debug, Subcommand)]
enum Lists {
    /// Print all lists, or the entries of one
    Show(lists::ShowArgs),
    /// Replace all entries of a list; those in the rules file no longer count
    Set(lists::SetArgs),
    /// Add entries to a list
    Add(lists::AddArgs),
    /// Remove entries from a list, or the list, so that the rules file's counts again
    Remove(lists::RemoveArgs),
}

pub(crate) fn run(command: &RulesCommand) -> anyhow::Result<Outcome> {
    match &command.command {
        Rules::Serve(args) => serve::run(args),
        Rules::List(args) => files::list(args),
        Rules::Get(args) => files::get(args),
        Rules::Put(args) => files::put(args),
        Rules::Remove(args) => files::remove(args),
        Rules::History(args) => files::history(args),
        Rules::Rollback(args) => files::rollback(args),
        Rules::Mode(args) => modes::set(args),
        Rules::Modes(args) => modes::list(args),
        Rules::Audit(args) => files::audit(args),
    }
}

pub(crate) fn run_override(command: &OverrideCommand) -> anyhow::Result<Outcome> {
    match &command.command {
        Override::Add(args) => overrides::add(args),
        Override::Remove(args) => overrides::remove(args),
        Override::List(args) => overrides::list(args),
    }
}

pub(crate) fn run_lists(command: &ListsCommand) -> anyhow::Result<Outcome> {
    match &command.command {
        Lists::Show(args) => lists::show(args),
        Lists::Set(args) => lists::set(args),
        Lists::Add(args) => lists::add(args),
        Lists::Remove(args) => lists::remove(args),
    }
}
