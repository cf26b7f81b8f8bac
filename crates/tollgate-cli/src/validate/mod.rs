//! `tollgate validate`: what is wrong with rules, and where.

mod report;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;
use tollgate::Rules;

use crate::style::Style;
use crate::{Outcome, load};
use report::Report;

const VALIDATE_HELP: &str = "\
Examples:
  tollgate validate tollgate.yaml
  tollgate validate rules/ --strict
  tollgate validate tollgate.yaml --json

Exit codes: 0 the rules can be used, 1 they cannot (or there are warnings, with --strict), 2 they
cannot be read.";

#[derive(Args, Debug)]
#[command(after_help = VALIDATE_HELP)]
pub(crate) struct ValidateArgs {
    /// Files or directories of rules; "-" is standard input
    #[arg(value_name = "FILE|DIR", required = true)]
    paths: Vec<PathBuf>,

    /// Take warnings for errors
    #[arg(long, env = "TOLLGATE_STRICT", value_parser = BoolishValueParser::new())]
    strict: bool,

    /// Answer in JSON, one object
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    json: bool,
}

pub(crate) fn run(args: &ValidateArgs) -> anyhow::Result<Outcome> {
    let sources = load::sources(&args.paths)?;
    let names: Vec<String> = sources.iter().map(|source| source.name.clone()).collect();
    let read = Rules::read(sources);
    let report = Report::of(&read, args.strict);
    let mut out = BufWriter::new(io::stdout().lock());
    match args.json {
        true => {
            serde_json::to_writer(&mut out, &report)?;
            writeln!(out)?;
        }
        false => {
            let style = Style::when(io::stdout().is_terminal());
            report.write(&mut out, style, &names, &read)?;
        }
    }
    out.flush()?;
    Ok(Outcome::found(!report.ok))
}
