//! `tollgate ban add | remove | list | lift | export`.

use std::io::{self, Write};

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::Outcome;
use crate::ask::{Ask, DryRun, Reply, Service, give};
use crate::show;
use crate::style::Tone;
use crate::table::{Align, Cell};
use crate::text;

const BAN_HELP: &str = "\
A key is named as `tollgate top` shows it.

Examples:
  tollgate ban add --rule login --key 192.0.2.1 --for 1h --reason \"password spraying\"
  tollgate ban list
  tollgate ban remove 3
  tollgate ban lift --rule login --key 192.0.2.1
  tollgate ban export --format nginx > /etc/nginx/banned.conf";

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
    /// List those that are banned, by hand or by the ladder of a rule
    List(ListArgs),
    /// Lift the ban that the ladder of a rule has given
    Lift(LiftArgs),
    /// Print the addresses that are banned, for a firewall
    Export(ExportArgs),
}

#[derive(Args, Debug)]
struct LiftArgs {
    /// The rule that banned the key
    #[arg(long, env = "TOLLGATE_RULE")]
    rule: String,
    /// The key
    #[arg(long, env = "TOLLGATE_BAN_KEY")]
    key: String,
    /// The domain of the rule, if there is more than one
    #[arg(long, env = "TOLLGATE_DOMAIN")]
    domain: Option<String>,
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
struct ExportArgs {
    /// How they are written
    #[arg(long, env = "TOLLGATE_BAN_FORMAT", value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Only bans of this rule
    #[arg(long, env = "TOLLGATE_RULE")]
    rule: Option<String>,
    /// Only bans of this domain
    #[arg(long, env = "TOLLGATE_DOMAIN")]
    domain: Option<String>,
    #[command(flatten)]
    service: Service,
}

/// How bans are written for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One address or network a line
    Text,
    /// Lines as nginx includes them
    Nginx,
    /// Every ban, whatever its key
    Json,
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
        Ban::Lift(args) => lift(args),
        Ban::Export(args) => export(args),
    }
}

fn lift(args: &LiftArgs) -> anyhow::Result<Outcome> {
    let (rule, key) = (Some(args.rule.as_str()), Some(args.key.as_str()));
    let domain = args.domain.as_deref();
    let ask = Ask::new("DELETE", "/v1/bans");
    let ask = ask.query(&[("rule", rule), ("key", key), ("domain", domain)]);
    let body = args.service.read(ask)?;
    if args.service.json {
        return show::json(&body);
    }
    let key = text::rule_key(&args.key);
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

fn export(args: &ExportArgs) -> anyhow::Result<Outcome> {
    let format = args.format.to_possible_value();
    let ask = Ask::new("GET", "/v1/bans").query(&[
        ("format", format.as_ref().map(|format| format.get_name())),
        ("rule", args.rule.as_deref()),
        ("domain", args.domain.as_deref()),
    ]);
    match args.service.ask(ask)? {
        Reply::Fine(answer) => io::stdout().write_all(&answer.body)?,
        Reply::Wrong(problem) => bail!("{problem}"),
        Reply::Missing(detail) => bail!("{detail}"),
    }
    Ok(Outcome::Fine)
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
            if ban["id"].is_null() { String::new() } else { show::text(&ban["id"]) }.into(),
            show::text(&ban["rule"]).into(),
            Cell::new(Tone::Bold, key),
            rest.map_or("for ever".to_owned(), text::duration).into(),
            match &ban["rung"] {
                Value::Null => show::text(&ban["who"]).into(),
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
    show::table(head, rows)
}
