//! `tollgate rules mode` and `tollgate rules modes`.

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use crate::Outcome;
use crate::output;
use crate::service_client::{DryRunArgs, ServiceClient, ServiceRequest, insert_given};
use crate::style::Tone;
use crate::table::{Align, Cell};
use crate::text;

const MODE_HELP: &str = "\
A mode takes precedence over that of the rules file, at once and without dropping a request. A mode
of all rules ('*') takes precedence over those of single rules: with `off` it is the kill switch.

Examples:
  tollgate rules mode login shadow --for 1h --reason \"too many complaints\"
  tollgate rules mode api \"enforce 10%\"
  tollgate rules mode '*' off
  tollgate rules mode '*' --clear
  tollgate rules modes";

/// The arguments of `tollgate rules mode`.
#[derive(Args, Debug)]
#[command(after_help = MODE_HELP)]
pub(crate) struct ModeArgs {
    /// Rule, or '*' for all rules
    rule: String,
    /// Mode: enforce, shadow, off, or a share of the keys such as "enforce 10%"
    #[arg(required_unless_present = "clear", conflicts_with = "clear")]
    mode: Option<String>,
    /// Return to the mode of the rules file
    #[arg(long)]
    clear: bool,
    /// Duration of the mode, such as 10m or 1h
    #[arg(long = "for", value_name = "TIME", conflicts_with = "until")]
    lasts: Option<String>,
    /// End of the mode, such as 2027-01-01 [default: until it is cleared]
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

/// The arguments of `tollgate rules modes`.
#[derive(Args, Debug)]
pub(crate) struct ModesArgs {
    #[command(flatten)]
    service: ServiceClient,
}

pub(crate) fn set(args: &ModeArgs) -> anyhow::Result<Outcome> {
    let Some(mode) = &args.mode else { return clear(args) };
    let mut body = json!({ "rule": args.rule, "mode": mode });
    insert_given(
        &mut body,
        &[
            ("for", &args.lasts),
            ("until", &args.until),
            ("reason", &args.reason),
            ("domain", &args.domain),
        ],
    );
    let request = ServiceRequest::new("POST", "/v1/modes").dry_run(&args.dry_run).json(&body);
    output::change(&args.service, request, |_| format!("{} is {mode} now,", args.rule))
}

fn clear(args: &ModeArgs) -> anyhow::Result<Outcome> {
    let body = args.service.fetch_json(ServiceRequest::new("GET", "/v1/modes"))?;
    let is_selected = |mode: &&Value| {
        let domain = args.domain.as_deref();
        mode["rule"] == *args.rule && (domain.is_none() || mode["domain"].as_str() == domain)
    };
    let found: Vec<&Value> =
        body["modes"].as_array().into_iter().flatten().filter(is_selected).collect();
    match found[..] {
        [] => {
            bail!("no mode is set for {}: `tollgate rules modes` lists those that are", args.rule)
        }
        [one] => {
            let request = ServiceRequest::new("DELETE", format!("/v1/modes/{}", one["id"]))
                .dry_run(&args.dry_run);
            output::change(&args.service, request, |_| {
                format!("{} has the mode of its file,", args.rule)
            })
        }
        _ => bail!("{} has a mode in several domains: choose one with --domain", args.rule),
    }
}

pub(crate) fn list(args: &ModesArgs) -> anyhow::Result<Outcome> {
    let body = args.service.fetch_json(ServiceRequest::new("GET", "/v1/modes"))?;
    if args.service.json {
        return output::json(&body);
    }
    let rows = body["modes"].as_array().into_iter().flatten().map(|mode| {
        let optional = |field: &str| match &mode[field] {
            Value::Null => String::new(),
            value => output::text(value),
        };
        let rest = mode["rest_ms"].as_u64().map(|ms| ms.div_ceil(1000).saturating_mul(1_000_000));
        [
            optional("domain").into(),
            output::text(&mode["rule"]).into(),
            Cell::new(Tone::Bold, output::text(&mode["mode"])),
            rest.map_or("until cleared".to_owned(), text::duration).into(),
            output::text(&mode["who"]).into(),
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
    output::table(head, rows)
}
