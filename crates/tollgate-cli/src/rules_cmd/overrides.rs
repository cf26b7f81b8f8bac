//! `tollgate override add | remove | list`.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::output;
use crate::service_client::{DryRunArgs, ServiceClient, ServiceRequest, insert_given, parse_pair};
use crate::style::Tone;
use crate::table::{Align, Cell};

const ADD_HELP: &str = "\
Examples:
  tollgate override add --match org=acme --rule api --limit 50k/h --until 2027-01-01
  tollgate override add --match org=acme --plan pro --reason \"trial\"
  tollgate override add --match 'user=svc-*' --rule api --limit 10/s --limit 5k/h";

/// The arguments of `tollgate override add`.
#[derive(Args, Debug)]
#[command(after_help = ADD_HELP)]
pub(crate) struct OverrideAddArgs {
    /// Attribute and its value or a pattern with *; of several, all must match
    #[arg(
        long = "match",
        value_name = "NAME=VALUE",
        value_delimiter = ';',
        required = true,
        value_parser = parse_pair
    )]
    matches: Vec<(String, String)>,
    /// Rule whose limits are replaced
    #[arg(long)]
    rule: Option<String>,
    /// New limit; of several, all must allow
    #[arg(long, value_delimiter = ';', allow_hyphen_values = true)]
    limit: Vec<String>,
    /// New plan
    #[arg(long, conflicts_with = "limit")]
    plan: Option<String>,
    /// End of the override, such as 2027-01-01 [default: never]
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

/// The arguments of `tollgate override remove`.
#[derive(Args, Debug)]
pub(crate) struct OverrideRemoveArgs {
    /// Id of the override; see `tollgate override list`
    id: u64,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate override list`.
#[derive(Args, Debug)]
pub(crate) struct OverrideListArgs {
    #[command(flatten)]
    service: ServiceClient,
}

pub(crate) fn add(args: &OverrideAddArgs) -> anyhow::Result<Outcome> {
    let matches: Map<String, Value> =
        args.matches.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let mut body = json!({ "match": matches });
    if !args.limit.is_empty() {
        body["limit"] = json!(args.limit);
    }
    insert_given(
        &mut body,
        &[
            ("rule", &args.rule),
            ("plan", &args.plan),
            ("until", &args.until),
            ("reason", &args.reason),
            ("domain", &args.domain),
        ],
    );
    let request = ServiceRequest::new("POST", "/v1/overrides").dry_run(&args.dry_run).json(&body);
    output::change(&args.service, request, |body| output::added("override", body))
}

pub(crate) fn remove(args: &OverrideRemoveArgs) -> anyhow::Result<Outcome> {
    let request =
        ServiceRequest::new("DELETE", format!("/v1/overrides/{}", args.id)).dry_run(&args.dry_run);
    output::change(&args.service, request, |_| format!("removed override {},", args.id))
}

pub(crate) fn list(args: &OverrideListArgs) -> anyhow::Result<Outcome> {
    let body = args.service.fetch_json(ServiceRequest::new("GET", "/v1/overrides"))?;
    if args.service.json {
        return output::json(&body);
    }
    let rows = body["overrides"].as_array().into_iter().flatten().map(|stored| {
        let what = &stored["override"];
        let matches = what["match"].as_object().into_iter().flatten();
        let matches: Vec<String> =
            matches.map(|(name, value)| format!("{name}={}", output::text(value))).collect();
        let limits: Vec<String> =
            what["limit"].as_array().into_iter().flatten().map(output::text).collect();
        let gives = match &what["plan"] {
            Value::Null => limits.join(" and "),
            plan => format!("plan {}", output::text(plan)),
        };
        let reason =
            if what["reason"].is_null() { String::new() } else { output::text(&what["reason"]) };
        let [rule, until] = ["rule", "until"].map(|field| output::text(&what[field]).into());
        let who = output::text(&stored["who"]).into();
        let id = output::text(&stored["id"]).into();
        [
            id,
            matches.join(" ").into(),
            rule,
            Cell::new(Tone::Bold, gives),
            until,
            who,
            reason.into(),
        ]
    });
    let head = [
        ("id", Align::Right),
        ("match", Align::Left),
        ("rule", Align::Left),
        ("gives", Align::Left),
        ("until", Align::Left),
        ("by", Align::Left),
        ("", Align::Left),
    ];
    output::table(head, rows)
}
