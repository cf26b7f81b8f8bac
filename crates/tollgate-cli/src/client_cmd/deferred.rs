//! `tollgate deferred list | show | cancel | replay`.

use std::io::{self, Write};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use crate::Outcome;
use crate::ask::{Ask, Service, segment};
use crate::show;
use crate::style::Tone;
use crate::table::{Align, Cell};
use crate::text;

const DEFERRED_HELP: &str = "\
Rules with `then: defer` keep requests over their limit and send them later. Those that an upstream
never takes are dead letters, in the state failed: they are kept until they are replayed or
cancelled.

Examples:
  tollgate deferred list --state failed
  tollgate deferred show 3f2a…
  tollgate deferred cancel 3f2a…
  tollgate deferred replay 3f2a…
  tollgate deferred replay --rule report      all dead letters of a rule
  tollgate deferred replay --all";

/// Requests that a running server keeps for later
#[derive(Args, Debug)]
#[command(after_help = DEFERRED_HELP)]
pub(crate) struct DeferredCommand {
    #[command(subcommand)]
    command: Deferred,
}

#[derive(Debug, Subcommand)]
enum Deferred {
    /// List them, the newest first
    List(ListArgs),
    /// Say how one of them is getting on
    Show(OneArgs),
    /// Have one that waits or has failed never sent
    Cancel(OneArgs),
    /// Have dead letters sent again
    Replay(ReplayArgs),
}

#[derive(Args, Debug)]
struct ListArgs {
    /// Only those in this state
    #[arg(long, env = "TOLLGATE_DEFERRED_STATE", value_enum)]
    state: Option<State>,
    /// Only those of this rule
    #[arg(long, env = "TOLLGATE_RULE")]
    rule: Option<String>,
    /// How many
    #[arg(long, env = "TOLLGATE_DEFERRED_LIMIT", value_name = "N", default_value_t = 50)]
    limit: u16,
    #[command(flatten)]
    service: Service,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    /// Waiting
    Queued,
    /// On its way
    Sending,
    /// Answered by the upstream
    Done,
    /// A dead letter
    Failed,
    /// Never to be sent
    Cancelled,
}

#[derive(Args, Debug)]
struct OneArgs {
    /// Its id; see `tollgate deferred list`
    id: String,
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
struct ReplayArgs {
    /// Its id; see `tollgate deferred list --state failed`
    #[arg(required_unless_present_any = ["rule", "all"], conflicts_with_all = ["rule", "all"])]
    id: Option<String>,
    /// All dead letters of this rule
    #[arg(long, env = "TOLLGATE_RULE")]
    rule: Option<String>,
    /// All dead letters
    #[arg(long, env = "TOLLGATE_DEFERRED_ALL", conflicts_with = "rule",
          value_parser = clap::builder::BoolishValueParser::new())]
    all: bool,
    #[command(flatten)]
    service: Service,
}

pub(crate) fn run(command: &DeferredCommand) -> anyhow::Result<Outcome> {
    match &command.command {
        Deferred::List(args) => list(args),
        Deferred::Show(args) => show_one(args),
        Deferred::Cancel(args) => {
            let ask = Ask::new("DELETE", place(&args.id));
            change(&args.service, ask, |_| format!("{} is cancelled", args.id))
        }
        Deferred::Replay(args) => replay(args),
    }
}

fn place(id: &str) -> String {
    format!("/v1/deferred/{}", segment(id))
}

fn replay(args: &ReplayArgs) -> anyhow::Result<Outcome> {
    match &args.id {
        Some(id) => {
            let ask = Ask::new("POST", format!("{}/replay", place(id)));
            change(&args.service, ask, |_| format!("{id} is sent again"))
        }
        None => {
            let ask =
                Ask::new("POST", "/v1/deferred/replay").query(&[("rule", args.rule.as_deref())]);
            change(&args.service, ask, |body| {
                let count = body["replayed"].as_u64().unwrap_or(0);
                format!("sent again: {}", text::count(count, "dead letter"))
            })
        }
    }
}

fn change(
    service: &Service,
    ask: Ask<'_>,
    what: impl FnOnce(&Value) -> String,
) -> anyhow::Result<Outcome> {
    let body = service.read(ask)?;
    if service.json {
        return show::json(&body);
    }
    writeln!(io::stdout(), "{}", what(&body))?;
    Ok(Outcome::Fine)
}

fn show_one(args: &OneArgs) -> anyhow::Result<Outcome> {
    let body = args.service.read(Ask::new("GET", place(&args.id)))?;
    if args.service.json {
        return show::json(&body);
    }
    let fields = body.as_object().into_iter().flatten();
    let rows =
        fields.map(|(name, value)| [Cell::new(Tone::Dim, name.as_str()), show::text(value).into()]);
    show::table([("", Align::Left), ("", Align::Left)], rows)
}

fn list(args: &ListArgs) -> anyhow::Result<Outcome> {
    let state = args.state.and_then(|state| state.to_possible_value());
    let limit = args.limit.to_string();
    let ask = Ask::new("GET", "/v1/deferred").query(&[
        ("state", state.as_ref().map(|state| state.get_name())),
        ("rule", args.rule.as_deref()),
        ("limit", Some(&limit)),
    ]);
    let body = args.service.read(ask)?;
    if args.service.json {
        return show::json(&body);
    }
    let all = body["deferred"].as_array().map(Vec::as_slice).unwrap_or_default();
    if all.is_empty() {
        writeln!(io::stdout(), "nothing is deferred")?;
        return Ok(Outcome::Fine);
    }
    let rows = all.iter().map(|one| {
        let why = if one["why"].is_null() { String::new() } else { show::text(&one["why"]) };
        let request = format!("{} {}", show::text(&one["method"]), show::text(&one["target"]));
        [
            show::text(&one["id"]).into(),
            Cell::new(Tone::Bold, show::text(&one["state"])),
            show::text(&one["attempts"]).into(),
            show::text(&one["rule"]).into(),
            text::rule_key(one["key"].as_str().unwrap_or_default()).into(),
            request.into(),
            why.into(),
        ]
    });
    let head = [
        ("id", Align::Left),
        ("state", Align::Left),
        ("attempts", Align::Right),
        ("rule", Align::Left),
        ("key", Align::Left),
        ("request", Align::Left),
        ("", Align::Left),
    ];
    show::table(head, rows)
}
