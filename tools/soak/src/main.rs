//! Runs the real server and gateway under mixed traffic, and fails on what grows.
//!
//! ```text
//! cargo xtask soak --minutes 30
//! ```
//!
//! Clients use every door at a bounded rate. At every interval the memory, the descriptors and the
//! threads of both processes are sampled, and the 99th percentile of the latency of each door as its
//! clients see it, beside that of a stub in this process: a machine with other work slows both. After
//! a warm-up, a trend is fitted to each series. A series that grows by more than its tolerance fails
//! the run, and so do requests without an answer.

#![allow(
    clippy::disallowed_methods,
    reason = "the ban protects decisions of the limiter; this program times real processes"
)]

mod latency;
mod process_sample;
mod report;
mod servers;
mod traffic;
mod trend;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use latency::{DOORS, LatencyRecorder};
use process_sample::ProcessSample;
use report::SoakReport;
use servers::SoakServers;

/// The number of samples that are aimed at; more would take no longer, but be shorter.
const SAMPLES: u32 = 40;
const MIN_INTERVAL: Duration = Duration::from_secs(5);
const MAX_INTERVAL: Duration = Duration::from_secs(60);
/// The requests per second of all clients together.
const RATE: u32 = 300;

/// The settings of a run.
struct SoakOptions {
    minutes: f64,
    rate: u32,
    program: PathBuf,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let options = match options(&args) {
        Ok(options) => options,
        Err(error) => {
            eprintln!(
                "{error}\nusage: --server PROGRAM [--minutes N] [--rate REQUESTS_PER_SECOND]"
            );
            return ExitCode::from(2);
        }
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let outcome = runtime.map_err(|error| error.to_string());
    match outcome.and_then(|runtime| runtime.block_on(soak(&options))) {
        Ok(report) => {
            println!("{report}");
            if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn options(args: &[String]) -> Result<SoakOptions, String> {
    let (mut minutes, mut rate, mut program) = (5.0, RATE, None);
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        let invalid = || format!("{name}: {value:?} is no such number");
        match name.as_str() {
            "--minutes" => minutes = value.parse().map_err(|_| invalid())?,
            "--rate" => rate = value.parse().map_err(|_| invalid())?,
            "--server" => program = Some(PathBuf::from(value)),
            _ => return Err(format!("there is no option {name}")),
        }
    }
    let program = program.ok_or("--server is missing")?;
    if !(0.5..=10_000.0).contains(&minutes) || !(10..=100_000).contains(&rate) {
        return Err(
            "a run takes 0.5 to 10000 minutes, at 10 to 100000 requests a second".to_owned()
        );
    }
    Ok(SoakOptions { minutes, rate, program })
}

async fn soak(options: &SoakOptions) -> Result<SoakReport, String> {
    let servers = SoakServers::start(&options.program).await?;
    let total = Duration::from_secs_f64(options.minutes * 60.0);
    let interval = (total / SAMPLES).clamp(MIN_INTERVAL, MAX_INTERVAL);
    let latencies = Arc::new(LatencyRecorder::default());
    traffic::start(&servers, &latencies, options.rate);
    let mut report = SoakReport::new(interval);
    eprintln!("soaking for {} minutes, a sample every {interval:?}", options.minutes);
    let samples = (total.as_secs_f64() / interval.as_secs_f64()).ceil() as usize;
    let mut ticks = tokio::time::interval(interval);
    ticks.tick().await;
    for number in 1..=samples {
        ticks.tick().await;
        let server = ProcessSample::read(servers.server_pid())?;
        let gateway = ProcessSample::read(servers.gateway_pid())?;
        let of_doors = DOORS.map(|door| latencies.take(door));
        report.add(&server, &gateway, &of_doors);
        eprintln!("{number}/{samples}: server {server}, gateway {gateway}");
    }
    report.set_failures(latencies.failures());
    report.set_panics(servers.panics().await?);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<SoakOptions, String> {
        options(&args.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_and_bounded() {
        let read_all = read(&["--server", "x", "--minutes", "2", "--rate", "50"]).unwrap();
        assert_eq!((read_all.minutes, read_all.rate), (2.0, 50));
        for wrong in [
            &["--minutes", "2"][..],
            &["--server", "x", "--minutes", "0"],
            &["--server", "x", "--rate", "many"],
            &["--server"],
            &["--speed", "2"],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
