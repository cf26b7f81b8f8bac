//! Shared counters in Redis: tollgate's store beside bare scripts, a module and other limiters.
//!
//! `bench` is what all share; `subject` are limiters that this process drives, `program` those of
//! other languages, `entry` is one of them in a case. `side_by_side` compares them, `hot` is about
//! what tollgate need not ask Redis for.

mod bench;
mod drive;
mod entry;
mod hot;
mod limit;
mod links;
mod program;
mod sample;
mod side_by_side;
mod subject;

use crate::options::Options;
use crate::sections::Told;
use crate::{cores, report};

/// Runs all of it.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    if !options.json {
        report::machine();
        println!(
            "method:  median of {} interleaved rounds of {} s; Redis 7.0 without persistence on core \
             0, who asks on core 1; {} keys, all of them there; {} connections where this process \
             asks. limits and rate-limiter-flexible are driven in their own languages: what they \
             cost Redis can be compared, decisions/s and latencies cannot",
            options.rounds,
            options.seconds,
            report::count(bench::KEYS),
            links::CONNECTIONS,
        );
    }
    cores::settle_in(4096)?;
    let bench = bench::Bench::start()?;
    let mut told = Told::new(options);
    told.tell(side_by_side::run(&bench, options)?);
    told.tell(hot::run(&bench)?);
    told.end();
    Ok(())
}
