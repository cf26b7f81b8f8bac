//! The gateway beside other proxies that limit: the same upstream, the same limits, one core each.
//!
//! `lineup` is who takes part, `configs` how each is set up, and `upstream` what all of them send
//! requests to. The rest are the measurements.

mod configs;
mod latency;
mod lineup;
mod memory;
mod side_by_side;
mod upstream;

use crate::cores;
use crate::doors::idle::RESERVE;
use crate::options::Options;
use crate::report;
use crate::sections::Told;
use lineup::Kind;
use upstream::Upstream;

const WORK: &str = "work";
const LATENCY: &str = "latency";
const MEMORY: &str = "memory";

/// Connections that say nothing; as many in a quick run, because what each costs depends on it.
const IDLE: u64 = 10_000;

/// Runs the measurements named by the words, or all of them.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let known = [WORK, LATENCY, MEMORY];
    if let Some(word) = options.words.iter().find(|word| !known.contains(&word.as_str())) {
        return Err(format!("gateway has no `{word}`: one of {}", known.join(", ")));
    }
    let wanted = |name: &str| options.words.is_empty() || options.words.iter().any(|w| w == name);
    if !options.json {
        report::machine();
        println!("proxies: {}", lineup::versions().join(", "));
        println!(
            "method:  median of {} interleaved rounds of {} s; proxies on core 0 with a thread each, \
             load and upstream on core 1; a limit per address that nobody reaches, connections to \
             the upstream kept, no access logs",
            options.rounds, options.seconds
        );
    }
    // What proxies may have as well: a connection on each side for those that are active.
    let spare = 4 * RESERVE;
    let files = cores::settle_in(IDLE + spare)?;
    let idle = IDLE.min(files.saturating_sub(spare)) as usize;
    let failed = |error: std::io::Error| format!("the upstream: {error}");
    let upstream = Upstream::start().map_err(failed)?;
    let address = upstream.address().map_err(failed)?;
    let mut told = Told::new(options);
    let upstream = upstream.in_background();
    let proxies = lineup::start(address, files)?;
    if wanted(WORK) {
        told.tell(side_by_side::run(&proxies, options)?);
    }
    let mut upstream = upstream.stop().map_err(failed)?;
    if wanted(LATENCY) {
        told.tell(latency::run(&proxies, &mut upstream, options)?);
    }
    let kinds: Vec<Kind> = proxies.iter().map(|proxy| proxy.kind).collect();
    drop(proxies);
    let upstream = upstream.in_background();
    if wanted(MEMORY) {
        told.tell(memory::run(&kinds, address, idle, files)?);
    }
    upstream.stop().map_err(failed)?;
    told.end();
    Ok(())
}
