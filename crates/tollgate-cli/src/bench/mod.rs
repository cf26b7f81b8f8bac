//! `tollgate bench`: measures throughput and latency of a running server.
//!
//! The client must not limit the result: requests are built once, each thread has its own runtime,
//! tally and connections, and threads share only a count for the progress bar.

mod args;
mod bench_request;
mod connection;
mod cpu;
mod report;
mod request_template;
mod response;
mod run;
mod schedule;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::bail;
use tollgate::{Clock, Span};
use tollgate_server::net::Address;

use crate::Outcome;
use crate::output;
pub(crate) use args::BenchArgs;
use args::BenchDoor;
use bench_request::BenchRequest;
pub(crate) use bench_request::command as resp_command;
use report::BenchReport;
pub(crate) use response::{BenchOutcome, resp as parse_resp};
use run::BenchSettings;
use schedule::BenchSchedule;

/// The maximum pipeline: more requests in flight would fill the socket buffers.
const MAX_PIPELINE: u16 = 1000;

pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<Outcome> {
    let settings = settings(args)?;
    let clock = Clock::system();
    let start = clock.now();
    // The requests of a pipeline start together, and the streams of a connection in turn: either way
    // the interval between two starts is the same.
    let turns = u64::from(settings.connections) * u64::from(settings.pipeline);
    let every_ns = args.rate.map(|rate| turns.saturating_mul(1_000_000_000) / rate);
    let until = (settings.requests.is_none()).then(|| start + span(args.duration));
    let plan =
        Arc::new(BenchSchedule { clock, until, start, every_ns, answered: AtomicU64::new(0) });
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let threads = args.threads.map_or(cores / 2, u32::from).clamp(1, settings.connections);
    let length = settings.requests.unwrap_or(args.duration.as_millis() as u64);

    let server = args.pid.or_else(|| cpu::listener(&settings.to));
    let cpu = || (server.and_then(cpu::used), cpu::used(std::process::id()));
    let before = cpu();
    let (tally, error) = run::run(&settings, &plan, threads, &run::bar(length))?;
    let after = cpu();
    let took = Duration::from_nanos(plan.clock.now().since(plan.start).as_nanos());

    match (error, tally.allowed + tally.denied) {
        (Some(error), 0) => return Err(error),
        (None, 0) => bail!("every request failed: check --door, --to, the domain and the limit"),
        (Some(error), _) => eprintln!("warning: {error:#}"),
        (None, _) => {}
    }
    let spent = |after: Option<Duration>, before| after?.checked_sub(before?);
    let report = BenchReport {
        settings: &settings,
        tally: &tally,
        rate: args.rate,
        took,
        server_cpu: spent(after.0, before.0),
        client_cpu: spent(after.1, before.1),
    };
    match args.json {
        true => drop(output::json(&report.json())?),
        false => report.print()?,
    }
    Ok(Outcome::found(tally.failed > 0))
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

fn settings(args: &BenchArgs) -> anyhow::Result<BenchSettings> {
    let default = || SocketAddr::from((Ipv4Addr::LOCALHOST, args.door.default_port()));
    let to = args.to.clone().unwrap_or_else(|| Address::Tcp(default()));
    let pipeline = match (args.door, args.pipeline) {
        (BenchDoor::Http, Some(2..)) => {
            bail!("HTTP/1.1 has one request in flight per connection: use more --connections")
        }
        (_, Some(given)) if given > MAX_PIPELINE => {
            bail!("--pipeline is at most {MAX_PIPELINE}")
        }
        (_, Some(given)) => given,
        (BenchDoor::Resp, None) if args.rate.is_none() => 16,
        (BenchDoor::Grpc, None) if args.rate.is_none() => 10,
        (_, None) => 1,
    };
    let request = BenchRequest::new(args)?;
    let token = args.token.as_ref().map(|token| token.reveal().to_owned());
    let message = match args.door {
        BenchDoor::Http => request.http(&run::host(&to), token.as_deref()),
        BenchDoor::Grpc => request.envoy(),
        BenchDoor::Resp => request.command(),
    };
    Ok(BenchSettings {
        door: args.door,
        to,
        token,
        message,
        connections: args.connections.into(),
        pipeline: pipeline.into(),
        requests: args.requests,
        keys: args.keys,
    })
}
