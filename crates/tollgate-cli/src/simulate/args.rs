//! The arguments of `tollgate simulate` and their help.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use tollgate::Limit;
use tollgate::limit::AlgorithmName;

use crate::log::{AccessLogFormat, FieldRename};

pub(crate) const SIMULATE_ABOUT: &str = "\
Run limits on a timeline, or rules on an access log, under virtual time

Reads a trace or a log of requests, and decides each request at its own time. Time is virtual: an
hour of traffic takes only as long as reading it.";

const SIMULATE_HELP: &str = r#"Rules on an access log: which requests would have been denied, by which rule and key; with --against,
what differs from your current rules.
  tollgate simulate new.yaml --log access.log --against tollgate.yaml

  Lines are in the common or combined format of Apache and nginx, JSON objects, or the default text
  of Envoy; plain or gzipped. Fields are attributes: ip, method, path, host, user, header.NAME,
  response.status, response.bytes, and every other field of a JSON object. Rules that count
  outcomes read response.status. Lines that are slightly out of order are sorted.

Limits on a trace: a trace has one JSON object per line; only at_us is required:
  {"at_us": 0, "key": "a", "cost": 1, "op": "check"}

  at_us        microseconds since the epoch. Going back is a step of the clock, with a warning
  key          key of the counter [default: ""]
  cost         cost of the operation [default: 1]
  op           operation [default: check]
               check    charge the cost if it is allowed
               peek     read the state of the key, without charging
               reserve  charge the cost, if necessary after a wait up to max_wait_us; stays open
               settle   the actual cost of the key's last open reserve: the difference is refunded
                        or charged. Without an open reserve, the whole cost is charged. On a limit
                        such as "5 concurrent", it releases the permit of the reserve
               refund   return the cost, never above full
               reset    reset the counter of the key
  max_wait_us  maximum wait of a reserve [default: 0]

With --json, each line has one line of output:
  {"at_us":0,"key":"a","allowed":true,"limit":20,"remaining":19,"retry_after_us":null,"reset_after_us":100000,"wait_us":0}

  Times are rounded up. retry_after_us is null if the request is allowed, or if it can never pass;
  then "never" is true. After peek, settle, refund and reset, allowed is false while the key is in
  debt. Of several limits, the tightest is shown. --compare adds "algorithm".

Examples:
  tollgate simulate --demo
  tollgate simulate --limit "10/s burst 20" --trace trace.jsonl
  tollgate simulate --limit 5/min --limit "20/h sliding" --trace trace.jsonl --json
  tollgate simulate --limit 10/s --trace trace.jsonl --compare token_bucket,fixed_window --plot out.svg
  echo '{"at_us": 0, "cost": 3}' | tollgate simulate --limit 10/s --trace - --json
  tollgate simulate tollgate.yaml --log access.log --map client=ip --plot out.svg

Exit codes: 0 the trace was read to its end, even if requests were denied; 2 error. (Denials are
the result of a simulation, not a failure: see "allowed".)"#;

/// The arguments of `tollgate simulate`.
#[derive(Args, Debug, Default)]
#[command(after_long_help = SIMULATE_HELP)]
#[command(after_help = "Examples and the format of a trace: tollgate simulate --help")]
pub(crate) struct SimulateArgs {
    /// File or directory of rules, to run on a log
    #[arg(
        value_name = "FILE|DIR",
        requires = "log",
        conflicts_with_all = ["limit", "trace", "compare", "demo"]
    )]
    pub(crate) rules: Option<PathBuf>,

    /// Access log; "-" is standard input
    #[arg(long, value_name = "FILE", requires = "rules")]
    pub(crate) log: Option<PathBuf>,

    /// File or directory of the rules to compare with
    #[arg(long, value_name = "FILE|DIR", requires = "rules")]
    pub(crate) against: Option<PathBuf>,

    /// Format of the log
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: AccessLogFormat,

    /// Field of the log that becomes another attribute
    #[arg(long, value_name = "FIELD=ATTRIBUTE", value_delimiter = ',')]
    pub(crate) map: Vec<FieldRename>,

    /// Domain of the rules, if there are several
    #[arg(long, value_name = "NAME")]
    pub(crate) domain: Option<String>,

    /// Number of keys in the report
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,

    /// Limit, such as "10/s burst 20"; of several, all must allow
    #[arg(
        long,
        value_delimiter = ';',
        required_unless_present_any = ["demo", "rules"],
        allow_hyphen_values = true
    )]
    pub(crate) limit: Vec<Limit>,

    /// Trace of requests, one JSON object per line; "-" is standard input
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present_any = ["demo", "rules"]
    )]
    pub(crate) trace: Option<PathBuf>,

    /// JSON output: one line per request of a trace, one object for a log
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,

    /// Algorithms to compare, with the amount and period of the limit
    #[arg(long, value_name = "ALGORITHM,…", value_delimiter = ',', ignore_case = true)]
    pub(crate) compare: Vec<Algorithm>,

    /// SVG file with a plot of allowed and denied requests over time
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,

    /// Demonstration with a built-in trace and limit
    #[arg(long, conflicts_with = "trace")]
    pub(crate) demo: bool,
}

/// A value of `--compare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Algorithm {
    /// Tokens refill at the rate, up to the burst
    TokenBucket,
    /// A token bucket that delays requests to the rate
    #[value(alias = "leaky")]
    LeakyBucket,
    /// The token bucket under another name
    Gcra,
    /// A count that starts at zero with every period
    #[value(alias = "fixed")]
    FixedWindow,
    /// A count over the last period, estimated
    #[value(alias = "sliding")]
    SlidingWindow,
    /// A count over the last period, exact
    #[value(alias = "log")]
    SlidingLog,
    /// A rate that starts low and takes one period to warm up
    #[value(alias = "warmup")]
    WarmUp,
    /// All algorithms
    All,
}

impl Algorithm {
    /// Returns the algorithms of this value.
    pub(crate) fn names(self) -> &'static [AlgorithmName] {
        use AlgorithmName as Name;
        const ALL: &[AlgorithmName] = &[
            Name::TokenBucket,
            Name::LeakyBucket,
            Name::Gcra,
            Name::FixedWindow,
            Name::SlidingWindow,
            Name::SlidingLog,
            Name::WarmUp,
        ];
        match self {
            Algorithm::All => ALL,
            one => &ALL[one as usize..=one as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_is_named_as_the_library_names_it() {
        for algorithm in Algorithm::value_variants().iter().filter(|a| **a != Algorithm::All) {
            let name = algorithm.to_possible_value().map(|value| value.get_name().to_owned());
            assert_eq!(name.as_deref(), Some(algorithm.names()[0].as_str()));
        }
    }
}
