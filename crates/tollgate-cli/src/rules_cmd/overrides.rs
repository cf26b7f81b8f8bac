//! `tollgate override add | remove | list`.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::ask::{Ask, DryRun, Service, give, pair};
use crate::show;
use crate::style::Tone;
use crate::table::{Align, Cell};

const ADD_HELP: &str = "\
Examples:
  tollgate override add --match org=acme --rule api --limit 50k/h --until 2027-01-01
  tollgate override add --match org=acme --plan pro --reason \"trial\"
  tollgate override add --match 'user=svc-*' --rule api --limit 10/s --limit 5k/h";

#[derive(Args, Debug)]
#[command(after_help = ADD_HELP)]
pub(crate) struct AddArgs {
    /// Whom it is about: an attribute and its value, or a pattern with *; all must fit
    #[arg(
        long = "match",
        env = "TOLLGATE_OVERRIDE_MATCH",
        value_name = "NAME=VALUE",
        value_delimiter = ';',
        required = true,
        value_parser = pair
    )]
    matches: Vec<(String, String)>,
    /// The rule whose limits it replaces
    #[arg(long, env = "TOLLGATE_OVERRIDE_RULE")]
    rule: Option<String>,
    /// The limit instead; of several, all must allow
    #[arg(
        long,
        env = "TOLLGATE_OVERRIDE_LIMIT",
        value_delimiter = ';',
        allow_hyphen_values = true
    )]
    limit: Vec<String>,
    /// The plan instead
    #[arg(long, env = "TOLLGATE_OVERRIDE_PLAN", conflicts_with = "limit")]
    plan: Option<String>,
    /// Until when, such as 2027-01-01; for ever without it
    #[arg(long, env = "TOLLGATE_OVERRIDE_UNTIL", value_name = "DATE")]
    until: Option<String>,
    /// Why, for people
    #[arg(long, env = "TOLLGATE_OVERRIDE_REASON")]
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
pub(crate) struct RemoveArgs {
    /// Its id; see `tollgate override list`
    id: u64,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    service: Service,
}

pub(crate) fn add(args: &AddArgs) -> anyhow::Result<Outcome> {
    let matches: Map<String, Value> =
        args.matches.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let mut body = json!({ "match": matches });
    if !args.limit.is_empty() {
        body["limit"] = json!(args.limit);
    }
    give(
        &mut body,
        &[
            ("rule", &args.rule),
            ("plan", &args.plan),
            ("until", &args.until),
            ("reason", &args.reason),
            ("domain", &args.domain),
        ],
    );
    let ask = Ask::new("POST", "/v1/overrides").dry_run(&args.dry_run).json(&body);
    show::change(&args.service, ask, |body| show::added("override", body))
}

pub(crate) fn remove(args: &RemoveArgs) -> anyhow::Result<Outcome> {
    let ask = Ask::new("DELETE", format!("/v1/overrides/{}", args.id)).dry_run(&args.dry_run);
    show::change(&args.service, ask, |_| format!("removed override {},", args.id))
}

pub(crate) fn list(args: &ListArgs) -> anyhow::Result<Outcome> {
    let body = args.service.read(Ask::new("GET", "/v1/overrides"))?;
    if args.service.json {
        return show::json(&body);
    }
    let rows = body["overrides"].as_array().into_iter().flatten().map(|stored| {
        let what = &stored["override"];
        let matches = what["match"].as_object().into_iter().flatten();
        let matches: Vec<String> =
            matches.map(|(name, value)| format!("{name}={}", show::text(value))).collect();
        let limits: Vec<String> =
            what["limit"].as_array().into_iter().flatten().map(show::text).collect();
        let gives = match &what["plan"] {
            Value::Null => limits.join(" and "),
            plan => format!("plan {}", show::text(plan)),
        };
        let reason =
            if what["reason"].is_null() { String::new() } else { show::text(&what["reason"]) };
        let [rule, until] = ["rule", "until"].map(|field| show::text(&what[field]).into());
        let who = show::text(&stored["who"]).into();
        let id = show::text(&stored["id"]).into();
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
    show::table(head, rows)
}
