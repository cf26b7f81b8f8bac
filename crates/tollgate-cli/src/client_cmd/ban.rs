//! `tollgate ban add | remove | list`.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::Outcome;
use crate::ask::{Ask, DryRun, Service, give};
use crate::show;
use crate::style::Tone;
use crate::table::{Align, Cell};
use crate::text;

const BAN_HELP: &str = "\
A key is named as `tollgate top` shows it.

Examples:
  tollgate ban add --rule login --key 192.0.2.1 --for 1h --reason \"password spraying\"
  tollgate ban list
  tollgate ban remove 3";

/// Keys of rules that are refused whatever is left
#[derive(Args, Debug)]
#[command(after_help = BAN_HELP)]
pub(crate) struct BanCommand {
    #[command(subcommand)]
    command: Ban,
}

#[derive(Debug, Subcommand)]
enum Ban {
    /// Refuse a key of a rule
    Add(AddArgs),
    /// Let it be again
    Remove(RemoveArgs),
    /// List those that are banned
    List(ListArgs),
}

#[derive(Args, Debug)]
struct AddArgs {
    /// The rule that counts by the key
    #[arg(long, env = "TOLLGATE_RULE")]
    rule: String,
    /// The key
    #[arg(long, env = "TOLLGATE_BAN_KEY")]
    key: String,
    /// How long, such as 10m or 1h
    #[arg(long = "for", env = "TOLLGATE_BAN_FOR", value_name = "TIME", conflicts_with = "until")]
    lasts: Option<String>,
    /// Until when, such as 2027-01-01; for ever without either
    #[arg(long, env = "TOLLGATE_BAN_UNTIL", value_name = "DATE")]
    until: Option<String>,
    /// Why, for people
    #[arg(long, env = "TOLLGATE_BAN_REASON")]
    reason: Option<String>,
    /// The domain of the rule, if there is more than one
    #[arg(long, env = "TOLLGATE_DOMAIN")]
    domain: Option<String>,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
struct RemoveArgs {
    /// Its id; see `tollgate ban list`
    id: u64,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
struct ListArgs {
    #[command(flatten)]
    service: Service,
}

pub(crate) fn run(command: &BanCommand) -> anyhow::Result<Outcome> {
    match &command.command {
        Ban::Add(args) => add(args),
        Ban::Remove(args) => {
            let ask = Ask::new("DELETE", format!("/v1/bans/{}", args.id)).dry_run(&args.dry_run);
            show::change(&args.service, ask, |_| format!("removed ban {},", args.id))
        }
        Ban::List(args) => list(&args.service),
    }
}

fn add(args: &AddArgs) -> anyhow::Result<Outcome> {
    let mut body = json!({ "rule": args.rule, "key": args.key });
    give(
        &mut body,
        &[
            ("for", &args.lasts),
            ("until", &args.until),
            ("reason", &args.reason),
            ("domain", &args.domain),
        ],
    );
    let ask = Ask::new("POST", "/v1/bans").dry_run(&args.dry_run).json(&body);
    show::change(&args.service, ask, |body| show::added("ban", body))
}

fn list(service: &Service) -> anyhow::Result<Outcome> {
    let body = service.read(Ask::new("GET", "/v1/bans"))?;
    if service.json {
        return show::json(&body);
    }
    let rows = body["bans"].as_array().into_iter().flatten().map(|ban| {
        let reason =
            if ban["reason"].is_null() { String::new() } else { show::text(&ban["reason"]) };
        let key = text::rule_key(ban["key"].as_str().unwrap_or_default());
        let rest =
            ban["rest_ms"].as_u64().map(|rest| rest.div_ceil(1000).saturating_mul(1_000_000));
        [
            show::text(&ban["id"]).into(),
            show::text(&ban["rule"]).into(),
            Cell::new(Tone::Bold, key),
            rest.map_or("for ever".to_owned(), text::duration).into(),
            show::text(&ban["who"]).into(),
            reason.into(),
        ]
    });
    let head = [
        ("id", Align::Right),
        ("rule", Align::Left),
        ("key", Align::Left),
        ("still", Align::Right),
        ("by", Align::Left),
        ("", Align::Left),
    ];
    show::table(head, rows)
}
