//! All or none: a request with several limits is charged to each of them or to none.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::testing::ManualClock;
use tollgate::{Check, CounterId, Limit, MemoryStore};

use super::super::check::{CheckContext, CheckRun};
use super::super::measurement::Measurement;
use crate::text::grouped;

/// Limits of every slot class of the memory store. The last one is the tightest.
const LIMITS: &[&str] =
    &["100/year", "100/year fixed", "100/year sliding", "100/year log", "7/year"];
/// The capacity of the tightest limit.
const TIGHTEST: u64 = 7;
const THREADS: u64 = 4;
/// The number of keys that threads charge in pairs.
const KEYS: u64 = 5;
/// The capacity of each of those keys.
const PAIR_CAPACITY: u64 = 1_000;

/// Decides checks as one; returns whether all of them were charged.
type DecideAll<'a> = &'a (dyn Fn(&[Check<'_>]) -> bool + Sync);

pub(super) fn run(context: &CheckContext) -> anyhow::Result<CheckRun> {
    context.step("the last of several limits refuses");
    let limits = LIMITS.iter().map(|text| text.parse()).collect::<Result<Vec<Limit>, _>>()?;
    let (store, calls) = (store(), context.amount(10_000, 1_000));
    let decide = |checks: &[Check<'_>]| store.decide_now(checks).iter().all(|one| one.allowed);
    let (admitted, charged) = last_refuses(&store, &limits, calls, &decide);
    let mut measured = last_refusal_measurements(calls, admitted, charged);
    for (kind, calls) in ["fixed", "log", ""].into_iter().zip([context.amount(20_000, 2_000); 3]) {
        context.step(format!("threads charge pairs of keys, {kind}"));
        let limit: Limit = format!("{PAIR_CAPACITY}/year {kind}").parse()?;
        let store = self::store();
        let decide = |checks: &[Check<'_>]| store.decide_now(checks).iter().all(|one| one.allowed);
        measured.push(pairs_measurement(
            &limit,
            calls,
            crossing_pairs(&store, &limit, calls, &decide),
        ));
    }
    Ok(CheckRun::Measured(measured))
}

fn store() -> MemoryStore {
    MemoryStore::new().clock(&ManualClock::new())
}

fn checks<'a>(limits: &'a [Limit], cost: u64) -> Vec<Check<'a>> {
    let ids = (0..).map(CounterId::new);
    ids.zip(limits).map(|(id, limit)| Check::new(id, "ann", limit, cost)).collect()
}

/// Calls more often than the last limit allows; returns how many passed, and the sum that the other
/// limits were charged more or less than that.
fn last_refuses(
    store: &MemoryStore,
    limits: &[Limit],
    calls: u64,
    decide: DecideAll<'_>,
) -> (u64, u64) {
    let all = checks(limits, 1);
    let admitted = (0..calls).filter(|_| decide(&all)).count() as u64;
    let apart = checks(limits, 0).into_iter().map(|check| {
        let charged = check.limit.capacity() - store.decide_one_now(&check).remaining;
        charged.abs_diff(admitted)
    });
    (admitted, apart.sum())
}

fn last_refusal_measurements(calls: u64, admitted: u64, apart: u64) -> Vec<Measurement> {
    let subject = format!("{} limits, {} calls", LIMITS.len(), grouped(calls));
    vec![
        Measurement::exactly(format!("{subject}: admitted"), admitted, "admitted", TIGHTEST),
        Measurement::exactly(format!("{subject}: charged in part"), apart, "charges", 0),
    ]
}

/// Threads charge pairs of keys in different orders; returns the sum of the differences between what
/// each key was charged and what its callers were granted.
fn crossing_pairs(store: &MemoryStore, limit: &Limit, calls: u64, decide: DecideAll<'_>) -> u64 {
    let granted: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let barrier = Barrier::new(THREADS as usize);
    let counter = CounterId::new(1);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (granted, barrier) = (&granted, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for call in 0..calls / THREADS {
                    let pair = [(call + thread) % KEYS, (call * 3 + thread + 1) % KEYS];
                    if decide(&pair.map(|key| Check::new(counter, key, limit, 1))) {
                        pair.iter().for_each(|key| {
                            _ = granted[*key as usize].fetch_add(1, Ordering::Relaxed)
                        });
                    }
                }
            });
        }
    });
    let apart = (0..KEYS).zip(&granted).map(|(key, granted)| {
        let left = store.decide_one_now(&Check::new(counter, key, limit, 0)).remaining;
        (limit.capacity() - left).abs_diff(granted.load(Ordering::Relaxed))
    });
    apart.sum()
}

fn pairs_measurement(limit: &Limit, calls: u64, apart: u64) -> Measurement {
    let subject = format!(
        "{THREADS} threads, {} calls on pairs of {KEYS} keys, {limit}: charged in part",
        grouped(calls)
    );
    Measurement::exactly(subject, apart, "charges", 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mutant that decides each limit by itself.
    fn one_by_one(store: &MemoryStore, checks: &[Check<'_>]) -> bool {
        let mut all = true;
        store.decide_each_now(checks, |verdict| all &= verdict.allowed);
        all
    }

    #[test]
    fn charges_in_part_are_found() {
        let limits: Vec<Limit> = LIMITS.iter().map(|text| text.parse().unwrap()).collect();
        let store = store();
        let (admitted, apart) = last_refuses(&store, &limits, 50, &|all| one_by_one(&store, all));
        assert_eq!((admitted, apart), (TIGHTEST, 4 * (50 - TIGHTEST)));
        let holds = |measured: Vec<Measurement>| measured.iter().all(Measurement::holds);
        assert!(!holds(last_refusal_measurements(50, admitted, apart)));
        assert!(holds(last_refusal_measurements(50, TIGHTEST, 0)));
        assert!(!holds(last_refusal_measurements(50, TIGHTEST + 1, 0)));
    }

    /// A mutant that forgets all checks but the first: every pair is charged in part.
    #[test]
    fn pairs_that_are_charged_in_part_are_found() {
        let limit: Limit = format!("{PAIR_CAPACITY}/year").parse().unwrap();
        let store = store();
        let first_only = |checks: &[Check<'_>]| store.decide_one_now(&checks[0]).allowed;
        let apart = crossing_pairs(&store, &limit, 400, &first_only);
        assert_eq!(apart, 400, "one of two charges of each pair is missing");
        assert!(!pairs_measurement(&limit, 400, apart).holds());
    }
}
