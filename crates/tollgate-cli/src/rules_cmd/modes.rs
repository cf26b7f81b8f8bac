//! `tollgate rules mode` and `tollgate rules modes`.

use anyhow::bail;
use clap::Args;
use clap::builder::BoolishValueParser;
use serde_json::{Value, json};

use crate::Outcome;
use crate::ask::{Ask, DryRun, Service, give};
use crate::show;
use crate::style::Tone;
use crate::table::{Align, Cell};
use crate::text;

const MODE_HELP: &str = "\
What is set here goes before what the file says, at once and without dropping a request. A mode of
all rules ('*') goes before those of single ones: with `off` it is the kill switch.

Examples:
  tollgate rules mode login shadow --for 1h --reason \"too many complaints\"
  tollgate rules mode api \"enforce 10%\"
  tollgate rules mode '*' off
  tollgate rules mode '*' --clear
  tollgate rules modes";

#[derive(Args, Debug)]
#[command(after_help = MODE_HELP)]
pub(crate) struct ModeArgs {
    /// The rule, or '*' for all of them
    rule: String,
    /// enforce, shadow, off, or a share of the keys such as "enforce 10%"
    #[arg(required_unless_present = "clear", conflicts_with = "clear")]
    mode: Option<String>,
    /// Have the rules file say it again
    #[arg(long, env = "TOLLGATE_MODE_CLEAR", value_parser = BoolishValueParser::new())]
    clear: bool,
    /// How long, such as 10m or 1h
    #[arg(long = "for", env = "TOLLGATE_MODE_FOR", value_name = "TIME", conflicts_with = "until")]
    lasts: Option<String>,
    /// Until when, such as 2027-01-01; until it is cleared without either
    #[arg(long, env = "TOLLGATE_MODE_UNTIL", value_name = "DATE")]
    until: Option<String>,
    /// Why, for people
    #[arg(long, env = "TOLLGATE_MODE_REASON")]
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
pub(crate) struct ModesArgs {
    #[command(flatten)]
    service: Service,
}

pub(crate) fn set(args: &ModeArgs) -> anyhow::Result<Outcome> {
    let Some(mode) = &args.mode else { return clear(args) };
    let mut body = json!({ "rule": args.rule, "mode": mode });
    give(
        &mut body,
        &[
            ("for", &args.lasts),
            ("until", &args.until),
            ("reason", &args.reason),
            ("domain", &args.domain),
        ],
    );
    let ask = Ask::new("POST", "/v1/modes").dry_run(&args.dry_run).json(&body);
    show::change(&args.service, ask, |_| format!("{} is {mode} now,", args.rule))
}

fn clear(args: &ModeArgs) -> anyhow::Result<Outcome> {
    let body = args.service.read(Ask::new("GET", "/v1/modes"))?;
    let is_meant = |mode: &&Value| {
        let domain = args.domain.as_deref();
        mode["rule"] == *args.rule && (domain.is_none() || mode["domain"].as_str() == domain)
    };
    let found: Vec<&Value> =
        body["modes"].as_array().into_iter().flatten().filter(is_meant).collect();
    match found[..] {
        [] => {
            bail!("no mode was set for {}: `tollgate rules modes` lists those that were", args.rule)
        }
        [one] => {
            let ask = Ask::new("DELETE", format!("/v1/modes/{}", one["id"])).dry_run(&args.dry_run);
            show::change(&args.service, ask, |_| format!("{} is as its file says,", args.rule))
        }
        _ => bail!("{} has a mode in several domains: name one by --domain", args.rule),
    }
}

pub(crate) fn list(args: &ModesArgs) -> anyhow::Result<Outcome> {
    let body = args.service.read(Ask::new("GET", "/v1/modes"))?;
    if args.service.json {
        return show::json(&body);
    }
    let rows = body["modes"].as_array().into_iter().flatten().map(|mode| {
        let optional = |field: &str| match &mode[field] {
            Value::Null => String::new(),
            value => show::text(value),
        };
        let rest = mode["rest_ms"].as_u64().map(|ms| ms.div_ceil(1000).saturating_mul(1_000_000));
        [
            optional("domain").into(),
            show::text(&mode["rule"]).into(),
            Cell::new(Tone::Bold, show::text(&mode["mode"])),
            rest.map_or("until cleared".to_owned(), text::duration).into(),
            show::text(&mode["who"]).into(),
            optional("reason").into(),
        ]
    });
    let head = [
        ("domain", Align::Left),
        ("rule", Align::Left),
        ("mode", Align::Left),
        ("still", Align::Right),
        ("by", Align::Left),
        ("", Align::Left),
    ];
    show::table(head, rows)
}
