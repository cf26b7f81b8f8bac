//! `tollgate ban add | remove | list | lift | export`.

use std::io::{self, Write};

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use tollgate_rules::parse_described_key;

use crate::Outcome;
use crate::output;
use crate::service_client::{
    DryRunArgs, ServiceClient, ServiceReply, ServiceRequest, insert_given,
};
use crate::style::Tone;
use crate::table::{Align, Cell};
use crate::text;

const BAN_HELP: &str = "\
Keys are written as `tollgate top` shows them.

Examples:
  tollgate ban add --rule login --key 192.0.2.1 --for 1h --reason \"password spraying\"
  tollgate ban list
  tollgate ban remove 3
  tollgate ban lift --rule login --key 192.0.2.1
  tollgate ban export --format nginx > /etc/nginx/banned.conf";

/// Manage banned keys of a running server
#[derive(Args, Debug)]
#[command(after_help = BAN_HELP)]
pub(crate) struct BanCommand {
    #[command(subcommand)]
    command: BanAction,
}

/// A subcommand of `tollgate ban`.
#[derive(Debug, Subcommand)]
enum BanAction {
    /// Ban a key of a rule
    Add(BanAddArgs),
    /// Remove a ban that was added by hand
    Remove(BanRemoveArgs),
    /// List bans, those added by hand and those of ladders
    List(BanListArgs),
    /// Lift a ban that the ladder of a rule set
    Lift(BanLiftArgs),
    /// Print the banned addresses, for a firewall
    Export(BanExportArgs),
}

/// The arguments of `tollgate ban lift`.
#[derive(Args, Debug)]
struct BanLiftArgs {
    /// Rule that banned the key
    #[arg(long)]
    rule: String,
    /// Key of the rule
    #[arg(long)]
    key: String,
    /// Domain of the rule, if there are several
    #[arg(long)]
    domain: Option<String>,
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate ban export`.
#[derive(Args, Debug)]
struct BanExportArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = BanFormat::Text)]
    format: BanFormat,
    /// Rule of the bans [default: all]
    #[arg(long)]
    rule: Option<String>,
    /// Domain of the bans [default: all]
    #[arg(long)]
    domain: Option<String>,
    #[command(flatten)]
    service: ServiceClient,
}

/// A format of exported bans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BanFormat {
    /// One address or network per line
    Text,
    /// Lines for an nginx include
    Nginx,
    /// Every ban, not only those of addresses
    Json,
}

/// The arguments of `tollgate ban add`.
#[derive(Args, Debug)]
struct BanAddArgs {
    /// Rule that counts by the key
    #[arg(long)]
    rule: String,
    /// Key of the rule
    #[arg(long)]
    key: String,
    /// Duration of the ban, such as 10m or 1h
    #[arg(long = "for", value_name = "TIME", conflicts_with = "until")]
    lasts: Option<String>,
    /// End of the ban, such as 2027-01-01 [default: never]
    #[arg(long, value_name = "DATE")]
    until: Option<String>,
    /// Reason, for people
    #[arg(long)]
    reason: Option<String>,
    /// Domain of the rule, if there are several
    #[arg(long)]
    domain: Option<String>,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate ban remove`.
#[derive(Args, Debug)]
struct BanRemoveArgs {
    /// Id of the ban; see `tollgate ban list`
    id: u64,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate ban list`.
#[derive(Args, Debug)]
struct BanListArgs {
    #[command(flatten)]
    service: ServiceClient,
}

pub(crate) fn run(command: &BanCommand) -> anyhow::Result<Outcome> {
    match &command.command {
        BanAction::Add(args) => add(args),
        BanAction::Remove(args) => {
            let request = ServiceRequest::new("DELETE", format!("/v1/bans/{}", args.id))
                .dry_run(&args.dry_run);
            output::change(&args.service, request, |_| format!("removed ban {},", args.id))
        }
        BanAction::List(args) => list(&args.service),
        BanAction::Lift(args) => lift(args),
        BanAction::Export(args) => export(args),
    }
}

fn lift(args: &BanLiftArgs) -> anyhow::Result<Outcome> {
    let given = parse_described_key(&args.key);
    let (rule, key) = (Some(args.rule.as_str()), Some(given.as_str()));
    let domain = args.domain.as_deref();
    let request = ServiceRequest::new("DELETE", "/v1/bans");
    let request = request.query(&[("rule", rule), ("key", key), ("domain", domain)]);
    let body = args.service.fetch_json(request)?;
    if args.service.json {
        return output::json(&body);
    }
    let key = text::rule_key(&given);
    let mut out = io::stdout().lock();
    match body["lifted"] == true {
        true => writeln!(out, "lifted the ban of {key}")?,
        false => writeln!(out, "{key} was not banned by {}", args.rule)?,
    }
    for id in body["still_by_hand"].as_array().into_iter().flatten() {
        writeln!(out, "still banned by hand: tollgate ban remove {id}")?;
    }
    Ok(Outcome::Fine)
}

fn export(args: &BanExportArgs) -> anyhow::Result<Outcome> {
    let format = args.format.to_possible_value();
    let request = ServiceRequest::new("GET", "/v1/bans").query(&[
        ("format", format.as_ref().map(|format| format.get_name())),
        ("rule", args.rule.as_deref()),
        ("domain", args.domain.as_deref()),
    ]);
    match args.service.send(request)? {
        ServiceReply::Success(response) => io::stdout().write_all(&response.body)?,
        ServiceReply::InvalidRules(problem) => bail!("{problem}"),
        ServiceReply::NotFound(detail) => bail!("{detail}"),
    }
    Ok(Outcome::Fine)
}

fn add(args: &BanAddArgs) -> anyhow::Result<Outcome> {
    let mut body = json!({ "rule": args.rule, "key": parse_described_key(&args.key) });
    insert_given(
        &mut body,
        &[
            ("for", &args.lasts),
            ("until", &args.until),
            ("reason", &args.reason),
            ("domain", &args.domain),
        ],
    );
    let request = ServiceRequest::new("POST", "/v1/bans").dry_run(&args.dry_run).json(&body);
    output::change(&args.service, request, |body| output::added("ban", body))
}

fn list(service: &ServiceClient) -> anyhow::Result<Outcome> {
    let body = service.fetch_json(ServiceRequest::new("GET", "/v1/bans"))?;
    if service.json {
        return output::json(&body);
    }
    let rows = body["bans"].as_array().into_iter().flatten().map(|ban| {
        let reason =
            if ban["reason"].is_null() { String::new() } else { output::text(&ban["reason"]) };
        let key = text::rule_key(ban["key"].as_str().unwrap_or_default());
        let rest =
            ban["rest_ms"].as_u64().map(|rest| rest.div_ceil(1000).saturating_mul(1_000_000));
        [
            if ban["id"].is_null() { String::new() } else { output::text(&ban["id"]) }.into(),
            output::text(&ban["rule"]).into(),
            Cell::new(Tone::Bold, key),
            rest.map_or("forever".to_owned(), text::duration).into(),
            match &ban["rung"] {
                Value::Null => output::text(&ban["who"]).into(),
                rung => format!("its ladder, rung {rung}").into(),
            },
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
    output::table(head, rows)
}
