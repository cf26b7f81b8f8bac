//! Instructions per decision under callgrind: the figure without noise, so the one that regressions are
//! measured by.
//!
//! Only [`counted_decisions`] is counted. Two runs, the second twice as long, give the cost of one
//! decision; the fixed cost of a run cancels out.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::{Command, ExitCode};

use crate::layer::{self, RoutedApp};
use crate::options::Options;
use crate::report::Table;
use crate::subjects::{Subject, tollgate};
use crate::workload::{Allowance, Key};

/// The hidden command of the counted process.
pub(crate) const CHILD: &str = "count-instructions";

/// The counts of the last `--record`.
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.txt");

/// A count above this factor of the record is a regression.
const TOLERANCE: f64 = 1.05;

const DECISIONS: usize = 50_000;
const KEYS: usize = 1_024;

/// The case without keys.
const UNKEYED: &str = "unkeyed";

/// Limits so high that every decision of a run is allowed.
const CASES: [(&str, &[&str]); 8] = [
    ("meter", &["1/300s burst 1M"]),
    ("odd-meter", &["17/s burst 1M"]), // a token is no whole number of nanoseconds
    ("fixed-window", &["1M/h fixed"]),
    ("sliding-window", &["1M/h sliding"]),
    ("slots", &["1M/h sliding slots 60"]),
    ("log", &["1k/h log"]),
    ("warm-up", &["1000M/s warmup 1s"]),
    ("two-limits", &["1/300s burst 1M", "1M/h sliding"]),
];

/// Counts, prints, and compares or records.
pub(crate) fn run(options: &Options) -> ExitCode {
    let record = read_record();
    println!("\nInstructions per decision (callgrind), string keys, {KEYS} of them;");
    println!("from `bare` on, per request of an axum router behind a layer");
    let mut table = Table::new(["case", "instructions", "record", "ratio", ""]);
    let mut counts = Vec::new();
    let mut failed = false;
    let limiters = CASES.iter().map(|(name, _)| *name).chain([UNKEYED]);
    for name in limiters.chain(layer::NAMES) {
        let count = match count(name) {
            Ok(count) => count,
            Err(error) => {
                failed = true;
                eprintln!("{name}: {error}");
                table.row([name, "-", "-", "-", "FAILED"].map(str::to_owned));
                continue;
            }
        };
        counts.push(format!("{name} {count:.1}\n"));
        let Some(&before) = record.get(name) else {
            table.row([name, &format!("{count:.1}"), "-", "-", "new"].map(str::to_owned));
            continue;
        };
        let ratio = count / before;
        let worse = ratio > TOLERANCE;
        failed |= worse && !options.record;
        let verdict = if worse { "WORSE" } else { "ok" };
        let [count, before] = [count, before].map(|count| format!("{count:.1}"));
        table.row([name, &count, &before, &format!("{ratio:.3}"), verdict].map(str::to_owned));
    }
    table.print();
    if options.record
        && let Err(error) = std::fs::write(RECORD, counts.concat())
    {
        eprintln!("{RECORD}: {error}");
        failed = true;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn read_record() -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(RECORD).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?))).collect()
}

fn count(case: &str) -> Result<f64, String> {
    let (short, long) = (collect(case, DECISIONS)?, collect(case, DECISIONS * 2)?);
    Ok((long as f64 - short as f64) / DECISIONS as f64)
}

fn collect(case: &str, decisions: usize) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*counted_decisions*")
        .arg(program)
        .args([CHILD, case, &decisions.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("==")).collect();
        return Err(lines.join("\n"));
    }
    let collected = log.lines().find_map(|line| line.split_once("Collected :"));
    let number = collected.and_then(|(_, count)| count.trim().parse().ok());
    number.ok_or_else(|| "callgrind printed no count".to_owned())
}

/// Runs the counted process.
pub(crate) fn child(arguments: &[String]) -> Result<(), String> {
    let [case, decisions] = arguments else { return Err("needs a case and a number".to_owned()) };
    let decisions = decisions.parse().map_err(|_| format!("not a number: {decisions}"))?;
    if case == UNKEYED {
        let limiter = tollgate::TollgateSingle::new(Allowance::hot(DECISIONS * 4));
        return decide(&limiter, &[()], decisions);
    }
    if let Some(router) = RoutedApp::named(case) {
        return decide(&router, &Vec::from_iter(0..KEYS), decisions);
    }
    let found = CASES.iter().find(|(name, _)| name == case);
    let (_, limits) = found.ok_or_else(|| format!("no such case: {case}"))?;
    let keys: Vec<String> = (0..KEYS).map(String::from_index).collect();
    decide(&tollgate::TollgateKeyed::with(limits), &keys, decisions)
}

fn decide<S: Subject<K>, K>(subject: &S, keys: &[K], decisions: usize) -> Result<(), String> {
    for key in keys {
        subject.allow(key);
    }
    let allowed = counted_decisions(subject, keys, decisions);
    // Either all pass, or all are refused.
    if [0, decisions].contains(&allowed) {
        Ok(())
    } else {
        Err(format!("{allowed} of {decisions} allowed"))
    }
}

/// Makes decisions in a plain loop: a closure would match this name too, and switch counting off.
#[inline(never)]
fn counted_decisions<S: Subject<K>, K>(subject: &S, keys: &[K], decisions: usize) -> usize {
    let mut allowed = 0;
    let mut next = 0;
    for _ in 0..decisions {
        allowed += usize::from(subject.allow(black_box(&keys[next])));
        next = if next + 1 == keys.len() { 0 } else { next + 1 };
    }
    allowed
}
