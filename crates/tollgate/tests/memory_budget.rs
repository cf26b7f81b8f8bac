//! The memory of the store in bytes: accounted as it is allocated, and bounded under a flood of keys.

mod support;

use std::thread;
use std::time::Duration;

use support::limit;
use tollgate::testing::ManualClock;
use tollgate::{Check, CounterId, Limit, MemoryStore};

const MIB: u64 = 1 << 20;

/// Returns the check of a key, whose counter depends on the limit.
fn check(limit: &Limit, key: u64, cost: u64, lease: u64) -> Check<'_> {
    Check { lease, ..Check::new(CounterId::new(limit.capacity()), key, limit, cost) }
}

/// Takes `cost` from a key; returns whether that was allowed.
fn take(store: &MemoryStore, limit: &Limit, key: u64, cost: u64) -> bool {
    store.decide_one_now(&check(limit, key, cost, key)).allowed
}

/// Takes one `count` times from a key, each in a new log entry or lease.
fn fill(store: &MemoryStore, clock: &ManualClock, limit: &Limit, key: u64, count: u64) {
    for lease in 0..count {
        clock.advance(Duration::from_micros(1));
        store.decide_one_now(&check(limit, key, 1, lease));
    }
}

/// The counted bytes are the allocated ones, with 16 for each allocation and a margin for trees.
#[test]
fn boxed_states_are_accounted_as_they_are_allocated() {
    for (text, keys, entries) in [
        ("10/h log", 20_000, 1),
        ("300/h log", 2_000, 100),
        ("10k/h log", 3, 10_000),
        ("500/h sliding slots 60", 2_000, 5),
        ("10/s warmup 1h", 20_000, 1),
        ("9 concurrent lease 1h", 20_000, 3),
        ("1k concurrent lease 1h", 200, 200),
        ("10k concurrent lease 1h", 3, 10_000),
        ("adaptive 20..500 concurrent lease 1h", 2_000, 9),
    ] {
        let (clock, limit) = (ManualClock::new(), limit(text));
        let store = MemoryStore::new().clock(&clock);
        take(&store, &limit, u64::MAX, 1); // The shards are allocated once.
        let before = store.memory();
        let used = allocation_counter::measure(|| {
            (0..keys).for_each(|key| fill(&store, &clock, &limit, key, entries));
        });
        let (real, counted) = (used.bytes_current as u64, store.memory() - before);
        assert!(counted >= real, "{text}: {counted} counted, {real} allocated");
        assert!(counted <= real * 7 / 5, "{text}: {counted} counted, {real} allocated");
        let freed = allocation_counter::measure(|| {
            clock.advance(Duration::from_secs(4 * 3_600));
            assert_eq!(store.sweep(), keys + 1, "{text}");
        });
        assert_eq!(store.memory(), 0, "{text}");
        assert!(-freed.bytes_current as u64 >= real, "{text}");
    }
}

/// The largest limits that are valid, charged far more often than they allow.
#[test]
fn the_largest_counters_stay_below_a_mebibyte() {
    for text in [
        "10k/d log",
        "10k/d log count_denied",
        "10k/d log min_gap 1us count_denied",
        "10k/d sliding slots 4096",
        "10k concurrent lease 1d",
        "adaptive 10k..10k concurrent lease 1d",
    ] {
        let (clock, limit) = (ManualClock::new(), limit(text));
        let store = MemoryStore::new().clock(&clock);
        let mut most = 0;
        for round in 0..3 {
            fill(&store, &clock, &limit, 1, 11_000);
            assert!(round == 0 || store.memory() <= most, "{text}: {most} grew further");
            most = store.memory();
        }
        assert!((1 << 10..MIB).contains(&most) || text.contains("slots"), "{text}: {most}");
        assert!(most < MIB, "{text}: {most}");
    }
}

