//! Hostile input on each door: the server keeps answering, and its memory is bounded.

use std::net::{SocketAddr, TcpStream};

use serde_json::json;

use super::super::check::{CheckContext, CheckRun};
use super::super::harness::{
    ChildServer, HttpConnection, MEMORY_UNKNOWN, RespConnection, StubUpstream, grpc_check,
};
use super::super::measurement::Measurement;
use super::{http_attacks, http2_attacks, resp_attacks};
use crate::bench::BenchOutcome;

const MIB: u64 = 1 << 20;
/// The memory that the server may take for all attacks: its budget for bodies of 64 MiB, and as much for
/// the buffers of some hundred connections.
const MAX_GROWTH: u64 = 128 * MIB;
/// The number of open files that the attacks need in this process and in the server.
const OPEN_FILES: u64 = 1_024;
const RULES: &str =
    "domain: verify\nattributes: [user]\nrules: [{ name: all, per: user, limit: 1M/s burst 1M }]\n";

/// A door of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DoorUnderAttack {
    Http,
    Grpc,
    Resp,
    Gateway,
}

impl DoorUnderAttack {
    const ALL: [DoorUnderAttack; 4] = [
        DoorUnderAttack::Http,
        DoorUnderAttack::Grpc,
        DoorUnderAttack::Resp,
        DoorUnderAttack::Gateway,
    ];

    fn name(self) -> &'static str {
        match self {
            DoorUnderAttack::Http => "http",
            DoorUnderAttack::Grpc => "grpc",
            DoorUnderAttack::Resp => "resp",
            DoorUnderAttack::Gateway => "gateway",
        }
    }

    fn attacks(self) -> Vec<HostileAttack> {
        match self {
            DoorUnderAttack::Http => [http_attacks::ATTACKS, http2_attacks::ATTACKS].concat(),
            DoorUnderAttack::Grpc => [http2_attacks::ATTACKS, http2_attacks::GRPC_ATTACKS].concat(),
            DoorUnderAttack::Resp => resp_attacks::ATTACKS.to_vec(),
            DoorUnderAttack::Gateway => [http_attacks::ATTACKS, http2_attacks::ATTACKS].concat(),
        }
    }

    /// Returns whether a door answers a valid call as it should.
    fn answers(self, address: SocketAddr) -> bool {
        let answered = match self {
            DoorUnderAttack::Http => http_call(address),
            DoorUnderAttack::Grpc => {
                grpc_check(address, "verify", ("user", "ann")).map(|code| code == 1)
            }
            DoorUnderAttack::Resp => resp_call(address),
            DoorUnderAttack::Gateway => gateway_call(address),
        };
        answered.unwrap_or(false)
    }
}

fn http_call(address: SocketAddr) -> anyhow::Result<bool> {
    let body = json!({"domain": "verify", "attributes": {"user": "ann"}});
    Ok(HttpConnection::open(address)?.call("/v1/check", &body)?["allowed"] == true)
}

fn resp_call(address: SocketAddr) -> anyhow::Result<bool> {
    let command = vec!["TG.CHECK", "verify", "user", "ann"];
    Ok(RespConnection::open(address)?.pipeline(&[command])? == [BenchOutcome::Allowed])
}

fn gateway_call(address: SocketAddr) -> anyhow::Result<bool> {
    Ok(HttpConnection::open(address)?.send("GET", "/valid", &[], "")?.status() == 200)
}

/// An attack. It returns the connections that stay open while the door is tried.
#[derive(Clone, Copy)]
pub(super) struct HostileAttack {
    pub(super) name: &'static str,
    pub(super) run: fn(SocketAddr) -> AttackResult,
}

/// The result of an attack.
#[derive(Debug, Default)]
pub(super) struct AttackResult {
    /// Connections to keep open for a while.
    pub(super) held: Vec<TcpStream>,
    /// Responses to requests that were hidden in others.
    pub(super) smuggled: u64,
}

