//! Processor time per decision and throughput of every server behind one door, in rounds that all of
//! them share.

use std::time::Duration;

use serde_json::{Value, json};

use super::ask::{Ask, Door, KEYS, ask};
use super::lineup::Kind;
use super::loaders::{self, Shape};
use super::server::Server;
use super::traffic::{Pace, Traffic};
use crate::measure::{median, try_interleave};
use crate::options::Options;
use crate::process::Cpu;
use crate::report::{Table, rate};
use crate::sections::Section;
use crate::targets::Target;

/// What one press of a server showed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) decisions: f64,
    pub(crate) per_second: f64,
    /// Of the server.
    pub(crate) cpu: Cpu,
    /// Of whoever loads it.
    pub(crate) loader: Cpu,
}

impl Sample {
    /// Presses a server once.
    pub(crate) fn take(
        server: &Server,
        door: Door,
        ask: &Ask,
        shape: Shape,
        seconds: f64,
    ) -> Result<Sample, String> {
        let before = (server.cpu(), Cpu::of_children());
        let counted = loaders::press(server.address(door), ask, shape, seconds)
            .map_err(|error| format!("{}: {error}", server.kind.name()))?;
        Ok(Sample {
            decisions: counted.decisions,
            per_second: counted.per_second,
            cpu: server.cpu().since(before.0),
            loader: Cpu::of_children().since(before.1),
        })
    }

    /// Seconds as microseconds per decision.
    pub(crate) fn each_us(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.decisions
    }

    fn cpu_us(&self) -> f64 {
        self.each_us(self.cpu.total())
    }
}

/// A server in a case, and a sample of it for each round.
struct Cell<'a> {
    server: &'a Server,
    case: String,
    ask: Ask,
    shape: Shape,
    samples: Vec<Sample>,
}

impl Cell<'_> {
    fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(of))
    }
}

/// The cases of a door: name, shape, whether all are denied.
fn cases(door: Door) -> Vec<(String, Shape, bool)> {
    let shape = |connections, depth| Shape { connections, depth };
    let both = |depth| {
        let case = move |word: &str, denied| (format!("{depth} {word}"), shape(50, depth), denied);
        [case("allowed", false), case("denied", true)]
    };
    match door {
        Door::Resp => [1, 16, 100].into_iter().flat_map(both).collect(),
        Door::Http => vec![("50 connections".to_owned(), shape(50, 1), false)],
        Door::Grpc => [(10, 10), (50, 1)]
            .map(|(connections, depth)| {
                (format!("{connections} × {depth}"), shape(connections, depth), false)
            })
            .into(),
    }
}

/// What tollgate takes of a peer's processor time, at most.
fn targets(door: Door) -> Vec<(&'static str, Kind, f64)> {
    match door {
        Door::Resp => vec![
            ("1 ", Kind::RedisCell, 0.8),
            ("16 ", Kind::RedisCell, 0.3),
            ("100 ", Kind::RedisCell, 0.2),
            ("16 allowed", Kind::Redis, 1.0),
            ("100 allowed", Kind::Redis, 1.0),
        ],
        Door::Http => vec![("", Kind::Throttlecrab, 0.8), ("", Kind::Limitador, 0.5)],
        Door::Grpc => vec![("", Kind::Limitador, 0.6), ("", Kind::Throttlecrab, 0.9)],
    }
}

/// Measures all servers behind a door.
pub(crate) fn run(door: Door, servers: &[Server], options: &Options) -> Result<Section, String> {
    let cases = cases(door);
    for server in servers {
        for denied in [false, true] {
            if cases.iter().any(|case| case.2 == denied) {
                warm(server, door, denied)?;
            }
        }
    }
    let mut cells = Vec::new();
    for (case, shape, denied) in &cases {
        for server in servers {
            if let Some(ask) = ask(server.kind, door, *denied) {
                let (case, shape) = (case.clone(), *shape);
                cells.push(Cell { server, case, ask, shape, samples: Vec::new() });
            }
        }
    }
    try_interleave(door.name(), options.rounds, &mut cells, |cell| {
        let seconds = options.seconds as f64;
        let sample = Sample::take(cell.server, door, &cell.ask, cell.shape, seconds)?;
        cell.samples.push(sample);
        Ok(())
    })?;
    Ok(section(door, servers, &cases, &cells))
}

