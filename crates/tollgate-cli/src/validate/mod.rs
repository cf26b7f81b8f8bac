//! `tollgate validate`: checks rules for errors and warnings.

mod report;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use tollgate_rules::Door;

use crate::style::Style;
use crate::{Outcome, load};
use report::{ValidatedRules, ValidationReport};

const VALIDATE_HELP: &str = "\
Examples:
  tollgate validate
  tollgate validate rules/ --strict
  tollgate validate --door grpc
  tollgate validate --json

Exit codes: 0 valid, 1 invalid (with --strict also warnings), 2 the files cannot be read.
What a door named by --door does not support, or an attribute it cannot supply, is a warning.";

/// The arguments of `tollgate validate`.
#[derive(Args, Debug)]
#[command(after_help = VALIDATE_HELP)]
pub(crate) struct ValidateArgs {
    /// Files or directories of rules; "-" is standard input [default: tollgate.yaml]
    #[arg(value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,

    /// Doors to check for settings they do not support
    #[arg(long, value_enum, value_delimiter = ',')]
    door: Vec<DoorName>,

    /// Several files of envoyproxy/ratelimit for one domain are merged
    #[arg(long)]
    envoy_merge_domains: bool,

    /// Warnings as errors
    #[arg(long)]
    strict: bool,

    /// JSON output, one object
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    json: bool,
}

/// A value of `--door`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DoorName {
    /// The HTTP API
    Http,
    /// Envoy's rate limit service
    Grpc,
    /// The Redis protocol
    Resp,
    /// The reverse proxy
    Gateway,
    /// Forward-auth of nginx, Caddy or Traefik
    Auth,
    /// Middleware in a Rust service
    Layer,
    /// A Rust program
    Library,
}

impl From<DoorName> for Door {
    fn from(name: DoorName) -> Door {
        match name {
            DoorName::Http => Door::Http,
            DoorName::Grpc => Door::Grpc,
            DoorName::Resp => Door::Resp,
            DoorName::Gateway => Door::Gateway,
            DoorName::Auth => Door::Auth,
            DoorName::Layer => Door::Layer,
            DoorName::Library => Door::Library,
        }
    }
}

pub(crate) fn run(args: &ValidateArgs) -> anyhow::Result<Outcome> {
    let sources = load::sources(&load::paths_or_default(&args.paths)?)?;
    let names: Vec<String> = sources.iter().map(|source| source.name.clone()).collect();
    let read = load::read(sources, args.envoy_merge_domains);
    let doors: Vec<Door> = args.door.iter().copied().map(Door::from).collect();
    let validated = ValidatedRules::new(read, &doors);
    let report = ValidationReport::new(&validated, args.strict);
    let mut out = BufWriter::new(io::stdout().lock());
    match args.json {
        true => {
            serde_json::to_writer(&mut out, &report)?;
            writeln!(out)?;
        }
        false => {
            let style = Style::when(io::stdout().is_terminal());
            report.write(&mut out, style, &names, &validated)?;
        }
    }
    out.flush()?;
    Ok(Outcome::found(!report.ok))
}
