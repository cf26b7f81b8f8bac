//! The demonstration: a built-in trace that shows how algorithms treat bursts.

use std::io::{self, Write};

use super::args::{Algorithm, SimulateArgs};
use super::trace_event::{TraceEvent, TraceOperation};
use crate::style::Style;

pub(super) const LIMIT: &str = "10/s burst 20";
pub(super) const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::TokenBucket,
    Algorithm::LeakyBucket,
    Algorithm::FixedWindow,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
];

const SECOND: u64 = 1_000_000;
/// The bursts on top of the steady traffic: start, and number of requests 10 ms apart.
const BURSTS: [(u64, u64); 3] = [(2_880_000, 30), (5_500_000, 12), (7_500_000, 40)];
/// The pause in the steady traffic.
const PAUSE: std::ops::Range<u64> = 4_000_000..5_500_000;

/// Returns nine seconds of traffic: `web` sends 8 requests a second and three bursts, the first
/// across the boundary of a second; `cron` sends one request a second.
pub(super) fn events() -> impl Iterator<Item = TraceEvent> {
    let at = |at_us: u64, key: &str| TraceEvent {
        at_us,
        key: key.into(),
        cost: 1,
        op: TraceOperation::Check,
        max_wait_us: 0,
    };
    let steady = (0..72).map(|i| i * SECOND / 8).filter(|at_us| !PAUSE.contains(at_us));
    let steady = steady.map(move |at_us| at(at_us, "web"));
    let bursts = BURSTS
        .into_iter()
        .flat_map(move |(start, count)| (0..count).map(move |i| at(start + i * 10_000, "web")));
    let cron = (0..9).map(move |i| at(i * SECOND + 50_000, "cron"));
    let mut events: Vec<TraceEvent> = steady.chain(bursts).chain(cron).collect();
    events.sort_by_key(|event| event.at_us);
    events.into_iter()
}

/// Writes what the demonstration shows.
pub(super) fn introduce(out: &mut impl Write, style: Style, limits: &str) -> io::Result<()> {
    writeln!(out, "{}", style.bold(format!("{limits}, under several algorithms")))?;
    writeln!(
        out,
        "Nine seconds of traffic, in virtual time: \"web\" asks 8 times a second, with\n\
         bursts of 30, 12 and 40 at 2.9s, 5.5s and 7.5s and a pause before the second;\n\
         \"cron\" asks once a second.\n"
    )
}

/// Writes an explanation, unless the limit or the algorithms were changed, and what to try next.
pub(super) fn explain(out: &mut impl Write, style: Style, args: &SimulateArgs) -> io::Result<()> {
    if args.limit.is_empty() && args.compare.is_empty() {
        writeln!(out, "\n{}\n{EXPLANATION}", style.bold("What to see"))?;
    }
    let program = crate::program();
    writeln!(out, "\n{}", style.bold("Try next"))?;
    writeln!(out, "  {program} simulate --demo --plot demo.svg")?;
    writeln!(out, "  {program} simulate --demo --limit 20/s --compare all")
}

const EXPLANATION: &str = "\
2.9s  A burst across the edge of a second. fixed_window counts anew at 3s and
      lets 19 pass within one second, on a limit of 10. sliding_log never lets
      more than 10 pass; sliding_window, which estimates, up to 13.
5.5s  token_bucket saved up during the pause, so the whole burst of 12 passes.
7.5s  leaky_bucket takes in as many as token_bucket, but holds them back to the
      rate: its bars go on evenly after the burst.
cron  is never denied: every key has a counter of its own.";
