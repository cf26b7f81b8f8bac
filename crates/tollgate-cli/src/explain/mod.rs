//! `tollgate explain`: which rules apply to one request, and how they decide.

mod ask;
mod report;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;
use tollgate::Limiter;
use tollgate::testing::ManualClock;

use crate::style::Style;
use crate::{Outcome, load};
use ask::Ask;

const EXPLAIN_HELP: &str = "\
A request is a method and a path, and what else is known of it as name=value:
  ip=203.0.113.7       where it comes from
  user=ann plan=pro    attributes your service sets
  header.x-org=acme    a header; likewise query.NAME and cookie.NAME
  host=shop.example    the host it is for
  cost=3               what it costs, where a rule does not say
  domain=shop          which domain's rules, if there are several
  at=2026-01-31T12:00:00Z  when, for schedules and overrides; now unless given

Counters are those of a server that was just started: nothing was spent yet.

Examples:
  tollgate explain tollgate.yaml POST /login ip=203.0.113.7
  tollgate explain tollgate.yaml GET /api/orders user=ann plan=pro --json

Exit codes: 0 allowed, 1 denied, 2 error.";

#[derive(Args, Debug)]
#[command(after_long_help = EXPLAIN_HELP)]
#[command(after_help = "How to write a request: tollgate explain --help")]
pub(crate) struct ExplainArgs {
    /// A file or directory of rules; "-" is standard input
    #[arg(value_name = "FILE|DIR")]
    file: PathBuf,

    /// The request: METHOD PATH name=value…
    #[arg(value_name = "REQUEST", required = true)]
    request: Vec<String>,

    /// Answer in JSON, one object
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    json: bool,
}

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Outcome> {
    let asked = Ask::parse(&args.request)?;
    let request = asked.request()?;
    let rules = load::rules(&args.file)?;
    let limiter = match asked.at {
        Some(at) => Limiter::builder().clock(&ManualClock::at(at)).build_rules(rules),
        None => Limiter::from_rules(rules),
    };
    let explanation = limiter.explain(&request);
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
