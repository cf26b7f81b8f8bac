//! Threads that charge, change, sweep and refund the counters of limiters and the memory store.

use shuttle::sync::Arc;
use tollgate::testing::ManualClock;
use tollgate::{
    Action, Carry, Check, CounterId, KeyedLimiter, Limit, Limiter, MemoryStore, SettleOutcome,
    Store, StoreCall, Time,
};

use crate::support::{block_on, limit};
use crate::{explore, explore_some, on_threads};

const COUNTER: CounterId = CounterId::new(1);

fn keyed(texts: &[&str]) -> KeyedLimiter {
    let limits = texts.iter().map(|text| limit(text));
    Limiter::builder().limits(limits).clock(&ManualClock::new()).build_keyed()
}

/// Charges one to `key`, if that is allowed.
fn charge_one(limiter: &KeyedLimiter, key: u64) {
    let _ = limiter.check(key);
}

#[test]
fn one_of_three_gets_the_last_token_of_a_key() {
    for texts in [&["1/h"][..], &["1/h fixed"], &["1/h log"], &["9/h", "1/h fixed", "1/h log"]] {
        explore(move || {
            let limiter = keyed(texts);
            let passed = on_threads(3, move |_| u64::from(limiter.check("a").is_ok()));
            assert_eq!(passed, 1, "{texts:?}");
        });
    }
}

#[test]
fn one_of_three_gets_the_last_token_of_a_limiter() {
    for text in ["2/h", "2/h fixed"] {
        explore(move || {
            let limiter = Limiter::builder().limit(limit(text)).clock(&ManualClock::new()).build();
            limiter.check().expect("the first of two");
            let passed = on_threads(3, move |_| u64::from(limiter.check().is_ok()));
            assert_eq!(passed, 1, "{text}");
        });
    }
}

/// Two threads insert the same new keys, enough of them to chain and to split.
#[test]
fn a_key_is_inserted_once() {
    for text in ["1/h", "1/h fixed"] {
        explore(move || {
            let limiter = keyed(&[text]);
            let other = limiter.clone();
            let passed = on_threads(2, move |thread| {
                let order = move |i: u64| if thread == 0 { i } else { 7 - i };
                (0..8).filter(|i| other.check(order(*i)).is_ok()).count() as u64
            });
            assert_eq!((passed, limiter.len()), (8, 8), "{text}");
        });
    }
}

/// One thread makes the table grow while others charge the keys in it.
#[test]
fn no_charge_is_lost_while_lines_split() {
    for text in ["9/h", "9/h fixed"] {
        explore(move || {
            let limiter = keyed(&[text]);
            (0..5_u64).for_each(|key| charge_one(&limiter, key));
            let other = limiter.clone();
            on_threads(3, move |thread| {
                match thread {
                    0 => (10..16_u64).for_each(|key| charge_one(&other, key)),
                    _ => (0..5_u64).for_each(|key| charge_one(&other, key)),
                }
                0
            });
            for key in 0..5_u64 {
                assert_eq!(limiter.peek(key).remaining, 6, "{text}: key {key}");
            }
            for key in 10..16_u64 {
                assert_eq!(limiter.peek(key).remaining, 8, "{text}: key {key}");
            }
            assert_eq!(limiter.len(), 11, "{text}");
        });
    }
}

/// Idle keys are swept while others are charged.
#[test]
fn sweeping_drops_no_charge() {
    explore(|| {
        let clock = ManualClock::new();
        let limiter = Limiter::builder().limit(limit("9/h")).clock(&clock).build_keyed();
        (0..6_u64).for_each(|key| charge_one(&limiter, key));
        clock.advance(std::time::Duration::from_secs(3_600));
        let other = limiter.clone();
        on_threads(3, move |thread| {
            match thread {
                0 => assert!(other.store().sweep() <= 6),
                _ => (0..6_u64).step_by(2).for_each(|key| charge_one(&other, key)),
            }
            0
        });
        for key in 0..6_u64 {
            assert_eq!(limiter.peek(key).remaining, if key % 2 == 0 { 7 } else { 9 }, "key {key}");
        }
    });
}

