//! The arguments of `tollgate import`.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};

const HELP: &str = "\
Rules go to standard output, notes about what could not be converted to standard error:

  left out   no equivalent, or the files lack something it needs: add it by hand
  differs    converted, but it does not behave exactly alike
  note       worth knowing

With --json both are one object:
  {\"rules\": \"version: 1\\n…\", \"notes\": [{\"severity\": \"left_out\", \"file\": \"nginx.conf\",
   \"line\": 12, \"message\": \"…\"}]}

Examples:
  tollgate import nginx /etc/nginx/nginx.conf > rules.yaml
  tollgate import envoy ratelimit/*.yaml --out rules/
  tollgate import limitador limits.yaml --domain shop
  tollgate import kong kong.yaml --json

Exit codes: 0 everything was converted, 1 something was left out, 2 error.";

/// Convert the configuration of another system to a rules file
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct ImportArgs {
    /// System the configuration is written for
    #[arg(value_enum)]
    pub(crate) from: SourceSystem,

    /// Files to convert; "-" is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// File to write; in a folder, one file for each domain [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Domain to convert, if the files have several [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) domain: Option<String>,

    /// Rules and notes as one JSON object instead of text
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

/// A system whose configuration can be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceSystem {
    /// envoyproxy/ratelimit: domain and descriptors
    Envoy,
    /// Limitador: a list of limits
    Limitador,
    /// nginx: limit_req, limit_conn
    Nginx,
    /// Kong, declarative: rate-limiting, rate-limiting-advanced
    Kong,
}
