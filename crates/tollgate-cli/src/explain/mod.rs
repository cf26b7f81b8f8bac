//! `tollgate explain`: which rules apply to one request, and how they decide.

mod report;
mod request_args;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;
use futures_util::FutureExt;
use tollgate::testing::ManualClock;
use tollgate_rules::RuleLimiter;

use crate::style::Style;
use crate::{Outcome, load};
use request_args::RequestArgs;

const EXPLAIN_HELP: &str = "\
A request is a method, a path, and attributes as name=value:
  ip=203.0.113.7       the client's address
  user=ann plan=pro    attributes that your service sets
  header.x-org=acme    a header; likewise query.NAME and cookie.NAME
  host=shop.example    the requested host
  cost=3               the cost, for rules without one
  domain=shop          the domain of the rules, if there are several
  at=2026-01-31T12:00:00Z  the time, for schedules and overrides [default: now]

Counters start empty, as in a server that has just started.

Examples:
  tollgate explain tollgate.yaml POST /login ip=203.0.113.7
  tollgate explain tollgate.yaml GET /api/orders user=ann plan=pro --json

Exit codes: 0 allowed, 1 denied, 2 error.";

/// The arguments of `tollgate explain`.
#[derive(Args, Debug)]
#[command(after_long_help = EXPLAIN_HELP)]
#[command(after_help = "How to write a request: tollgate explain --help")]
pub(crate) struct ExplainArgs {
    /// File or directory of rules; "-" is standard input
    #[arg(value_name = "FILE|DIR")]
    file: PathBuf,

    /// Request, as METHOD PATH name=value…
    #[arg(value_name = "REQUEST", required = true)]
    request: Vec<String>,

    /// JSON output, one object
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    json: bool,
}

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Outcome> {
    let request_args = RequestArgs::parse(&args.request)?;
    let request = request_args.request()?;
    let rules = load::rules(&args.file)?;
    let limiter = match request_args.at {
        Some(at) => RuleLimiter::builder().clock(&ManualClock::at(at)).build(rules),
        None => RuleLimiter::new(rules),
    };
    let explanation = limiter.explain(&request).now_or_never();
    let explanation = explanation.expect("the memory store does not wait");
    let mut out = BufWriter::new(io::stdout().lock());
    match args.json {
        true => {
            serde_json::to_writer(&mut out, &explanation)?;
            writeln!(out)?;
        }
        false => {
            let style = Style::when(io::stdout().is_terminal());
            report::write(&mut out, style, &explanation, &limiter.rules())?;
        }
    }
    out.flush()?;
    Ok(Outcome::found(!explanation.allowed))
}
