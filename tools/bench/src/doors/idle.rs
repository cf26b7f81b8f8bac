//! Whether idle connections disturb active ones, and the cost of an idle connection.
//!
//! An idle connection has sent one request and got its response, so that no server can close it as one
//! that never began.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::json;
use socket2::{Domain, Socket, Type};

use super::decision_request::{DecisionRequest, Door, decision_request};
use super::protocol::{ProtocolClient, Reply};
use super::server::Server;
use super::servers::ServerKind;
use super::traffic::{Pace, Traffic, TrafficStats};
use crate::options::Options;
use crate::report::{Table, count};
use crate::sections::Section;
use crate::targets::Target;

/// The number of files that are not idle connections.
pub(crate) const RESERVE: u64 = 1_000;

/// Requests per second on the active connections.
const RATE: f64 = 5_000.0;

/// The number of connections per address, which has about 28 000 ports.
const PER_ADDRESS: u64 = 20_000;

/// Measures each of tollgate's doors, with a server of its own.
pub(crate) fn run(files: u64, options: &Options) -> Result<Section, String> {
    // The system may allow fewer.
    let idle = (options.idle as u64).min(files.saturating_sub(RESERVE));
    if idle < options.idle as u64 {
        eprintln!("only {idle} idle connections: a process may have {files} files here, not more");
    }
    let mut table = Table::new([
        "tollgate",
        "p50 · p99 alone, µs",
        "with idle ones",
        "failed",
        "still connected",
        "bytes each",
    ]);
    let (mut targets, mut figures) = (Vec::new(), Vec::new());
    for (network, door) in (1..).zip(Door::ALL) {
        let server = Server::start(ServerKind::Tollgate, &[door], idle + RESERVE)?;
        let request =
            decision_request(ServerKind::Tollgate, door, false).expect("tollgate has every door");
        let honest = || honest(server.address(door), &request, options.seconds as u64);
        let alone = honest()?;
        let before = server.memory();
        let mut connections = Vec::new();
        for number in 0..idle {
            let connection = connect(server.address(door), network, number, &request);
            connections.push(connection.map_err(|error| format!("idle {number}: {error}"))?);
        }
        let bytes = (server.memory() - before) / idle as f64;
        let with = honest()?;
        let open = connections.iter_mut().map(is_open).filter(|open| *open).count();
        let shown = |stats: &TrafficStats| {
            format!("{:.0} · {:.0}", stats.percentile_us(50.0), stats.percentile_us(99.0))
        };
        table.row([
            door.name().to_owned(),
            shown(&alone),
            shown(&with),
            with.failed.to_string(),
            open.to_string(),
            format!("{bytes:.0}"),
        ]);
        targets.push(Target {
            what: format!("{}: idle connections lost, of {}", door.name(), count(idle as usize)),
            measured: Some(idle as f64 - open as f64),
            most: 0.0,
        });
        targets.push(Target {
            what: format!("{}: honest requests that failed beside them", door.name()),
            measured: Some(with.failed as f64),
            most: 0.0,
        });
        let percentiles =
            |stats: &TrafficStats| [stats.percentile_us(50.0), stats.percentile_us(99.0)];
        figures.push(json!({
            "door": door.name(),
            "idle": idle,
            "still_connected": open,
            "bytes_each": bytes,
            "alone_us": percentiles(&alone),
            "with_idle_us": percentiles(&with),
            "failed": with.failed,
        }));
    }
    Ok(Section {
        title: format!(
            "{} honest requests/s on 50 connections, alone and beside {} idle connections",
            count(RATE as usize),
            count(idle as usize)
        ),
        table,
        targets,
        figures: json!({ "idle": figures }),
    })
}

fn honest(
    address: SocketAddr,
    request: &DecisionRequest,
    seconds: u64,
) -> Result<TrafficStats, String> {
    let requests = RATE as u64 * seconds;
    let patience = Duration::from_secs(seconds + 10);
    let pace = Pace::PerSecond(RATE);
    let traffic =
        Traffic { address, request, connections: 50, pace, at_most: (patience, requests) };
    let mut stats = traffic.run().map_err(|error| format!("honest requests: {error}"))?;
    stats.failed += requests - (stats.allowed + stats.denied + stats.failed);
    Ok(stats)
}

/// Opens a connection and makes one decision.
///
/// Each door has another `network`, because the ports of recently closed connections cannot be reused.
pub(crate) fn connect(
    to: SocketAddr,
    network: u8,
    number: u64,
    request: &DecisionRequest,
) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    let from = Ipv4Addr::new(127, 0, network, 2 + (number / PER_ADDRESS) as u8);
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect(&to.into())?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut client = ProtocolClient::new(request);
    stream.write_all(&client.take_outbox())?;
    stream.write_all(client.encode(number))?;
    let mut buffer = [0; 4096];
    loop {
        let reply = match stream.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => client.receive(&buffer[..count]),
        };
        stream.write_all(&client.take_outbox())?;
        match reply {
            Some(Reply::Failed) => return Err(ErrorKind::InvalidData.into()),
            Some(_) => break,
            None => {}
        }
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Returns whether the connection is still open, and discards anything received.
fn is_open(stream: &mut TcpStream) -> bool {
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}
