//! The arguments of `tollgate import`.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};

const HELP: &str = "\
Rules go to standard output, findings to standard error and as comments into the rules. Whatever
is left out or approximated is a finding, with its effect:

  more permissive   a request that the original refuses can pass: add what is missing by hand
  stricter          a request that the original lets pass can be refused
  note              the same requests pass; worth knowing

With --json both are one object:
  {\"rules\": \"version: 1\\n…\", \"findings\": [{\"effect\": \"more_permissive\",
   \"file\": \"nginx.conf\", \"line\": 12, \"message\": \"…\"}]}

Examples:
  tollgate import nginx /etc/nginx/nginx.conf > rules.yaml
  tollgate import envoy ratelimit/*.yaml --out rules/
  tollgate import limitador limits.yaml --domain shop
  tollgate import kong kong.yaml --json

Exit codes: 0 the rules are at least as strict as the original, 1 they are more permissive
(printed all the same), 2 error: nothing was printed.";

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

    /// Rules and findings as one JSON object instead of text
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

impl SourceSystem {
    /// Returns the name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            SourceSystem::Envoy => "envoy",
            SourceSystem::Limitador => "limitador",
            SourceSystem::Nginx => "nginx",
            SourceSystem::Kong => "kong",
        }
    }

    /// Returns what a file of the system is.
    pub(super) fn description(self) -> &'static str {
        match self {
            SourceSystem::Envoy => "a file of Envoy's rate limit service",
            SourceSystem::Limitador => "a list of limits for Limitador",
            SourceSystem::Nginx => "a configuration of nginx",
            SourceSystem::Kong => "a declarative configuration of Kong",
        }
    }

    /// Returns what a file of the system has at least one of.
    pub(super) fn marks(self) -> &'static str {
        match self {
            SourceSystem::Envoy => "`domain` and `descriptors`",
            SourceSystem::Limitador => "limits with `max_value` and `seconds`",
            SourceSystem::Nginx => "`http`, `server`, `limit_req`, `limit_conn`",
            SourceSystem::Kong => "`services`, `routes`, `consumers`, `plugins`",
        }
    }
}