pub(super) fn run(context: &CheckContext) -> anyhow::Result<CheckRun> {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if files.is_some_and(|files| files < OPEN_FILES) {
        return Ok(CheckRun::Skipped(format!(
            "it needs {OPEN_FILES} open files, and the limit is {}: run `ulimit -n {OPEN_FILES}` first",
            files.unwrap_or_default()
        )));
    }
    let (upstream, folder) = (StubUpstream::start()?, context.workspace.folder()?);
    std::fs::write(folder.join("rules.yaml"), RULES)?;
    let (any, url) = ("127.0.0.1:0", upstream.url());
    let doors = ["--http", any, "--grpc", any, "--resp", any, "--listen", any, "--to", &url];
    let more = ["--rules", "rules.yaml", "--snapshot", "off", "--data", "data"];
    let server = ChildServer::start(context, &folder, &[&doors[..], &more[..]].concat())?;
    let mut tally = HostileTally::default();
    let Some(before) = server.memory() else {
        return Ok(CheckRun::Skipped(MEMORY_UNKNOWN.to_owned()));
    };
    for door in DoorUnderAttack::ALL {
        let address = server.door(door.name())?;
        for attack in door.attacks() {
            context.step(format!("{}: {}", door.name(), attack.name));
            let result = (attack.run)(address);
            tally.add(door, attack.name, door.answers(address), result.smuggled);
            // A server that has ended has no memory, and does not answer either.
            let grown = server.memory().map_or(0, |now| now.saturating_sub(before));
            tally.grown = tally.grown.max(grown);
            drop(result.held);
        }
    }
    let received = upstream.take();
    let is_smuggled = |line: &str| line.contains(http_attacks::SMUGGLED);
    tally.forwarded = received.iter().filter(|request| is_smuggled(&request.line)).count() as u64;
    tally.is_running = server.is_running();
    Ok(CheckRun::Measured(tally.measurements()))
}

/// The figures of all attacks.
#[derive(Debug, Default)]
struct HostileTally {
    /// The number of attacks on each door.
    attacks: [u64; 4],
    /// The attacks after which a door did not answer.
    silent: [Vec<&'static str>; 4],
    smuggled: u64,
    /// Smuggled requests that reached the upstream.
    forwarded: u64,
    grown: u64,
    is_running: bool,
}

impl HostileTally {
    fn add(&mut self, door: DoorUnderAttack, name: &'static str, answers: bool, smuggled: u64) {
        self.attacks[door as usize] += 1;
        self.smuggled += smuggled;
        if !answers {
            self.silent[door as usize].push(name);
        }
    }

    fn measurements(&self) -> Vec<Measurement> {
        let mut measured = Vec::new();
        for door in DoorUnderAttack::ALL {
            let (attacks, silent) = (self.attacks[door as usize], &self.silent[door as usize]);
            let mut subject = format!("{}: attacks after which it answered", door.name());
            if !silent.is_empty() {
                subject += &format!(", not after: {}", silent.join("; "));
            }
            let answered = attacks - silent.len() as u64;
            measured.push(Measurement::exactly(subject, answered, "attacks", attacks.max(1)));
        }
        let hidden = self.smuggled + self.forwarded;
        let subject = "requests hidden in others: answered, or forwarded to the upstream";
        measured.push(Measurement::exactly(subject, hidden, "requests", 0));
        let running = u64::from(self.is_running);
        measured.push(Measurement::exactly(
            "servers running after all attacks",
            running,
            "servers",
            1,
        ));
        let subject = "growth of the process during the attacks";
        measured.push(Measurement::memory(subject, self.grown, MAX_GROWTH));
        measured
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A server that accepts and closes, as one whose process crashes and restarts.
    #[test]
    fn a_door_that_does_not_answer_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let closing = std::thread::spawn(move || listener.incoming().take(4).count());
        for door in DoorUnderAttack::ALL {
            assert!(!door.answers(address), "{door:?}");
        }
        closing.join().unwrap();
        assert!(!DoorUnderAttack::Http.answers(address), "the listener is gone");
    }

    fn tally() -> HostileTally {
        let mut tally =
            HostileTally { grown: MAX_GROWTH, is_running: true, ..HostileTally::default() };
        DoorUnderAttack::ALL.iter().for_each(|door| tally.add(*door, "attack", true, 0));
        tally
    }

    fn holds(tally: &HostileTally) -> bool {
        tally.measurements().iter().all(Measurement::holds)
    }

    #[test]
    fn every_failure_of_a_door_breaks_the_guarantee() {
        assert!(holds(&tally()));
        let mut silent = tally();
        silent.add(DoorUnderAttack::Resp, "nesting", false, 0);
        assert!(!holds(&silent));
        assert!(silent.measurements()[2].subject().contains("not after: nesting"));
        assert!(!holds(&HostileTally { is_running: false, ..tally() }));
        assert!(!holds(&HostileTally { grown: MAX_GROWTH + 1, ..tally() }));
        assert!(!holds(&HostileTally { smuggled: 1, ..tally() }));
        assert!(!holds(&HostileTally { forwarded: 1, ..tally() }));
        let untried = HostileTally { attacks: [1, 1, 0, 1], ..tally() };
        assert!(!holds(&untried), "a door that was not attacked proves nothing");
    }
}
