//! Processor time per decision and throughput of every server behind one door, in interleaved rounds.

use std::time::Duration;

use serde_json::{Value, json};

use super::decision_request::{DecisionRequest, Door, KEYS, decision_request};
use super::load_generators::{self, LoadShape};
use super::server::Server;
use super::servers::ServerKind;
use super::traffic::{Pace, Traffic};
use crate::measure::{median, try_interleave};
use crate::options::Options;
use crate::process::Cpu;
use crate::report::{Table, rate};
use crate::sections::Section;
use crate::targets::Target;

/// The result of one load of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DoorSample {
    pub(crate) decisions: f64,
    pub(crate) per_second: f64,
    /// The processor time of the server.
    pub(crate) cpu: Cpu,
    /// The processor time of the load generator.
    pub(crate) loader: Cpu,
}

impl DoorSample {
    /// Loads a server once.
    pub(crate) fn take(
        server: &Server,
        door: Door,
        request: &DecisionRequest,
        shape: LoadShape,
        seconds: f64,
    ) -> Result<DoorSample, String> {
        let before = (server.cpu(), Cpu::of_children());
        let result = load_generators::load(server.address(door), request, shape, seconds)
            .map_err(|error| format!("{}: {error}", server.kind.name()))?;
        Ok(DoorSample {
            decisions: result.decisions,
            per_second: result.per_second,
            cpu: server.cpu().since(before.0),
            loader: Cpu::of_children().since(before.1),
        })
    }

    /// Converts seconds to microseconds per decision.
    pub(crate) fn each_us(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.decisions
    }

    fn cpu_us(&self) -> f64 {
        self.each_us(self.cpu.total())
    }
}

/// A server in a case, with a sample for each round.
struct DoorCell<'a> {
    server: &'a Server,
    case: String,
    request: DecisionRequest,
    shape: LoadShape,
    samples: Vec<DoorSample>,
}

impl DoorCell<'_> {
    fn median(&self, of: impl Fn(&DoorSample) -> f64) -> f64 {
        median(self.samples.iter().map(of))
    }
}

/// Returns the cases of a door: name, shape, whether all are denied.
fn cases(door: Door) -> Vec<(String, LoadShape, bool)> {
    let shape = |connections, depth| LoadShape { connections, depth };
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

/// Returns the most processor time of tollgate relative to a peer's.
fn targets(door: Door) -> Vec<(&'static str, ServerKind, f64)> {
    match door {
        Door::Resp => vec![
            ("1 ", ServerKind::RedisCell, 0.8),
            ("16 ", ServerKind::RedisCell, 0.3),
            ("100 ", ServerKind::RedisCell, 0.2),
            ("16 allowed", ServerKind::Redis, 1.0),
            ("100 allowed", ServerKind::Redis, 1.0),
        ],
        Door::Http => vec![("", ServerKind::Throttlecrab, 0.8), ("", ServerKind::Limitador, 0.5)],
        Door::Grpc => vec![("", ServerKind::Limitador, 0.6), ("", ServerKind::Throttlecrab, 0.9)],
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
            if let Some(request) = decision_request(server.kind, door, *denied) {
                let (case, shape) = (case.clone(), *shape);
                cells.push(DoorCell { server, case, request, shape, samples: Vec::new() });
            }
        }
    }
    try_interleave(door.name(), options.rounds, &mut cells, |cell| {
        let seconds = options.seconds as f64;
        let sample = DoorSample::take(cell.server, door, &cell.request, cell.shape, seconds)?;
        cell.samples.push(sample);
        Ok(())
    })?;
    Ok(section(door, servers, &cases, &cells))
}

/// Uses every key as often as it is allowed, and checks that the decisions are those of the case.
fn warm(server: &Server, door: Door, denied: bool) -> Result<(), String> {
    let Some(request) = decision_request(server.kind, door, denied) else { return Ok(()) };
    for (requests, expect_denied) in [(if denied { 2 } else { 1 } * KEYS, false), (1_000, denied)] {
        let traffic = Traffic {
            address: server.address(door),
            request: &request,
            connections: 50,
            pace: Pace::AtOnce,
            at_most: (Duration::from_secs(300), requests),
        };
        let name = server.kind.name();
        let stats = traffic.run().map_err(|error| format!("{name}: {error}"))?;
        let expected = if expect_denied { stats.denied } else { stats.allowed };
        if expected != requests {
            let (allowed, denied, failed) = (stats.allowed, stats.denied, stats.failed);
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
    cases: &[(String, LoadShape, bool)],
    cells: &[DoorCell],
) -> Section {
    let find = |kind: ServerKind, case: &str| {
        cells.iter().find(|cell| cell.server.kind == kind && cell.case == case)
    };
    let heads = cases.iter().map(|case| case.0.as_str());
    let mut table = Table::new([""].into_iter().chain(heads));
    for server in servers {
        let shown = |cell: Option<&DoorCell>| {
            cell.map_or("-".to_owned(), |cell| {
                let rate = rate(cell.median(|sample| sample.per_second));
                format!("{:.2} · {rate}", cell.median(DoorSample::cpu_us))
            })
        };
        let figures = cases.iter().map(|case| shown(find(server.kind, &case.0)));
        table.row([server.kind.name().to_owned()].into_iter().chain(figures));
    }

    let mut met = Vec::new();
    for (prefix, peer, most) in targets(door) {
        for (case, ..) in cases.iter().filter(|case| case.0.starts_with(prefix)) {
            let pair = find(ServerKind::Tollgate, case).zip(find(peer, case));
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

fn as_json(cell: &DoorCell) -> Value {
    json!({
        "server": cell.server.kind.name(),
        "case": cell.case,
        "cpu_us": cell.median(DoorSample::cpu_us),
        "user_us": cell.median(|sample| sample.each_us(sample.cpu.user)),
        "system_us": cell.median(|sample| sample.each_us(sample.cpu.system)),
        "per_second": cell.median(|sample| sample.per_second),
        "cpu_us_rounds": cell.samples.iter().map(DoorSample::cpu_us).collect::<Vec<_>>(),
    })
}
