//! What `tollgate import` takes.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};

const HELP: &str = "\
The rules go to standard output, what could not be carried over to standard error:

  left out   it has no equivalent, or needs something the files do not say: see to it by hand
  differs    it is there, but not to the letter
  note       worth knowing

With --json both come as one object:
  {\"rules\": \"version: 1\\n…\", \"notes\": [{\"severity\": \"left_out\", \"file\": \"nginx.conf\",
   \"line\": 12, \"message\": \"…\"}]}

Examples:
  tollgate import nginx /etc/nginx/nginx.conf > rules.yaml
  tollgate import envoy ratelimit/*.yaml --out rules/
  tollgate import limitador limits.yaml --domain shop
  tollgate import kong kong.yaml --json

Exit codes: 0 everything was carried over, 1 something was left out, 2 error.";

/// Print the rules file that says what another system's configuration says
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct ImportArgs {
    /// Whose configuration it is
    #[arg(value_enum)]
    pub(crate) from: From,

    /// The files; "-" is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Write here instead; into a folder, one file for each domain
    #[arg(long, short, env = "TOLLGATE_OUT", value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Of several domains, only this one
    #[arg(long, env = "TOLLGATE_DOMAIN", value_name = "NAME")]
    pub(crate) domain: Option<String>,

    /// Rules and notes as one JSON object
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

/// The systems whose configuration is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum From {
    /// envoyproxy/ratelimit: domain and descriptors
    Envoy,
    /// Limitador: a list of limits
    Limitador,
    /// nginx: limit_req, limit_conn
    Nginx,
    /// Kong, declarative: rate-limiting, rate-limiting-advanced
    Kong,
}
