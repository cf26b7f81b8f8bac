//! Bytes per key, and the longest time of a single insert while the table grows.
//!
//! Every subject fills its table in a process of its own, so that no allocator has memory of another. The
//! cost of the keys is the growth of resident memory.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the real clock")]

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;

use crate::options::Options;
use crate::report::{Table, count};
use crate::subjects::{Subject, governor, limitador, throttlecrab, tollgate};
use crate::workload::{Allowance, spell};

/// The hidden command of the filling process.
pub(crate) const CHILD: &str = "fill-memory";

pub(crate) const METER: &str = "tollgate";
pub(crate) const WINDOW: &str = "tollgate, sliding window";

/// The window is long, so that no key becomes idle, and so may be dropped, during the fill.
const WINDOW_LIMIT: &str = "10/h sliding";

const SUBJECTS: [&str; 5] = [METER, WINDOW, "governor", "throttlecrab", "limitador"];

/// Subjects that are also filled to the largest size.
const LARGE: [&str; 3] = [METER, WINDOW, "governor"];

/// Calls that took long.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stalls {
    pub(crate) over_1ms: u64,
    pub(crate) over_100us: u64,
    pub(crate) max_us: u64,
}

impl Stalls {
    fn record(&mut self, took: Duration) {
        let us = took.as_micros() as u64;
        self.over_1ms += u64::from(us > 1_000);
        self.over_100us += u64::from(us > 100);
        self.max_us = self.max_us.max(us);
    }
}

/// The result of filling one table.
#[derive(Clone, Debug)]
pub(crate) struct Fill {
    pub(crate) subject: &'static str,
    pub(crate) keys: usize,
    pub(crate) bytes_per_key: f64,
    /// Inserts by wall time, including the time in which other processes had the core.
    pub(crate) wall: Stalls,
    /// Inserts by thread CPU time: the cost of the insert itself.
    pub(crate) cpu: Stalls,
    /// The noise of the machine in `wall` and `cpu`: an equally long loop without inserts.
    pub(crate) noise: [Stalls; 2],
}

/// Measures, prints, and returns the fills.
pub(crate) fn run(options: &Options) -> Vec<Fill> {
    let mut fills = Vec::new();
    for (keys, subjects) in [(options.keys, &SUBJECTS[..]), (options.most_keys, &LARGE[..])] {
        for &subject in subjects {
            match spawn(subject, keys) {
                Ok(fill) => fills.push(fill),
                Err(error) => eprintln!("memory of {subject} at {keys} keys: {error}"),
            }
        }
    }
    print(&fills);
    fills
}

fn print(fills: &[Fill]) {
    println!("\nString keys of 16 to 31 bytes, each fill in its own process: bytes per key, and");
    println!(
        "single inserts that took long, by wall time and by thread CPU time (without the time"
    );
    println!("of other processes); in brackets the noise of an equally long loop without inserts");
    let mut table = Table::new([
        "limiter",
        "keys",
        "bytes/key",
        "> 1 ms wall",
        "> 1 ms CPU",
        "> 100 µs wall",
        "> 100 µs CPU",
        "max µs wall",
        "max µs CPU",
    ]);
    for fill in fills {
        let [wall, cpu] = fill.noise;
        let beside = |count: u64, noise: u64| format!("{count} ({noise})");
        table.row([
            fill.subject.to_owned(),
            count(fill.keys),
            format!("{:.1}", fill.bytes_per_key),
            beside(fill.wall.over_1ms, wall.over_1ms),
            beside(fill.cpu.over_1ms, cpu.over_1ms),
            beside(fill.wall.over_100us, wall.over_100us),
            beside(fill.cpu.over_100us, cpu.over_100us),
            beside(fill.wall.max_us, wall.max_us),
            beside(fill.cpu.max_us, cpu.max_us),
        ]);
    }
    table.print();
}

fn spawn(subject: &'static str, keys: usize) -> Result<Fill, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args([CHILD, subject, &keys.to_string()])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(|number| number.parse::<u64>());
    let mut next = || match numbers.next() {
        Some(Ok(number)) => Ok(number),
        _ => Err(format!("the output is not numbers: {text}")),
    };
    let bytes = next()?;
    let mut stalls =
        || Ok::<_, String>(Stalls { over_1ms: next()?, over_100us: next()?, max_us: next()? });
    Ok(Fill {
        subject,
        keys,
        bytes_per_key: bytes as f64 / keys as f64,
        wall: stalls()?,
        cpu: stalls()?,
        noise: [stalls()?, stalls()?],
    })
}

/// Runs the filling process, which prints bytes and stalls as numbers.
pub(crate) fn child(arguments: &[String]) -> Result<(), String> {
    let [subject, keys] = arguments else { return Err("needs a subject and a number".to_owned()) };
    let keys: usize = keys.parse().map_err(|_| format!("not a number: {keys}"))?;
    let limit = Allowance::wide(0);
    match subject.as_str() {
        METER => fill(keys, || tollgate::TollgateKeyed::new(limit)),
        WINDOW => fill(keys, || tollgate::TollgateKeyed::with(&[WINDOW_LIMIT])),
        "governor" => fill(keys, || governor::GovernorKeyed::new(limit)),
        "throttlecrab" => fill(keys, || throttlecrab::Throttlecrab::new(limit)),
        "limitador" => fill(keys, || limitador::Limitador::new(limit, keys)),
        _ => return Err(format!("no such subject: {subject}")),
    }
    Ok(())
}

/// Times calls by both clocks.
#[derive(Default)]
struct StallTimer {
    wall: Stalls,
    cpu: Stalls,
}

impl StallTimer {
    fn time(&mut self, call: impl FnOnce()) {
        let (began, busy) = (Instant::now(), ThreadTime::now());
        call();
        self.cpu.record(busy.elapsed());
        self.wall.record(began.elapsed());
    }
}

/// Fills a table in slices, each followed by an equally long slice of noise.
///
/// The load of the machine changes, and both should measure the same of it.
fn fill<S: Subject<String>>(keys: usize, build: impl Fn() -> S) {
    const SLICES: usize = 200;
    let mut key = String::with_capacity(64);
    build().allow(&key); // clocks and thread locals are not the table's
    let before = resident_bytes();
    let subject = build();
    let (mut inserts, mut noise) = (StallTimer::default(), StallTimer::default());
    for slice in 0..SLICES {
        let start = Instant::now();
        for index in keys * slice / SLICES..keys * (slice + 1) / SLICES {
            spell(index, &mut key);
            inserts.time(|| assert!(subject.allow(&key), "{key} was denied"));
        }
        let took = start.elapsed();
        let start = Instant::now();
        for index in 0.. {
            spell(index, &mut key);
            noise.time(|| _ = black_box(&key));
            if start.elapsed() >= took {
                break;
            }
        }
    }
    let bytes = resident_bytes().saturating_sub(before);
    let figures = [inserts.wall, inserts.cpu, noise.wall, noise.cpu]
        .map(|stalls| format!("{} {} {}", stalls.over_1ms, stalls.over_100us, stalls.max_us));
    println!("{bytes} {}", figures.join(" "));
}

/// Returns the resident memory of this process.
fn resident_bytes() -> u64 {
    const PAGE: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").expect("reading /proc/self/statm");
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number of resident pages") * PAGE
}
