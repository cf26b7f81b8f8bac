//! `tollgate rules`, `override` and `lists`: the rules service and its clients.

mod files;
mod lists;
mod modes;
mod overrides;
mod serve;

use clap::{Args, Subcommand};

use crate::Outcome;

const RULES_HELP: &str = "\
A server without --rules stores its rules itself, and these commands call it. A separate rules
service serves many limiters:
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

Exit codes: 0 success, 1 the rules are invalid, 2 error.";

/// Manage rules in a rules service, or run one
#[derive(Args, Debug)]
#[command(after_help = RULES_HELP)]
pub(crate) struct RulesCommand {
    #[command(subcommand)]
    command: RulesAction,
}

/// A subcommand of `tollgate rules`.
#[derive(Debug, Subcommand)]
enum RulesAction {
    /// Run a rules service, which many limiters fetch from
    Serve(serve::RulesServeArgs),
    /// List the rules files
    List(files::RulesListArgs),
    /// Print a rules file
    Get(files::RulesGetArgs),
    /// Create or replace a rules file
    Put(files::RulesPutArgs),
    /// Remove a rules file
    Remove(files::RulesRemoveArgs),
    /// List the versions of a rules file
    History(files::RulesHistoryArgs),
    /// Restore an earlier version of a rules file
    Rollback(files::RulesRollbackArgs),
    /// Set the mode of one rule or of all rules (the kill switch)
    Mode(modes::ModeArgs),
    /// List the modes that are set
    Modes(modes::ModesArgs),
    /// List the changes: who, what and when
    Audit(files::AuditArgs),
}

/// Manage overrides in a rules service: other limits for some clients
#[derive(Args, Debug)]
pub(crate) struct OverrideCommand {
    #[command(subcommand)]
    command: OverrideAction,
}

/// A subcommand of `tollgate override`.
#[derive(Debug, Subcommand)]
enum OverrideAction {
    /// Add an override: another limit or plan for some clients
    Add(overrides::OverrideAddArgs),
    /// Remove an override
    Remove(overrides::OverrideRemoveArgs),
    /// List overrides
    List(overrides::OverrideListArgs),
}

/// Manage lists of addresses and names in a rules service
#[derive(Args, Debug)]
pub(crate) struct ListsCommand {
    #[command(subcommand)]
    command: ListsAction,
}

/// A subcommand of `tollgate lists`.
#[derive(Debug, Subcommand)]
enum ListsAction {
    /// Print all lists, or the entries of one
    Show(lists::ListsShowArgs),
    /// Replace all entries of a list, including those in the rules file
    Set(lists::ListsSetArgs),
    /// Add entries to a list
    Add(lists::ListsAddArgs),
    /// Remove entries from a list, or restore the list of the rules file
    Remove(lists::ListsRemoveArgs),
}

pub(crate) fn run(command: &RulesCommand) -> anyhow::Result<Outcome> {
    match &command.command {
        RulesAction::Serve(args) => serve::run(args),
        RulesAction::List(args) => files::list(args),
        RulesAction::Get(args) => files::get(args),
        RulesAction::Put(args) => files::put(args),
        RulesAction::Remove(args) => files::remove(args),
        RulesAction::History(args) => files::history(args),
        RulesAction::Rollback(args) => files::rollback(args),
        RulesAction::Mode(args) => modes::set(args),
        RulesAction::Modes(args) => modes::list(args),
        RulesAction::Audit(args) => files::audit(args),
    }
}

pub(crate) fn run_override(command: &OverrideCommand) -> anyhow::Result<Outcome> {
    match &command.command {
        OverrideAction::Add(args) => overrides::add(args),
        OverrideAction::Remove(args) => overrides::remove(args),
        OverrideAction::List(args) => overrides::list(args),
    }
}

pub(crate) fn run_lists(command: &ListsCommand) -> anyhow::Result<Outcome> {
    match &command.command {
        ListsAction::Show(args) => lists::show(args),
        ListsAction::Set(args) => lists::set(args),
        ListsAction::Add(args) => lists::add(args),
        ListsAction::Remove(args) => lists::remove(args),
    }
}
