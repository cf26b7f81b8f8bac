//! Shared counters in Redis: tollgate's store, bare scripts, a module and other limiters.
//!
//! `bench` has the shared setup; `subject` are limiters that this process drives, `external_limiter` those
//! of other languages, and `limiter_entry` is one of them in a case. `comparison` compares them;
//! `hot_key` measures decisions that tollgate makes without a call to Redis.

mod bench;
mod callers;
mod comparison;
mod connections;
mod external_limiter;
mod hot_key;
mod limit;
mod limiter_entry;
mod sample;
mod subject;

use crate::options::Options;
use crate::sections::ReportWriter;
use crate::{cores, report};

/// Runs all measurements.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    if !options.json {
        report::machine();
        println!(
            "method:  median of {} interleaved rounds of {} s; Redis 7.0 without persistence on core \
             0, callers on core 1; {} keys, all present; {} connections of this process. limits and \
             rate-limiter-flexible run in their own languages: their cost for Redis can be compared, \
             decisions/s and latencies cannot",
            options.rounds,
            options.seconds,
            report::count(bench::KEYS),
            connections::CONNECTIONS,
        );
    }
    cores::pin_to_load_core(4096)?;
    let bench = bench::RedisBench::start()?;
    let mut report = ReportWriter::new(options);
    report.add(comparison::run(&bench, options)?);
    report.add(hot_key::run(&bench)?);
    report.finish();
    Ok(())
}
