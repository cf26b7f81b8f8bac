//! `tollgate bench`: loads a door of a running server, and says how it went.
//!
//! What asks must not be what is measured: messages are made once, each thread has a runtime, a
//! tally and connections of its own, and nothing is shared but a count for the progress bar.

mod answer;
mod args;
mod cpu;
mod drive;
mod message;
mod pace;
mod report;
mod run;
mod wire;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::bail;
use tollgate::{Clock, Span};
use tollgate_server::net::Address;

use crate::Outcome;
use crate::show;
pub(crate) use args::BenchArgs;
use args::Door;
use pace::Plan;
use report::Report;
use run::Work;
use wire::Question;

/// More under way on one connection would fill the buffers between us and the server.
const MOST_PIPELINED: u16 = 1000;

pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<Outcome> {
    let work = work(args)?;
    let clock = Clock::system();
    let start = clock.now();
    // All that is under way on a connection starts together, or each stream of it takes its turns:
    // the time between two turns of one is the same.
    let turns = u64::from(work.connections) * u64::from(work.pipeline);
    let every_ns = args.rate.map(|rate| turns.saturating_mul(1_000_000_000) / rate);
    let until = (work.requests.is_none()).then(|| start + span(args.duration));
    let plan = Arc::new(Plan { clock, until, start, every_ns, answered: AtomicU64::new(0) });
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let threads = args.threads.map_or(cores / 2, u32::from).clamp(1, work.connections);
    let length = work.requests.unwrap_or(args.duration.as_millis() as u64);

    let server = args.pid.or_else(|| cpu::listener(&work.to));
    let cpu = || (server.and_then(cpu::used), cpu::used(std::process::id()));
    let before = cpu();
    let (tally, error) = run::run(&work, &plan, threads, &run::bar(length))?;
    let after = cpu();
    let took = Duration::from_nanos(plan.clock.now().since(plan.start).as_nanos());

    match (error, tally.allowed + tally.denied) {
        (Some(error), 0) => return Err(error),
        (None, 0) => bail!("every request was answered with an error: is the question right?"),
        (Some(error), _) => eprintln!("warning: {error:#}"),
        (None, _) => {}
    }
    let spent = |after: Option<Duration>, before| after?.checked_sub(before?);
    let report = Report {
        work: &work,
        tally: &tally,
        rate: args.rate,
        took,
        server_cpu: spent(after.0, before.0),
        client_cpu: spent(after.1, before.1),
    };
    match args.json {
        true => drop(show::json(&report.json())?),
        false => report.print()?,
    }
    Ok(Outcome::found(tally.failed > 0))
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

fn work(args: &BenchArgs) -> anyhow::Result<Work> {
    let usual = || SocketAddr::from((Ipv4Addr::LOCALHOST, args.door.usual_port()));
    let to = args.to.clone().unwrap_or_else(|| Address::Tcp(usual()));
    let pipeline = match (args.door, args.pipeline) {
        (Door::Http, Some(2..)) => {
            bail!("HTTP/1.1 has one request under way on a connection: give more --connections")
        }
        (_, Some(given)) if given > MOST_PIPELINED => {
            bail!("--pipeline is at most {MOST_PIPELINED}")
        }
        (_, Some(given)) => given,
        (Door::Resp, None) if args.rate.is_none() => 16,
        (Door::Grpc, None) if args.rate.is_none() => 10,
        (_, None) => 1,
    };
    let question = Question::new(args)?;
    let token = args.token.as_ref().map(|token| token.reveal().to_owned());
    let message = match args.door {
        Door::Http => question.http(&run::host(&to), token.as_deref()),
        Door::Grpc => question.envoy(),
        Door::Resp => question.command(),
    };
    Ok(Work {
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
