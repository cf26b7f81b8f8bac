//! `tollgate check | peek | reset`: one call to a running server.

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};
use tollgate_rules::parse_described_key;

use super::decision_args::DecisionArgs;
use super::verdict;
use crate::Outcome;
use crate::output;
use crate::quantity::number;
use crate::service_client::{ServiceClient, ServiceRequest};

const CHECK_HELP: &str = "\
A request is written as for `tollgate explain`, after its domain if the server has several.

Examples:
  tollgate check POST /login ip=192.0.2.1
  tollgate check shop org=acme --cost 5
  tollgate check --key user:42 --limit \"10/s burst 20\" --limit 1000/day   both or none
  tollgate check --ready

Exit codes: 0 allowed or ready, 1 denied or not ready, 2 error.";

const KEY_HELP: &str = "\
Keys of a rule are written as `tollgate top` shows them:
  tollgate peek demo --rule login --key 192.0.2.1      needs a token
  tollgate reset demo POST /login ip=192.0.2.1
  tollgate reset --key user:42 --limit \"10/s burst 20\"

Exit codes: 0 allowed or reset, 1 a request would be denied, 2 error.";

/// The arguments of `tollgate check`.
#[derive(Args, Debug)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    decision: DecisionArgs,
    /// Cost of the request [default: 1]
    #[arg(long, value_name = "N", value_parser = number)]
    cost: Option<u64>,
    /// Health check: whether the server is ready, without a request
    #[arg(
        long,
        conflicts_with_all = ["words", "key", "limit", "cost"]
    )]
    ready: bool,
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate peek` and `tollgate reset`.
#[derive(Args, Debug)]
#[command(after_help = KEY_HELP)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    decision: DecisionArgs,
    /// Rule that counts by the key
    #[arg(long, requires = "key", conflicts_with = "limit")]
    rule: Option<String>,
    #[command(flatten)]
    service: ServiceClient,
}

/// Checks a request, which charges it if it is allowed.
pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<Outcome> {
    if args.ready {
        return Ok(Outcome::found(!args.service.is_success("/readyz")?));
    }
    let mut body = args.decision.body()?;
    if let Some(cost) = args.cost {
        body["cost"] = json!(cost);
    }
    let path = if args.decision.has_inline_limit() { "/v1/limit" } else { "/v1/check" };
    let reply = post(&args.service, path, &body, "allowed")?;
    Ok(Outcome::found(reply["allowed"] == false))
}

/// Prints the limits of a request or a key, without charging.
pub(crate) fn peek(args: &KeyArgs) -> anyhow::Result<Outcome> {
    let (path, body) = path_and_body(args, "peek")?;
    let mut reply = args.service.fetch_json(ServiceRequest::new("POST", path).json(&body))?;
    // A peek costs nothing, so the server allows it even if nothing is left.
    let limits = reply["limits"].as_array().map(Vec::as_slice).unwrap_or_default();
    let used_up = |limit: &Value| limit["remaining"] == 0 && limit["mode"] == "enforce";
    let denied = reply["allowed"] == false || limits.iter().any(used_up);
    reply["allowed"] = json!(!denied);
    print(&args.service, &reply, "would be allowed")?;
    Ok(Outcome::found(denied))
}

/// Resets the counters of a request or a key.
pub(crate) fn reset(args: &KeyArgs) -> anyhow::Result<Outcome> {
    let (path, body) = path_and_body(args, "reset")?;
    post(&args.service, &path, &body, "reset")?;
    Ok(Outcome::Fine)
}

fn path_and_body(args: &KeyArgs, what: &str) -> anyhow::Result<(String, Value)> {
    match (&args.rule, &args.decision.key) {
        (Some(rule), Some(key)) => {
            if !args.decision.request_words().is_empty() {
                bail!("--rule and --key name a counter: give no request with them");
            }
            let mut body = json!({ "rule": rule, "key": parse_described_key(key) });
            if let Some(domain) = args.decision.domain() {
                body["domain"] = json!(domain);
            }
            Ok((format!("/v1/keys/{what}"), body))
        }
        _ => Ok((format!("/v1/{what}"), args.decision.body()?)),
    }
}

fn post(service: &ServiceClient, path: &str, body: &Value, success: &str) -> anyhow::Result<Value> {
    let reply = service.fetch_json(ServiceRequest::new("POST", path).json(body))?;
    print(service, &reply, success)?;
    Ok(reply)
}

fn print(service: &ServiceClient, reply: &Value, success: &str) -> anyhow::Result<()> {
    match service.json {
        true => output::json(reply).map(drop),
        false => verdict::print(reply, success),
    }
}
