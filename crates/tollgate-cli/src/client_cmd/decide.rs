//! `tollgate check | peek | reset`: one question to a running server.

use clap::Args;
use clap::builder::BoolishValueParser;
use serde_json::{Value, json};

use super::question::Question;
use super::verdict;
use crate::Outcome;
use crate::ask::{Ask, Service};
use crate::quantity::number;
use crate::show;

const CHECK_HELP: &str = "\
Examples:
  tollgate check demo ip=192.0.2.1 route='POST /login'
  tollgate check shop org=acme --cost 5
  tollgate check --key user:42 --limit \"10/s burst 20\"
  tollgate check --ready

Exit codes: 0 allowed or ready, 1 denied or not ready, 2 error.";

const KEY_HELP: &str = "\
A key of a rule is named as `tollgate top` shows it:
  tollgate peek demo --rule login --key 192.0.2.1      needs a token
  tollgate reset demo ip=192.0.2.1 route='POST /login'
  tollgate reset --key user:42 --limit \"10/s burst 20\"

Exit codes: 0 allowed or done, 1 it would be denied, 2 error.";

#[derive(Args, Debug)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    question: Question,
    /// How much is asked for: 1
    #[arg(long, env = "TOLLGATE_COST", value_name = "N", value_parser = number)]
    cost: Option<u64>,
    /// Ask only whether the server is ready for more, as a health check does
    #[arg(
        long,
        env = "TOLLGATE_CHECK_READY",
        value_parser = BoolishValueParser::new(),
        conflicts_with_all = ["domain", "key", "limit", "cost"]
    )]
    ready: bool,
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
#[command(after_help = KEY_HELP)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    question: Question,
    /// The rule that counts by the key
    #[arg(long, env = "TOLLGATE_RULE", requires = "key", conflicts_with_all = ["limit", "attributes"])]
    rule: Option<String>,
    #[command(flatten)]
    service: Service,
}

/// Decides: what is allowed is spent.
pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<Outcome> {
    if args.ready {
        return Ok(Outcome::found(!args.service.is_fine("/readyz")?));
    }
    let mut body = args.question.body()?;
    if let Some(cost) = args.cost {
        body["cost"] = json!(cost);
    }
    let path = if args.question.brings_limit() { "/v1/limit" } else { "/v1/check" };
    let reply = answer(&args.service, path, &body, "allowed")?;
    Ok(Outcome::found(reply["allowed"] == false))
}

/// Says how it stands; nothing is spent.
pub(crate) fn peek(args: &KeyArgs) -> anyhow::Result<Outcome> {
    let (path, body) = about(args, "peek")?;
    let mut reply = args.service.read(Ask::new("POST", path).json(&body))?;
    // A look costs nothing, so it is allowed even where nothing is left.
    let limits = reply["limits"].as_array().map(Vec::as_slice).unwrap_or_default();
    let used_up = |limit: &Value| limit["remaining"] == 0 && limit["mode"] == "enforce";
    let denied = reply["allowed"] == false || limits.iter().any(used_up);
    reply["allowed"] = json!(!denied);
    show(&args.service, &reply, "would be allowed")?;
    Ok(Outcome::found(denied))
}

/// Forgets what was spent.
pub(crate) fn reset(args: &KeyArgs) -> anyhow::Result<Outcome> {
    let (path, body) = about(args, "reset")?;
    answer(&args.service, &path, &body, "reset")?;
    Ok(Outcome::Fine)
}

fn about(args: &KeyArgs, what: &str) -> anyhow::Result<(String, Value)> {
    let Question { domain, key, .. } = &args.question;
    match (&args.rule, key) {
        (Some(rule), Some(key)) => {
            let mut body = json!({ "rule": rule, "key": key });
            if let Some(domain) = domain {
                body["domain"] = json!(domain);
            }
            Ok((format!("/v1/keys/{what}"), body))
        }
        _ => Ok((format!("/v1/{what}"), args.question.body()?)),
    }
}

fn answer(service: &Service, path: &str, body: &Value, fine: &str) -> anyhow::Result<Value> {
    let reply = service.read(Ask::new("POST", path).json(body))?;
    show(service, &reply, fine)?;
    Ok(reply)
}

fn show(service: &Service, reply: &Value, fine: &str) -> anyhow::Result<()> {
    match service.json {
        true => show::json(reply).map(drop),
        false => verdict::print(reply, fine),
    }
}
