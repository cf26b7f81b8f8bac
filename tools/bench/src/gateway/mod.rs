//! The gateway and other proxies with rate limits: the same upstream, the same limits, one core each.
//!
//! `proxies` lists them, `configs` has their configuration, and `upstream` is the server behind them.
//! All further modules are measurements.

mod configs;
mod latency;
mod memory;
mod proxies;
mod throughput;
mod upstream;

use crate::cores;
use crate::doors::idle::RESERVE;
use crate::options::Options;
use crate::report;
use crate::sections::ReportWriter;
use proxies::ProxyKind;
use upstream::Upstream;

const WORK: &str = "work";
const LATENCY: &str = "latency";
const MEMORY: &str = "memory";

/// Idle connections; as many in a quick run, because the cost of each depends on the number.
const IDLE: u64 = 10_000;

/// Runs the measurements named on the command line, or all of them.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let known = [WORK, LATENCY, MEMORY];
    if let Some(argument) =
        options.arguments.iter().find(|argument| !known.contains(&argument.as_str()))
    {
        return Err(format!("gateway has no `{argument}`: one of {}", known.join(", ")));
    }
    let wanted =
        |name: &str| options.arguments.is_empty() || options.arguments.iter().any(|w| w == name);
    if !options.json {
        report::machine();
        println!("proxies: {}", proxies::versions().join(", "));
        println!(
            "method:  median of {} interleaved rounds of {} s; proxies on core 0 with a thread each, \
             load and upstream on core 1; a limit per address that is never reached, connections to \
             the upstream kept, no access logs",
            options.rounds, options.seconds
        );
    }
    // Proxies need files too: a connection on each side for active clients.
    let spare = 4 * RESERVE;
    let files = cores::pin_to_load_core(IDLE + spare)?;
    let idle = IDLE.min(files.saturating_sub(spare)) as usize;
    let failed = |error: std::io::Error| format!("the upstream: {error}");
    let upstream = Upstream::start().map_err(failed)?;
    let address = upstream.address().map_err(failed)?;
    let mut report = ReportWriter::new(options);
    let upstream = upstream.in_background();
    let proxies = proxies::start(address, files)?;
    if wanted(WORK) {
        report.add(throughput::run(&proxies, options)?);
    }
    let mut upstream = upstream.stop().map_err(failed)?;
    if wanted(LATENCY) {
        report.add(latency::run(&proxies, &mut upstream, options)?);
    }
    let kinds: Vec<ProxyKind> = proxies.iter().map(|proxy| proxy.kind).collect();
    drop(proxies);
    let upstream = upstream.in_background();
    if wanted(MEMORY) {
        report.add(memory::run(&kinds, address, idle, files)?);
    }
    upstream.stop().map_err(failed)?;
    report.finish();
    Ok(())
}
