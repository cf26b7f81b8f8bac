//! The arguments of `tollgate simulate`, and what `--help` says about them.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use tollgate::Limit;
use tollgate::limit::AlgorithmName;

use crate::log::{Format, Rename};

pub(crate) const SIMULATE_ABOUT: &str = "\
Run limits on a timeline, or rules on an access log, under virtual time

Reads a trace or a log of requests, decides each at the time it names, and says how. Nothing
waits: an hour of traffic takes as long as it takes to read.";

const SIMULATE_HELP: &str = r#"Rules on an access log: what would have been denied, by which rule and for whom; with --against,
what differs from the rules you have.
  tollgate simulate new.yaml --log access.log --against tollgate.yaml

  Lines are Apache's and nginx's common and combined formats, JSON objects, or Envoy's default
  text; gzipped or not. Fields are attributes: ip, method, path, host, user, header.NAME,
  response.status, response.bytes, and whatever else a JSON object holds. Rules that count
  outcomes see response.status. Lines a little out of order are put in order.

Limits on a trace: a trace is one JSON object a line; all but at_us may be left out:
  {"at_us": 0, "key": "a", "cost": 1, "op": "check"}

  at_us        microseconds since the epoch. Going back is a step of the clock, and warned of
  key          whose counter; "" unless given
  cost         how much is asked for; 1 unless given
  op           check    take the cost, or nothing (unless given)
               peek     how the key stands; takes nothing, whatever the cost
               reserve  take the cost, if need be by waiting up to max_wait_us; stays open
               settle   the true cost of the key's last open reserve: the rest goes back, more
                        is charged. Without an open reserve, the whole cost is charged unasked.
                        On a limit such as "5 concurrent", it gives the reserve's place back
               refund   give the cost back, never above full
               reset    forget what the key has spent
  max_wait_us  the longest wait a reserve accepts; 0 unless given

With --json, each line is answered by one:
  {"at_us":0,"key":"a","allowed":true,"limit":20,"remaining":19,"retry_after_us":null,"reset_after_us":100000,"wait_us":0}

  Times are rounded up. retry_after_us is null for what was allowed and for what can never pass;
  the latter says "never":true as well. After peek, settle, refund and reset, allowed is false
  while the key is in debt. Of several limits, the tightest is shown. --compare adds "algorithm".

Examples:
  tollgate simulate --demo
  tollgate simulate --limit "10/s burst 20" --trace trace.jsonl
  tollgate simulate --limit 5/min --limit "20/h sliding" --trace trace.jsonl --json
  tollgate simulate --limit 10/s --trace trace.jsonl --compare token_bucket,fixed_window --plot out.svg
  echo '{"at_us": 0, "cost": 3}' | tollgate simulate --limit 10/s --trace - --json
  tollgate simulate tollgate.yaml --log access.log --map client=ip --plot out.svg

Exit codes: 0 the trace was read to its end, whatever was denied in it; 2 error. (Denials are
what a simulation is about, so they are no failure: look at "allowed".)"#;

#[derive(Args, Debug, Default)]
#[command(after_long_help = SIMULATE_HELP)]
#[command(after_help = "Examples and the format of a trace: tollgate simulate --help")]
pub(crate) struct SimulateArgs {
    /// A file or directory of rules, to run on a log
    #[arg(
        value_name = "FILE|DIR",
        requires = "log",
        conflicts_with_all = ["limit", "trace", "compare", "demo"]
    )]
    pub(crate) rules: Option<PathBuf>,

    /// An access log; "-" is standard input
    #[arg(long, env = "TOLLGATE_LOG", value_name = "FILE", requires = "rules")]
    pub(crate) log: Option<PathBuf>,

    /// Other rules, to tell what differs from them
    #[arg(long, env = "TOLLGATE_AGAINST", value_name = "FILE|DIR", requires = "rules")]
    pub(crate) against: Option<PathBuf>,

    /// How the log's lines are written
    #[arg(long, env = "TOLLGATE_FORMAT", value_enum, default_value_t)]
    pub(crate) format: Format,

    /// A field of the log that is another attribute
    #[arg(long, env = "TOLLGATE_MAP", value_name = "FIELD=ATTRIBUTE", value_delimiter = ',')]
    pub(crate) map: Vec<Rename>,

    /// Which domain's rules, if there are several
    #[arg(long, env = "TOLLGATE_DOMAIN", value_name = "NAME")]
    pub(crate) domain: Option<String>,

    /// How many keys to name
    #[arg(long, env = "TOLLGATE_TOP", value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,

    /// A limit, such as "10/s burst 20"; of several, all must allow
    #[arg(
        long,
        env = "TOLLGATE_LIMIT",
        value_delimiter = ';',
        required_unless_present_any = ["demo", "rules"],
        allow_hyphen_values = true
    )]
    pub(crate) limit: Vec<Limit>,

    /// The requests, one JSON object a line; "-" is standard input
    #[arg(
        long,
        env = "TOLLGATE_TRACE",
        value_name = "FILE",
        required_unless_present_any = ["demo", "rules"]
    )]
    pub(crate) trace: Option<PathBuf>,

    /// Answer in JSON: one line a request of a trace, one object for a log
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,

    /// Run the same amount and period under these algorithms
    #[arg(
        long,
        env = "TOLLGATE_COMPARE",
        value_name = "ALGORITHM,…",
        value_delimiter = ',',
        ignore_case = true
    )]
    pub(crate) compare: Vec<Algorithm>,

    /// Draw what was allowed and denied over time, as SVG
    #[arg(long, env = "TOLLGATE_PLOT", value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,

    /// Use a built-in trace and limit instead, and explain
    #[arg(
        long,
        env = "TOLLGATE_DEMO",
        value_parser = BoolishValueParser::new(),
        conflicts_with = "trace"
    )]
    pub(crate) demo: bool,
}

/// What `--compare` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Algorithm {
    /// Tokens come back at the rate, up to the burst
    TokenBucket,
    /// The same, holding requests back to the rate
    #[value(alias = "leaky")]
    LeakyBucket,
    /// The token bucket under another name
    Gcra,
    /// A count that starts anew with every period
    #[value(alias = "fixed")]
    FixedWindow,
    /// A count over the last period, estimated
    #[value(alias = "sliding")]
    SlidingWindow,
    /// A count over the last period, exact
    #[value(alias = "log")]
    SlidingLog,
    /// A rate that starts slowly; here it takes one period to warm up
    #[value(alias = "warmup")]
    WarmUp,
    /// All of them
    All,
}

impl Algorithm {
    /// The algorithms this stands for.
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
