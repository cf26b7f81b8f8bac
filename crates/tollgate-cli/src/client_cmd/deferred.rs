//! `tollgate deferred list | show | cancel | replay`.

use std::io::{self, Write};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use crate::Outcome;
use crate::output;
use crate::service_client::{ServiceClient, ServiceRequest, percent_encode};
use crate::style::Tone;
use crate::table::{Align, Cell};
use crate::text;

const DEFERRED_HELP: &str = "\
Rules with `then: defer` store requests over their limit and send them later. Requests that an
upstream never accepts are dead letters, in the state failed, until they are replayed or cancelled, or
until they expire.

Examples:
  tollgate deferred list --state failed
  tollgate deferred show 3f2a…
  tollgate deferred cancel 3f2a…
  tollgate deferred replay 3f2a…
  tollgate deferred replay --rule report      all dead letters of a rule
  tollgate deferred replay --all";

/// Manage deferred requests of a running server
#[derive(Args, Debug)]
#[command(after_help = DEFERRED_HELP)]
pub(crate) struct DeferredCommand {
    #[command(subcommand)]
    command: DeferredAction,
}

/// A subcommand of `tollgate deferred`.
#[derive(Debug, Subcommand)]
enum DeferredAction {
    /// List deferred requests, the newest first
    List(DeferredListArgs),
    /// Show one deferred request
    Show(DeferredIdArgs),
    /// Cancel one that waits or has failed
    Cancel(DeferredIdArgs),
    /// Send dead letters again
    Replay(DeferredReplayArgs),
}

/// The arguments of `tollgate deferred list`.
#[derive(Args, Debug)]
struct DeferredListArgs {
    /// State of the requests [default: all]
    #[arg(long, value_enum)]
    state: Option<DeferredState>,
    /// Rule of the requests [default: all]
    #[arg(long)]
    rule: Option<String>,
    /// Number of requests
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u16,
    #[command(flatten)]
    service: ServiceClient,
}

/// The state of a deferred request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DeferredState {
    /// Waiting
    Queued,
    /// Being sent
    Sending,
    /// Answered by the upstream
    Done,
    /// A dead letter
    Failed,
    /// Cancelled
    Cancelled,
}

/// The arguments of `tollgate deferred show` and `cancel`.
#[derive(Args, Debug)]
struct DeferredIdArgs {
    /// Id of the request; see `tollgate deferred list`
    id: String,
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate deferred replay`.
#[derive(Args, Debug)]
struct DeferredReplayArgs {
    /// Id of the request; see `tollgate deferred list --state failed`
    #[arg(required_unless_present_any = ["rule", "all"], conflicts_with_all = ["rule", "all"])]
    id: Option<String>,
    /// Rule whose dead letters are sent
    #[arg(long)]
    rule: Option<String>,
    /// All dead letters
    #[arg(long, conflicts_with = "rule",
          value_parser = clap::builder::BoolishValueParser::new())]
    all: bool,
    #[command(flatten)]
    service: ServiceClient,
}

pub(crate) fn run(command: &DeferredCommand) -> anyhow::Result<Outcome> {
    match &command.command {
        DeferredAction::List(args) => list(args),
        DeferredAction::Show(args) => show_one(args),
        DeferredAction::Cancel(args) => {
            let request = ServiceRequest::new("DELETE", path(&args.id));
            change(&args.service, request, |_| format!("{} is cancelled", args.id))
        }
        DeferredAction::Replay(args) => replay(args),
    }
}

fn path(id: &str) -> String {
    format!("/v1/deferred/{}", percent_encode(id))
}

fn replay(args: &DeferredReplayArgs) -> anyhow::Result<Outcome> {
    match &args.id {
        Some(id) => {
            let request = ServiceRequest::new("POST", format!("{}/replay", path(id)));
            change(&args.service, request, |_| format!("{id} is sent again"))
        }
        None => {
            let request = ServiceRequest::new("POST", "/v1/deferred/replay")
                .query(&[("rule", args.rule.as_deref())]);
            change(&args.service, request, |body| {
                let count = body["replayed"].as_u64().unwrap_or(0);
                format!("sent again: {}", text::count(count, "dead letter"))
            })
        }
    }
}

fn change(
    service: &ServiceClient,
    request: ServiceRequest<'_>,
    what: impl FnOnce(&Value) -> String,
) -> anyhow::Result<Outcome> {
    let body = service.fetch_json(request)?;
    if service.json {
        return output::json(&body);
    }
    writeln!(io::stdout(), "{}", what(&body))?;
    Ok(Outcome::Fine)
}

fn show_one(args: &DeferredIdArgs) -> anyhow::Result<Outcome> {
    let body = args.service.fetch_json(ServiceRequest::new("GET", path(&args.id)))?;
    if args.service.json {
        return output::json(&body);
    }
    let fields = body.as_object().into_iter().flatten();
    let rows = fields.map(|(name, value)| match name.as_str() {
        "expires_ms" => [Cell::new(Tone::Dim, "expires"), moment(value).into()],
        name => [Cell::new(Tone::Dim, name), output::text(value).into()],
    });
    output::table([("", Align::Left), ("", Align::Left)], rows)
}

fn list(args: &DeferredListArgs) -> anyhow::Result<Outcome> {
    let state = args.state.and_then(|state| state.to_possible_value());
    let limit = args.limit.to_string();
    let request = ServiceRequest::new("GET", "/v1/deferred").query(&[
        ("state", state.as_ref().map(|state| state.get_name())),
        ("rule", args.rule.as_deref()),
        ("limit", Some(&limit)),
    ]);
    let body = args.service.fetch_json(request)?;
    if args.service.json {
        return output::json(&body);
    }
    let all = body["deferred"].as_array().map(Vec::as_slice).unwrap_or_default();
    if all.is_empty() {
        writeln!(io::stdout(), "nothing is deferred")?;
        return Ok(Outcome::Fine);
    }
    let rows = all.iter().map(|one| {
        let reason = if one["why"].is_null() { String::new() } else { output::text(&one["why"]) };
        let request = format!("{} {}", output::text(&one["method"]), output::text(&one["target"]));
        [
            output::text(&one["id"]).into(),
            Cell::new(Tone::Bold, output::text(&one["state"])),
            output::text(&one["attempts"]).into(),
            Cell::new(Tone::Dim, moment(&one["expires_ms"])),
            output::text(&one["rule"]).into(),
            text::rule_key(one["key"].as_str().unwrap_or_default()).into(),
            request.into(),
            reason.into(),
        ]
    });
    let head = [
        ("id", Align::Left),
        ("state", Align::Left),
        ("attempts", Align::Right),
        ("expires", Align::Left),
        ("rule", Align::Left),
        ("key", Align::Left),
        ("request", Align::Left),
        ("", Align::Left),
    ];
    output::table(head, rows)
}

/// Formats a time in milliseconds since 1970 to the second; a missing one is empty.
fn moment(ms: &Value) -> String {
    let at = ms.as_i64().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.map(|at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()).unwrap_or_default()
}
