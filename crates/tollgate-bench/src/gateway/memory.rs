//! What connections cost in memory: many that say nothing, and fewer that never rest.
//!
//! An idle connection has asked once and was answered. Each figure is of a proxy just started.

use std::net::SocketAddr;

use serde_json::json;

use super::latency;
use super::lineup::{Kind, Proxy};
use crate::doors::idle::connect;
use crate::doors::loaders::wrk_by;
use crate::report::{Table, count};
use crate::sections::Section;
use crate::targets::Target;

const ACTIVE: usize = 1_000;
const MIB: f64 = 1024.0 * 1024.0;

/// Networks that idle connections come from; the doors' are below.
const NETWORK: u8 = 10;

/// Measures proxies, one after the other.
pub(super) fn run(
    kinds: &[Kind],
    upstream: SocketAddr,
    idle: usize,
    files: u64,
) -> Result<Section, String> {
    let (with_idle, each, with_active) = (
        format!("{} idle", count(idle)),
        "KiB each".to_owned(),
        format!("most at {} active", count(ACTIVE)),
    );
    let mut table = Table::new(["", "started", &with_idle, &each, &with_active]);
    let (mut figures, mut cost) = (Vec::new(), Vec::new());
    for (network, kind) in (NETWORK..).zip(kinds.iter().copied()) {
        let proxy = Proxy::start(kind, upstream, files)?;
        let started = proxy.memory();
        let ask = latency::ask();
        let mut connections = Vec::new();
        for number in 0..idle as u64 {
            let connection = connect(proxy.address, network, number, &ask);
            let name = kind.name();
            connections.push(connection.map_err(|error| format!("{name}, {number}: {error}"))?);
        }
        let idling = proxy.memory();
        drop((connections, proxy));

        let proxy = Proxy::start(kind, upstream, files)?;
        wrk_by(&format!("http://{}/", proxy.address), ACTIVE, 2.0, "")?;
        let active = proxy.peak_memory();
        let each = (idling - started) / idle as f64;
        let mib = |bytes: f64| format!("{:.1}", bytes / MIB);
        table.row([
            kind.name().to_owned(),
            mib(started),
            mib(idling),
            format!("{:.1}", each / 1024.0),
            mib(active),
        ]);
        figures.push(json!({
            "proxy": kind.name(),
            "started": started,
            "idle": idling,
            "bytes_each": each,
            "active": active,
        }));
        cost.push((kind, idling));
    }
    let of = |kind: Kind| cost.iter().find(|(other, _)| *other == kind).map(|(_, bytes)| *bytes);
    let against = |peer: Kind| Target {
        what: format!("memory of tollgate / {} at {with_idle}", peer.name()),
        measured: of(Kind::Tollgate).zip(of(peer)).map(|(ours, theirs)| ours / theirs),
        most: 1.0,
    };
    Ok(Section {
        title: "MiB of memory".to_owned(),
        table,
        targets: [Kind::Envoy, Kind::Traefik].map(against).into(),
        figures: json!({ "memory": figures }),
    })
}
