//! Servers as their clients measure them: processor time per decision, throughput, and latency.
//!
//! `decision_request` is what a server decides; `servers` lists them and `server` runs one;
//! `load_generators` are public programs, and `traffic`, with the clients of `protocol`, is our own. The
//! other modules are the measurements.

pub(crate) mod decision_request;
pub(crate) mod idle;
mod latency;
mod load;
pub(crate) mod load_generators;
pub(crate) mod protocol;
mod server;
mod servers;
mod throughput;
pub(crate) mod traffic;

use crate::cores;
use crate::options::Options;
use crate::report;
use crate::sections::ReportWriter;
use decision_request::Door;

const LOAD: &str = "load";
const IDLE: &str = "idle";

/// Runs the measurements named on the command line, or all of them.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let known: Vec<&str> = Door::ALL.iter().map(|door| door.name()).chain([LOAD, IDLE]).collect();
    if let Some(argument) =
        options.arguments.iter().find(|argument| !known.contains(&argument.as_str()))
    {
        return Err(format!("doors has no `{argument}`: one of {}", known.join(", ")));
    }
    let wanted =
        |name: &str| options.arguments.is_empty() || options.arguments.iter().any(|w| w == name);
    if !options.json {
        report::machine();
        println!("servers: {}", servers::versions().join(", "));
        println!(
            "method:  median of {} interleaved rounds of {} s; servers on core 0, load on core 1; \
             {} keys in random order (one key for gRPC's h2load), tables warm",
            options.rounds,
            options.seconds,
            report::count(decision_request::KEYS as usize)
        );
    }
    let files = cores::pin_to_load_core(options.idle as u64 + 2 * idle::RESERVE)?;
    let mut report = ReportWriter::new(options);
    for door in Door::ALL {
        if wanted(door.name()) {
            let servers = servers::start(door)?;
            report.add(throughput::run(door, &servers, options)?);
            report.add(latency::run(door, &servers, options)?);
        }
    }
    if wanted(LOAD) {
        report.add(load::run(options)?);
    }
    if wanted(IDLE) {
        report.add(idle::run(files, options)?);
    }
    report.finish();
    Ok(())
}