/// At the maximum, new keys evict each other and never an exhausted key, not even one that becomes
/// exhausted during the eviction.
#[test]
fn eviction_never_drops_an_exhausted_key() {
    let kinds = ["9/h", "9/h fixed", "9/h log"];
    // Some of them share a line with other keys, some are alone.
    let cases = kinds.into_iter().flat_map(|kind| ["a", "b", "c", "d"].map(|key| (kind, key)));
    for (text, abuser) in cases {
        explore(move || {
            let limits = Limiter::builder().limit(limit(text)).clock(&ManualClock::new());
            let limiter = limits.max_keys(4).build_keyed();
            limiter.check_n(abuser, 2).expect("two of nine");
            (0..3_u64).for_each(|key| charge_one(&limiter, key));
            let other = limiter.clone();
            on_threads(3, move |thread| {
                match thread {
                    0 => other.check_n(abuser, 7).expect("seven of nine are left"),
                    _ => (0..3).for_each(|key| charge_one(&other, thread << 8 | key)),
                }
                0
            });
            assert!(limiter.check(abuser).is_err(), "{text} {abuser}");
            assert!(limiter.len() <= 4, "{text} {abuser}: {}", limiter.len());
        });
    }
}

/// Threads add keys of different slot classes to a store of at most two.
#[test]
fn concurrent_inserts_never_leave_the_store_above_its_maximum() {
    explore(|| {
        let store = Arc::new(MemoryStore::new().clock(&ManualClock::new()).max_keys(2));
        let other = store.clone();
        on_threads(3, move |thread| {
            let limit = limit(["9/h", "9/h fixed", "9/h log"][thread as usize]);
            for key in 0..2_u64 {
                let checks = [Check::new(COUNTER, key, &limit, 1)];
                assert!(other.decide_now(&checks)[0].allowed);
            }
            0
        });
        assert!((1..=2).contains(&store.len()), "{}", store.len());
    });
}

/// Threads charge pairs of keys in opposite orders, and single keys between them.
#[test]
fn pairs_are_charged_whole_or_not_at_all() {
    let kinds = ["2/h", "2/h fixed", "2/h log"];
    // Some of these keys share a line with "a", some do not.
    let cases = kinds.into_iter().flat_map(|kind| ["b", "c", "d", "e"].map(|key| (kind, key)));
    for (text, b) in cases {
        explore(move || {
            let store = Arc::new(MemoryStore::new().clock(&ManualClock::new()));
            let other = store.clone();
            let passed = on_threads(3, move |thread| {
                let limit = limit(text);
                let keys = [vec!["a", b], vec![b, "a"], vec![b]][thread as usize].clone();
                let checks = |_: u64| -> Vec<Check<'_>> {
                    keys.iter().map(|key| Check::new(COUNTER, *key, &limit, 1)).collect()
                };
                let decide = |checks: Vec<Check<'_>>| block_on(other.decide(&checks));
                let allowed = (0..2).map(checks).map(decide).filter(|verdicts| {
                    verdicts
                        .as_ref()
                        .expect("the memory store never fails")
                        .iter()
                        .all(|v| v.allowed)
                });
                // Counts both keys in one number: each charge of "a" is a hundred, of `b` one.
                let weight: u64 = keys.iter().map(|key| if *key == "a" { 100 } else { 1 }).sum();
                allowed.count() as u64 * weight
            });
            let limit = limit(text);
            for (key, taken) in [("a", passed / 100), (b, passed % 100)] {
                let checks = &[Check::new(COUNTER, key, &limit, 0)];
                let call = StoreCall { action: Action::Peek, checks };
                let left =
                    block_on(store.run(call)).expect("the memory store never fails")[0].remaining;
                assert_eq!(left, 2 - taken, "{text}: {key}");
            }
            assert_eq!(passed % 100, 2, "{text}: both charges of {b} passed");
        });
    }
}

/// Threads that use a key after a change carry it over to the new limit only once.
#[test]
fn a_change_carries_a_key_over_once() {
    explore(|| {
        let limiter = keyed(&["4/h"]);
        limiter.check_n("a", 2).expect("two of four");
        limiter.change([limit("4/h fixed")], Carry::AsIs);
        let other = limiter.clone();
        let passed = on_threads(3, move |_| u64::from(other.check("a").is_ok()));
        assert_eq!(passed, 2);
        assert_eq!(limiter.peek("a").remaining, 0);
    });
}

