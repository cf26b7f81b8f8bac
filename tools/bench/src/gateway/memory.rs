//! The memory of connections: many idle ones, and fewer active ones.
//!
//! An idle connection has sent one request and got its response. Each figure is of a proxy just started.

use std::net::SocketAddr;

use serde_json::json;

use super::latency;
use super::proxies::{Proxy, ProxyKind};
use crate::doors::idle::connect;
use crate::doors::load_generators::run_wrk;
use crate::report::{Table, count};
use crate::sections::Section;
use crate::targets::Target;

const ACTIVE: usize = 1_000;
const MIB: f64 = 1024.0 * 1024.0;

/// The first network of idle connections; those of the doors are below.
const NETWORK: u8 = 10;

/// Measures the proxies, one after the other.
pub(super) fn run(
    kinds: &[ProxyKind],
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
        let request = latency::allowed_request();
        let mut connections = Vec::new();
        for number in 0..idle as u64 {
            let connection = connect(proxy.address, network, number, &request);
            let name = kind.name();
            connections.push(connection.map_err(|error| format!("{name}, {number}: {error}"))?);
        }
        let idling = proxy.memory();
        drop((connections, proxy));

        let proxy = Proxy::start(kind, upstream, files)?;
        run_wrk(&format!("http://{}/", proxy.address), ACTIVE, 2.0, "")?;
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
    let of =
        |kind: ProxyKind| cost.iter().find(|(other, _)| *other == kind).map(|(_, bytes)| *bytes);
    let against = |peer: ProxyKind| Target {
        what: format!("memory of tollgate / {} at {with_idle}", peer.name()),
        measured: of(ProxyKind::Tollgate).zip(of(peer)).map(|(ours, theirs)| ours / theirs),
        most: 1.0,
    };
    Ok(Section {
        title: "MiB of memory".to_owned(),
        table,
        targets: [ProxyKind::Envoy, ProxyKind::Traefik].map(against).into(),
        figures: json!({ "memory": figures }),
    })
}