/// Exhausts keys of each class, floods the store with each class in turn, and checks all along that
/// the memory is bounded and the exhausted keys stay refused.
#[test]
fn a_flood_stays_within_the_maximum_and_forgives_no_debt() {
    const MAX: u64 = 16 * MIB;
    let clock = ManualClock::new();
    let store = MemoryStore::new().clock(&clock).max_memory(MAX);
    let limits = ["10/d", "10/d fixed", "10/d log"].map(limit);
    let abusers = || (1 << 60)..(1 << 60) + 20;
    for (limit, abuser) in limits.iter().flat_map(|limit| abusers().map(move |key| (limit, key))) {
        assert!(take(&store, limit, abuser, 10));
    }
    let before = resident();
    for flood in ["10/d", "10/d fixed", "10/d log", "4k/d log", "10/d log", "10/d"] {
        let limit = limit(flood);
        let (keys, entries) = match flood {
            "4k/d log" => (1_000, 600),
            "10/d" => (450_000, 1),
            _ => (150_000, 1),
        };
        for key in 0..keys {
            fill(&store, &clock, &limit, key, entries);
            assert!(store.memory() <= MAX, "{flood}: {} bytes after {key} keys", store.memory());
        }
        let resident = resident().saturating_sub(before);
        assert!(resident <= MAX + MAX / 10, "{flood}: {resident} bytes resident");
        for (limit, abuser) in limits.iter().flat_map(|limit| abusers().map(move |a| (limit, a))) {
            assert!(!take(&store, limit, abuser, 1), "{flood}: {limit} {abuser} is free");
        }
    }
    assert!(store.evictions() > 400_000, "{}", store.evictions());
}

/// A flood of one class of keys leaves room for the others.
#[test]
fn every_class_keeps_its_share() {
    const MAX: u64 = 16 * MIB;
    for (kind, flood) in ["10/d", "10/d fixed", "10/d log"].map(limit).into_iter().enumerate() {
        let clock = ManualClock::new();
        let store = MemoryStore::new().clock(&clock).max_memory(MAX);
        let keys = [400_000, 220_000, 60_000][kind];
        (0..keys).for_each(|key| assert!(take(&store, &flood, key, 1)));
        let evicted = store.evictions();
        assert!(evicted > 0, "{flood}");
        let others = ["3/d", "3/d fixed", "3/d log"].map(limit).into_iter().enumerate();
        for (_, other) in others.filter(|(other, _)| *other != kind) {
            let keys = (1 << 40)..(1 << 40) + 4_000;
            keys.clone().for_each(|key| assert!(take(&store, &other, key, 3)));
            let free = keys.filter(|key| take(&store, &other, *key, 1)).count();
            assert_eq!(free, 0, "{other} after a flood of {flood}");
        }
        assert!(store.memory() <= MAX, "{flood}: {}", store.memory());
    }
}

/// Threads add keys of all classes and make logs grow at the same time.
#[test]
fn threads_together_stay_within_the_maximum() {
    const MAX: u64 = 16 * MIB;
    let clock = ManualClock::new();
    let store = MemoryStore::new().clock(&clock).max_memory(MAX);
    let limits = ["10/d", "10/d fixed", "10/d log", "4k/d log"].map(limit);
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (store, clock, limits) = (&store, &clock, &limits);
            scope.spawn(move || {
                for n in 0..40_000_u64 {
                    let key = thread << 32 | n;
                    (0..3).for_each(|class| assert!(take(store, &limits[class], key, 1)));
                    if n % 400 == 0 {
                        fill(store, clock, &limits[3], key, 600);
                    }
                    // Others may be about to evict what they have added.
                    assert!(store.memory() <= MAX + MIB, "{}", store.memory());
                }
            });
        }
    });
    assert!(store.memory() <= MAX, "{}", store.memory());
    assert!(store.evictions() > 0);
}

/// Returns the resident memory of this process.
fn resident() -> u64 {
    let Ok(pages) = std::fs::read_to_string("/proc/self/statm") else { return 0 };
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number of pages") * 4_096
}
