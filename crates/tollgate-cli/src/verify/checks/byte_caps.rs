//! Byte caps: a flood of keys and hostile inline limits, against a server with little memory.

use anyhow::ensure;

use super::super::check::{CheckContext, CheckRun};
use super::super::harness::{ChildServer, MEMORY_UNKNOWN, RespConnection};
use super::super::measurement::Measurement;
use crate::bench::BenchOutcome;
use crate::text::grouped;

const MIB: u64 = 1 << 20;
/// The maximum memory of the server's counters.
const CAP: u64 = 16 * MIB;
/// The memory that a server may take beside its counters: a tenth of them, and the buffers of its
/// connections, caches and telemetry.
const ALLOWANCE: u64 = CAP / 10 + 24 * MIB;
/// The limits of the keys that are exhausted before the flood: one for each slot class.
const EXHAUSTED_LIMITS: [&str; 3] = ["10/d", "10/d fixed", "10/d log"];
/// The number of exhausted keys of each limit.
const EXHAUSTED_KEYS: u64 = 20;
/// A limit whose counter would grow without end.
const ENDLESS: &str = "1000000000000/d log min_gap 1us count_denied";
/// The number of calls in one pipeline.
const BATCH: u64 = 500;

/// What a flood is directed at.
trait FloodTarget {
    /// Takes `cost` from each key under a limit.
    fn take(
        &mut self,
        limit: &str,
        keys: &[String],
        cost: u64,
    ) -> anyhow::Result<Vec<BenchOutcome>>;

    /// Returns the memory in use.
    fn memory(&self) -> Option<u64>;
}

struct ServerTarget {
    server: ChildServer,
    connection: RespConnection,
}

impl FloodTarget for ServerTarget {
    fn take(
        &mut self,
        limit: &str,
        keys: &[String],
        cost: u64,
    ) -> anyhow::Result<Vec<BenchOutcome>> {
        let cost = cost.to_string();
        let commands = keys.iter().map(|key| vec!["TG.LIMIT", key, limit, "COST", &cost]);
        self.connection.pipeline(&commands.collect::<Vec<_>>())
    }

    fn memory(&self) -> Option<u64> {
        self.server.memory()
    }
}

/// A flood of new keys under one limit, each charged a number of times.
struct KeyFlood {
    limit: &'static str,
    keys: u64,
    times: u64,
}

impl KeyFlood {
    const fn new(limit: &'static str, keys: u64, times: u64) -> KeyFlood {
        KeyFlood { limit, keys, times }
    }
}

pub(super) fn run(context: &CheckContext) -> anyhow::Result<CheckRun> {
    let folder = context.workspace.folder()?;
    let cap = CAP.to_string();
    let args = ["--resp", "127.0.0.1:0", "--snapshot", "off", "--max-memory", &cap];
    let server = ChildServer::start(context, &folder, &args)?;
    if server.memory().is_none() {
        return Ok(CheckRun::Skipped(MEMORY_UNKNOWN.to_owned()));
    }
    let connection = RespConnection::open(server.door("resp")?)?;
    let mut target = ServerTarget { server, connection };
    let floods: &[KeyFlood] = match context.quick {
        true => &[KeyFlood::new("10/d log", 90_000, 1), KeyFlood::new("10k/d log", 20, 500)],
        false => &[
            KeyFlood::new("10/d", 400_000, 1),
            KeyFlood::new("10/d fixed", 200_000, 1),
            KeyFlood::new("10/d log", 150_000, 1),
            KeyFlood::new("10k/d log min_gap 1us count_denied", 200, 500),
        ],
    };
    let tally = flood(&mut target, floods, |step| context.step(step))?;
    Ok(CheckRun::Measured(tally.measurements()))
}

/// The figures of all floods.
#[derive(Debug, Default, PartialEq, Eq)]
struct FloodTally {
    keys: u64,
    /// The largest memory beyond that before the floods.
    grown: u64,
    /// Exhausted keys that passed after a flood.
    freed: u64,
    /// Calls with an endless limit that were not rejected.
    accepted: u64,
}

