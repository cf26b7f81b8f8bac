//! Whether connections that say nothing disturb those that do, and what one of them costs.
//!
//! An idle connection has asked once and was answered, so that no server can take it for one that
//! never began.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::json;
use socket2::{Domain, Socket, Type};

use super::ask::{Ask, Door, ask};
use super::lineup::Kind;
use super::server::Server;
use super::talk::{Reply, Talk};
use super::traffic::{Heard, Pace, Traffic};
use crate::options::Options;
use crate::report::{Table, count};
use crate::sections::Section;
use crate::targets::Target;

/// Files that are not idle connections.
pub(crate) const RESERVE: u64 = 1_000;

/// Honest requests a second.
const RATE: f64 = 5_000.0;

/// An address has about 28 000 ports to connect from.
const PER_ADDRESS: u64 = 20_000;

/// Measures each of tollgate's doors, with a server of its own.
pub(crate) fn run(files: u64, options: &Options) -> Result<Section, String> {
    // As many as the system lets us have.
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
        let server = Server::start(Kind::Tollgate, &[door], idle + RESERVE)?;
        let ask = ask(Kind::Tollgate, door, false).expect("tollgate has every door");
        let honest = || honest(server.address(door), &ask, options.seconds as u64);
        let alone = honest()?;
        let before = server.memory();
        let mut connections = Vec::new();
        for number in 0..idle {
            let connection = connect(server.address(door), network, number, &ask);
            connections.push(connection.map_err(|error| format!("idle {number}: {error}"))?);
        }
        let bytes = (server.memory() - before) / idle as f64;
        let with = honest()?;
        let open = connections.iter_mut().map(is_open).filter(|open| *open).count();
        let shown = |heard: &Heard| format!("{:.0} · {:.0}", heard.at(50.0), heard.at(99.0));
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
        let percentiles = |heard: &Heard| [heard.at(50.0), heard.at(99.0)];
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

fn honest(address: SocketAddr, ask: &Ask, seconds: u64) -> Result<Heard, String> {
    let requests = RATE as u64 * seconds;
    let patience = Duration::from_secs(seconds + 10);
    let pace = Pace::PerSecond(RATE);
    let traffic = Traffic { address, ask, connections: 50, pace, at_most: (patience, requests) };
    let mut heard = traffic.run().map_err(|error| format!("honest requests: {error}"))?;
    heard.failed += requests - (heard.allowed + heard.denied + heard.failed);
    Ok(heard)
}

/// A connection that has asked once, from `network`, which is another for each door: ports of
/// connections that were closed a moment ago cannot be taken again.
pub(crate) fn connect(
    to: SocketAddr,
    network: u8,
    number: u64,
    ask: &Ask,
) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    let from = Ipv4Addr::new(127, 0, network, 2 + (number / PER_ADDRESS) as u8);
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect(&to.into())?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut talk = Talk::new(ask);
    stream.write_all(&talk.aside())?;
    stream.write_all(talk.ask(number))?;
    let mut buffer = [0; 4096];
    loop {
        let reply = match stream.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => talk.hear(&buffer[..count]),
        };
        stream.write_all(&talk.aside())?;
        match reply {
            Some(Reply::Failed) => return Err(ErrorKind::InvalidData.into()),
            Some(_) => break,
            None => {}
        }
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Whether the other side has not hung up, whatever it said since.
fn is_open(stream: &mut TcpStream) -> bool {
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}