#[test]
fn a_change_admits_no_more_than_the_limit() {
    for texts in [&["1/h"][..], &["1/h fixed"]] {
        explore(move || {
            let limiter = keyed(texts);
            let passed = on_threads(3, move |n| {
                if n == 0 {
                    limiter.change(texts.iter().map(|text| limit(text)), Carry::AsIs);
                }
                u64::from(limiter.check("a").is_ok())
            });
            assert_eq!(passed, 1, "{texts:?}");
        });
    }
}

#[test]
fn a_change_loses_no_charge_of_a_limiter() {
    for (old, new) in [("2/h", "2/h"), ("2/h", "2/h log"), ("2/h fixed", "2/h")] {
        explore(move || {
            let limiter = Limiter::builder().limit(limit(old)).clock(&ManualClock::new()).build();
            let passed = on_threads(3, move |thread| {
                if thread == 0 {
                    limiter.change([limit(new)], Carry::AsIs);
                    return 0;
                }
                (0..2).filter(|_| limiter.check().is_ok()).count() as u64
            });
            assert_eq!(passed, 2, "{old} to {new}");
        });
    }
}

/// One thread cancels its hold while others charge.
#[test]
fn a_cancelled_hold_is_refunded_once() {
    explore(|| {
        let limiter = keyed(&["2/h"]);
        let other = limiter.clone();
        let settled = on_threads(3, move |thread| match other.reserve("a", 1) {
            Ok(hold) if thread == 0 => u64::from(hold.cancel() != SettleOutcome::Done),
            Ok(hold) => u64::from(hold.settle(1) == SettleOutcome::Done),
            Err(_) => 0,
        });
        assert_eq!(limiter.peek("a").remaining, 2 - settled);
    });
}

/// Takes `cost` from a key; returns whether that was allowed.
fn take(store: &MemoryStore, limit: &Limit, key: u64, cost: u64) -> bool {
    store.decide_one_now(&Check::new(COUNTER, key, limit, cost)).allowed
}

/// Logs that grow on several threads evict each other at the maximum memory, and never an exhausted
/// key, not even one that becomes exhausted during the eviction.
#[test]
fn growing_logs_never_evict_an_exhausted_key() {
    const MAX: u64 = 4 << 10;
    explore_some(200, || {
        let clock = ManualClock::new();
        let store = Arc::new(MemoryStore::new().clock(&clock).max_memory(MAX));
        let (small, large) = (limit("9/h log"), limit("900/h log"));
        assert!(take(&store, &small, 99, 2));
        for key in 0..3 {
            for at in 1..=32 {
                clock.set(Time::from_nanos(at));
                assert!(take(&store, &large, key, 1));
            }
        }
        clock.set(Time::from_nanos(33));
        let (other, exhausted) = (store.clone(), small.clone());
        on_threads(3, move |thread| {
            match thread {
                0 => assert!(take(&other, &exhausted, 99, 7)),
                // The buffer of the log doubles.
                _ => assert!(take(&other, &large, thread, 1)),
            }
            0
        });
        assert!(!take(&store, &small, 99, 1));
        assert!(store.memory() <= MAX && store.evictions() > 0, "{}", store.memory());
    });
}

/// Threads add keys to a table that may not grow any further.
#[test]
fn a_table_at_its_maximum_memory_accepts_new_keys() {
    const MAX: u64 = 4 << 10;
    for text in ["9/h", "9/h fixed"] {
        explore_some(100, move || {
            let clock = ManualClock::new();
            let store = Arc::new(MemoryStore::new().clock(&clock).max_memory(MAX));
            let limit = limit(text);
            assert!(take(&store, &limit, 999, 9));
            (0..120).for_each(|key| assert!(take(&store, &limit, key, 1)));
            let (other, same) = (store.clone(), limit.clone());
            on_threads(3, move |thread| {
                (0..2).for_each(|key| assert!(take(&other, &same, thread << 10 | key, 1)));
                0
            });
            assert!(!take(&store, &limit, 999, 1), "{text}");
            assert!(store.memory() <= MAX && store.evictions() > 0, "{text}: {}", store.memory());
        });
    }
}