fn flood(
    target: &mut impl FloodTarget,
    floods: &[KeyFlood],
    step: impl Fn(String),
) -> anyhow::Result<FloodTally> {
    let mut tally = FloodTally::default();
    let exhausted: Vec<String> =
        (0..EXHAUSTED_KEYS).map(|key| format!("exhausted-{key}")).collect();
    for limit in EXHAUSTED_LIMITS {
        let outcomes = target.take(limit, &exhausted, 10)?;
        let is_allowed = |outcome: &BenchOutcome| *outcome == BenchOutcome::Allowed;
        ensure!(outcomes.iter().all(is_allowed), "a new key is refused: {limit}");
    }
    let before = target.memory().unwrap_or_default();
    for (number, flood) in floods.iter().enumerate() {
        for first in (0..flood.keys).step_by(BATCH as usize) {
            step(format!("{}, {} keys", flood.limit, grouped(first)));
            let last = flood.keys.min(first + BATCH);
            let keys: Vec<String> = (first..last).map(|key| format!("{number}-{key}")).collect();
            for _ in 0..flood.times {
                target.take(flood.limit, &keys, 1)?;
            }
            tally.grown =
                tally.grown.max(target.memory().unwrap_or_default().saturating_sub(before));
        }
        tally.keys += flood.keys;
        let endless = target.take(ENDLESS, &vec!["endless".to_owned(); 100], 1)?;
        let is_accepted = |outcome: &&BenchOutcome| **outcome != BenchOutcome::Failed;
        tally.accepted += endless.iter().filter(is_accepted).count() as u64;
        for limit in EXHAUSTED_LIMITS {
            let outcomes = target.take(limit, &exhausted, 1)?;
            let is_freed = |outcome: &&BenchOutcome| **outcome != BenchOutcome::Denied;
            tally.freed += outcomes.iter().filter(is_freed).count() as u64;
        }
    }
    Ok(tally)
}

impl FloodTally {
    fn measurements(&self) -> Vec<Measurement> {
        let keys = grouped(self.keys);
        let all = EXHAUSTED_KEYS * EXHAUSTED_LIMITS.len() as u64;
        vec![
            Measurement::memory(
                format!("{keys} new keys, counters capped at 16 MiB: growth of the process"),
                self.grown,
                CAP + ALLOWANCE,
            ),
            Measurement::exactly(
                format!("{all} exhausted keys after each flood: free again"),
                self.freed,
                "keys",
                0,
            ),
            Measurement::exactly(
                "inline limits that cannot be stored: accepted",
                self.accepted,
                "limits",
                0,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use tollgate::testing::ManualClock;
    use tollgate::{Check, CounterId, Limit, MemoryStore};

    use super::*;

    /// A store in this process, with a fault.
    struct MutantTarget {
        store: MemoryStore,
        clock: ManualClock,
        forgets: bool,
        calls: u64,
    }

    impl MutantTarget {
        fn new(forgets: bool, max_memory: u64) -> MutantTarget {
            let clock = ManualClock::new();
            let store = MemoryStore::new().clock(&clock).max_memory(max_memory);
            MutantTarget { store, clock, forgets, calls: 0 }
        }
    }

    impl FloodTarget for MutantTarget {
        fn take(
            &mut self,
            limit: &str,
            keys: &[String],
            cost: u64,
        ) -> anyhow::Result<Vec<BenchOutcome>> {
            let Ok(parsed) = limit.parse::<Limit>() else {
                return Ok(vec![BenchOutcome::Failed; keys.len()]);
            };
            self.calls += 1;
            if self.forgets && self.calls == 50 {
                self.store = MemoryStore::new().clock(&self.clock);
            }
            let take = |key: &String| {
                let counter = CounterId::new(parsed.capacity());
                self.store.decide_one_now(&Check::new(counter, key, &parsed, cost)).allowed.into()
            };
            Ok(keys.iter().map(take).collect())
        }

        fn memory(&self) -> Option<u64> {
            Some(self.store.memory())
        }
    }

    fn holds(target: &mut MutantTarget, floods: &[KeyFlood]) -> [bool; 3] {
        let measured = flood(target, floods, |_| {}).unwrap().measurements();
        [0, 1, 2].map(|i| measured[i].holds())
    }

    #[test]
    fn a_store_without_a_cap_is_found() {
        let logs = [KeyFlood::new("10/d log", 220_000, 1)];
        assert_eq!(holds(&mut MutantTarget::new(false, u64::MAX), &logs), [false, true, true]);
    }

    #[test]
    fn a_store_that_forgets_debts_is_found() {
        let few = [KeyFlood::new("10/d log", 30_000, 1)];
        assert_eq!(holds(&mut MutantTarget::new(true, CAP), &few), [true, false, true]);
        assert_eq!(holds(&mut MutantTarget::new(false, CAP), &few), [true; 3]);
    }

    #[test]
    fn an_endless_limit_that_is_accepted_is_found() {
        let tally = FloodTally { accepted: 1, ..FloodTally::default() };
        assert!(!tally.measurements()[2].holds());
    }
}