/// Asks about every key as often as it is allowed, and makes sure that answers are now what the case
/// says they are.
fn warm(server: &Server, door: Door, denied: bool) -> Result<(), String> {
    let Some(ask) = ask(server.kind, door, denied) else { return Ok(()) };
    for (requests, expect_denied) in [(if denied { 2 } else { 1 } * KEYS, false), (1_000, denied)] {
        let traffic = Traffic {
            address: server.address(door),
            ask: &ask,
            connections: 50,
            pace: Pace::AtOnce,
            at_most: (Duration::from_secs(300), requests),
        };
        let name = server.kind.name();
        let heard = traffic.run().map_err(|error| format!("{name}: {error}"))?;
        let expected = if expect_denied { heard.denied } else { heard.allowed };
        if expected != requests {
            let (allowed, denied, failed) = (heard.allowed, heard.denied, heard.failed);
            return Err(format!(
                "{name}, {}: {requests} requests that should all be {}: {allowed} were allowed, \
                 {denied} denied, {failed} failed",
                door.name(),
                if expect_denied { "denied" } else { "allowed" },
            ));
        }
    }
    Ok(())
}

fn section(
    door: Door,
    servers: &[Server],
    cases: &[(String, Shape, bool)],
    cells: &[Cell],
) -> Section {
    let find = |kind: Kind, case: &str| {
        cells.iter().find(|cell| cell.server.kind == kind && cell.case == case)
    };
    let heads = cases.iter().map(|case| case.0.as_str());
    let mut table = Table::new([""].into_iter().chain(heads));
    for server in servers {
        let shown = |cell: Option<&Cell>| {
            cell.map_or("-".to_owned(), |cell| {
                let rate = rate(cell.median(|sample| sample.per_second));
                format!("{:.2} · {rate}", cell.median(Sample::cpu_us))
            })
        };
        let figures = cases.iter().map(|case| shown(find(server.kind, &case.0)));
        table.row([server.kind.name().to_owned()].into_iter().chain(figures));
    }

    let mut met = Vec::new();
    for (prefix, peer, most) in targets(door) {
        for (case, ..) in cases.iter().filter(|case| case.0.starts_with(prefix)) {
            let pair = find(Kind::Tollgate, case).zip(find(peer, case));
            let ratio = pair.map(|(ours, theirs)| {
                let rounds = ours.samples.iter().zip(&theirs.samples);
                median(rounds.map(|(ours, theirs)| ours.cpu_us() / theirs.cpu_us()))
            });
            let what = format!("{}, {case}, CPU of tollgate / {}", door.name(), peer.name());
            met.push(Target { what, measured: ratio, most });
        }
    }

    let title = match door {
        Door::Resp => "RESP, 50 connections, by pipeline and outcome (redis-benchmark)",
        Door::Http => "HTTP/1.1 (wrk)",
        Door::Grpc => "gRPC, connections × streams (h2load)",
    };
    Section {
        title: format!("{title}: CPU µs per decision · decisions/s"),
        table,
        targets: met,
        figures: json!({ door.name(): cells.iter().map(as_json).collect::<Vec<_>>() }),
    }
}

fn as_json(cell: &Cell) -> Value {
    json!({
        "server": cell.server.kind.name(),
        "case": cell.case,
        "cpu_us": cell.median(Sample::cpu_us),
        "user_us": cell.median(|sample| sample.each_us(sample.cpu.user)),
        "system_us": cell.median(|sample| sample.each_us(sample.cpu.system)),
        "per_second": cell.median(|sample| sample.per_second),
        "cpu_us_rounds": cell.samples.iter().map(Sample::cpu_us).collect::<Vec<_>>(),
    })
}
