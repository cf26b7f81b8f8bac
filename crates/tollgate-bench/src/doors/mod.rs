//! Servers side by side, as their clients see them: processor time per decision, throughput, and
//! how long answers take.
//!
//! `ask` is what a server is asked; `lineup` who takes part and `server` how it runs; `loaders` are
//! generators that everybody knows and `traffic`, in the words of `talk`, is our own. The rest are
//! the measurements.

pub(crate) mod ask;
pub(crate) mod idle;
mod latency;
mod lineup;
mod load;
pub(crate) mod loaders;
mod server;
mod side_by_side;
pub(crate) mod talk;
pub(crate) mod traffic;

use crate::cores;
use crate::options::Options;
use crate::report;
use crate::sections::Told;
use ask::Door;

const LOAD: &str = "load";
const IDLE: &str = "idle";

/// Runs the measurements named by the words, or all of them.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let known: Vec<&str> = Door::ALL.iter().map(|door| door.name()).chain([LOAD, IDLE]).collect();
    if let Some(word) = options.words.iter().find(|word| !known.contains(&word.as_str())) {
        return Err(format!("doors has no `{word}`: one of {}", known.join(", ")));
    }
    let wanted = |name: &str| options.words.is_empty() || options.words.iter().any(|w| w == name);
    if !options.json {
        report::machine();
        println!("servers: {}", lineup::versions().join(", "));
        println!(
            "method:  median of {} interleaved rounds of {} s; servers on core 0, load on core 1; \
             {} keys in random order (one key for gRPC's h2load), tables warm",
            options.rounds,
            options.seconds,
            report::count(ask::KEYS as usize)
        );
    }
    let files = cores::settle_in(options.idle as u64 + 2 * idle::RESERVE)?;
    let mut told = Told::new(options);
    for door in Door::ALL {
        if wanted(door.name()) {
            let servers = lineup::start(door)?;
            told.tell(side_by_side::run(door, &servers, options)?);
            told.tell(latency::run(door, &servers, options)?);
        }
    }
    if wanted(LOAD) {
        told.tell(load::run(options)?);
    }
    if wanted(IDLE) {
        told.tell(idle::run(files, options)?);
    }
    told.end();
    Ok(())
}
