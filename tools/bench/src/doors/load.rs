//! The decisions per second that one door sustains, and where the time goes.

use serde_json::json;

use super::decision_request::{Door, decision_request};
use super::load_generators::LoadShape;
use super::server::Server;
use super::servers::ServerKind;
use super::throughput::DoorSample;
use crate::options::Options;
use crate::report::{Table, rate};
use crate::sections::Section;
use crate::targets::Target;

/// 500 million an hour.
const WANTED: f64 = 139_000.0;

const CASES: [(&str, Door, usize, usize); 5] = [
    ("RESP, pipeline 1", Door::Resp, 50, 1),
    ("RESP, pipeline 16", Door::Resp, 50, 16),
    ("RESP, pipeline 100", Door::Resp, 50, 100),
    ("HTTP/1.1", Door::Http, 50, 1),
    ("gRPC, 10 × 10", Door::Grpc, 10, 10),
];

/// Loads tollgate through one door after the other, five times as long as a round.
pub(crate) fn run(options: &Options) -> Result<Section, String> {
    let server = Server::start(ServerKind::Tollgate, &Door::ALL, 4096)?;
    let mut table = Table::new([
        "tollgate, µs per decision",
        "decisions/s",
        "server: program",
        "kernel",
        "waiting",
        "loader: program",
        "kernel",
        "waiting",
    ]);
    let (mut best, mut figures) = (0.0, Vec::new());
    for (name, door, connections, depth) in CASES {
        let request =
            decision_request(ServerKind::Tollgate, door, false).expect("tollgate has every door");
        let shape = LoadShape { connections, depth };
        let sample =
            DoorSample::take(&server, door, &request, shape, 5.0 * options.seconds as f64)?;
        best = f64::max(best, sample.per_second);
        // Each has a core: the time it does not use, it waits.
        let each = 1e6 / sample.per_second;
        let shares = [sample.cpu, sample.loader].map(|cpu| {
            let [user, system] = [cpu.user, cpu.system].map(|seconds| sample.each_us(seconds));
            [user, system, (each - user - system).max(0.0)]
        });
        let shown = shares.iter().flatten().map(|us| format!("{us:.2}"));
        table.row([name.to_owned(), rate(sample.per_second)].into_iter().chain(shown));
        figures.push(json!({
            "case": name,
            "per_second": sample.per_second,
            "server_us": shares[0],
            "loader_us": shares[1],
        }));
    }
    Ok(Section {
        title: "Sustained load through one door, the server on one core, the generator on another"
            .to_owned(),
        table,
        targets: vec![Target {
            what: format!("{WANTED} decisions/s / the most through one door"),
            measured: Some(WANTED / best),
            most: 1.0,
        }],
        figures: json!({ "load": figures }),
    })
}
