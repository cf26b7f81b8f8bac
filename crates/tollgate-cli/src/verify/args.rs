//! The arguments of `tollgate verify`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{BoolishValueParser, PossibleValuesParser};

use super::checks::CHECKS;

const VERIFY_HELP: &str = "\
Each check starts what it needs: servers of this binary on free loopback ports, in a temporary folder.
Nothing else is touched. Admissions are counted by the caller or at a stub upstream. With --store, the
checks of shared counters use keys of their own there, which expire within ten minutes.

Examples:
  tollgate verify                                      all checks: one to two minutes
  tollgate verify --quick                              less of each: about 20 seconds
  tollgate verify --store redis://localhost:6379       also faults of a store
  tollgate verify --only crash --only bypass
  tollgate verify --report guarantees.md --json

Exit codes: 0 all guarantees hold, 1 one is broken, 2 error. A skipped check is reported, and proves
nothing.";

/// The arguments of `tollgate verify`.
#[derive(Args, Debug)]
#[command(after_help = VERIFY_HELP)]
pub(crate) struct VerifyArgs {
    /// Smaller amounts, in less time
    #[arg(long)]
    pub(super) quick: bool,
    /// Check to run, may be repeated [default: all]
    #[arg(
        long,
        value_name = "NAME",
        value_parser = PossibleValuesParser::new(CHECKS.iter().map(|check| check.name))
    )]
    pub(super) only: Vec<String>,
    /// Redis or Valkey for the checks of shared counters, such as redis://localhost:6379
    #[arg(long, value_name = "redis://…")]
    pub(super) store: Option<String>,
    /// File for a report in Markdown
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Binary whose server is checked [default: this program]
    #[arg(long, value_name = "FILE")]
    pub(super) program: Option<PathBuf>,
    /// JSON output
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(super) json: bool,
}
