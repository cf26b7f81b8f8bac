//! Two servers that share a store, and the bound of each consistency mode.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;

use super::super::check::{CheckContext, CheckRun, wait_until};
use super::super::harness::HttpConnection;
use super::super::measurement::{FigureBound, FigureUnit, Measurement};
use super::store_address::{given, key_prefix, skipped};

const CAPACITY: u64 = 400;
const SERVERS: u64 = 2;
/// The number of callers of each server.
const CALLERS: usize = 2;
/// A timeout that a busy machine does not reach: this check is not about time.
const TIMEOUT: &str = "10s";

/// A way in which servers share a limit.
#[derive(Clone, Copy, Debug)]
enum SharedMode {
    Strict,
    Leased,
    Synced,
}

impl SharedMode {
    fn name(self) -> &'static str {
        match self {
            SharedMode::Strict => "strict",
            SharedMode::Leased => "leased",
            SharedMode::Synced => "synced",
        }
    }

    /// Returns how many requests all servers may admit together.
    fn bound(self) -> FigureBound {
        match self {
            SharedMode::Strict => FigureBound::Exactly(CAPACITY),
            SharedMode::Leased => FigureBound::AtMost(CAPACITY),
            // What one server admits before it hears of the others is at most the capacity.
            SharedMode::Synced => FigureBound::AtMost(SERVERS * CAPACITY),
        }
    }
}

fn rules() -> String {
    let rule = |mode: &str| {
        format!(
            "  - {{ name: {mode}, route: GET /{mode}, per: user, \
             limit: {CAPACITY}/5min fixed first_hit, consistency: {mode}, on_error: deny }}\n"
        )
    };
    let rules: String = ["strict", "leased", "synced"].map(rule).concat();
    format!("domain: verify\nattributes: [user]\nrules:\n{rules}")
}

pub(super) fn run(context: &CheckContext) -> anyhow::Result<CheckRun> {
    let Some(store) = given(context)? else { return Ok(skipped()) };
    let (prefix, rules) = (key_prefix(), rules());
    let mut servers = Vec::new();
    for _ in 0..SERVERS {
        servers.push(store.start_server(context, store.address, &prefix, (&rules, TIMEOUT))?);
    }
    let doors = servers.iter().map(|server| server.door("http")).collect::<Result<Vec<_>, _>>()?;
    for (door, server) in doors.iter().zip(&servers) {
        let is_ready = wait_until(context, Duration::from_secs(10), || {
            call(*door, "strict", "probe").unwrap_or(false)
        });
        anyhow::ensure!(is_ready, "a server cannot use the store: {}", server.log());
    }
    let mut measured = Vec::new();
    for mode in [SharedMode::Strict, SharedMode::Leased, SharedMode::Synced] {
        context.step(mode.name());
        measured.push(measurement(mode, admitted(&doors, mode)?));
    }
    Ok(CheckRun::Measured(measured))
}

fn measurement(mode: SharedMode, admitted: u64) -> Measurement {
    let subject = format!("{SERVERS} servers, {CAPACITY}/5min {}: admitted", mode.name());
    Measurement::new(subject, admitted, FigureUnit::Count("requests"), mode.bound())
}

fn call(door: SocketAddr, route: &str, user: &str) -> anyhow::Result<bool> {
    check(&mut HttpConnection::open(door)?, route, user)
}

fn check(connection: &mut HttpConnection, route: &str, user: &str) -> anyhow::Result<bool> {
    let attributes = json!({"route": format!("GET /{route}"), "user": user});
    let body = json!({"domain": "verify", "attributes": attributes});
    Ok(connection.call("/v1/check", &body)?["allowed"] == true)
}

/// Calls from all callers at the same time, twice as often as the limit allows; returns how many pass.
fn admitted(doors: &[SocketAddr], mode: SharedMode) -> anyhow::Result<u64> {
    let callers = doors.len() * CALLERS;
    let calls = (2 * CAPACITY as usize).div_ceil(callers);
    let hammer = |door: SocketAddr| -> anyhow::Result<u64> {
        let (mut connection, mut passed) = (HttpConnection::open(door)?, 0);
        for _ in 0..calls {
            passed += u64::from(check(&mut connection, mode.name(), "ann")?);
        }
        Ok(passed)
    };
    std::thread::scope(|scope| {
        let doors = doors.iter().cycle().take(callers);
        let threads: Vec<_> = doors.map(|door| scope.spawn(|| hammer(*door))).collect();
        let panicked = |_| anyhow::anyhow!("a caller panicked");
        threads.into_iter().map(|thread| thread.join().map_err(panicked)?).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admissions_beyond_the_bound_of_a_mode_are_found() {
        let holds = |mode, admitted| measurement(mode, admitted).holds();
        assert!(holds(SharedMode::Strict, CAPACITY));
        assert!(
            !holds(SharedMode::Strict, CAPACITY + 1) && !holds(SharedMode::Strict, CAPACITY - 1)
        );
        assert!(
            holds(SharedMode::Leased, CAPACITY - 1) && !holds(SharedMode::Leased, CAPACITY + 1)
        );
        assert!(holds(SharedMode::Synced, 2 * CAPACITY));
        assert!(!holds(SharedMode::Synced, 2 * CAPACITY + 1));
    }
}
