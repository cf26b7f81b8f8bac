//! The memory store under load: exact counts, a bounded number of keys, no debt lost.

mod support;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use support::{block_on, limit};
use tollgate::testing::ManualClock;
use tollgate::{
    Action, Check, CounterId, Limit, Limiter, MemoryStore, Span, Store, StoreCall, Time,
};

const THREADS: u64 = 4;
const COUNTER: CounterId = CounterId::new(1);

/// Limits of every kind that hold 500 and whose periods do not end during a test.
const KINDS: &[&str] = &[
    "500/year",
    "7/year burst 500",
    "500/year leaky",
    "500/year interval",
    "500/year fixed",
    "500/year calendar",
    "500/year sliding",
    "500/year sliding slots 5",
    "500/year log",
    "500/year burst 600 initial 500",
    "500 concurrent lease 1year",
];

/// Runs `work` on all threads at the same time and returns the sum of its results.
fn on_all_threads(work: impl Fn(u64) -> u64 + Sync) -> u64 {
    let barrier = Barrier::new(THREADS as usize);
    let run = |thread| {
        barrier.wait();
        work(thread)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || run(t))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

#[test]
fn threads_on_one_key_admit_exactly_the_limit() {
    for kind in KINDS {
        let keyed = Limiter::builder().limit(limit(kind)).clock(&ManualClock::new()).build_keyed();
        let passed =
            on_all_threads(|_| (0..300).filter(|_| keyed.check("a").is_ok()).count() as u64);
        assert_eq!(passed, 500, "keyed {kind}");
        let direct = Limiter::builder().limit(limit(kind)).clock(&ManualClock::new()).build();
        let passed = on_all_threads(|_| (0..300).filter(|_| direct.check().is_ok()).count() as u64);
        assert_eq!(passed, 500, "direct {kind}");
    }
}

#[test]
fn threads_on_several_limits_admit_exactly_the_tightest() {
    let limits = || KINDS.iter().map(|kind| limit(kind)).chain([limit("211/year")]);
    let keyed = Limiter::builder().limits(limits()).clock(&ManualClock::new()).build_keyed();
    let passed = on_all_threads(|_| (0..100).filter(|_| keyed.check("a").is_ok()).count() as u64);
    assert_eq!(passed, 211);
    let direct = Limiter::builder().limits(limits()).clock(&ManualClock::new()).build();
    let passed = on_all_threads(|_| (0..100).filter(|_| direct.check().is_ok()).count() as u64);
    assert_eq!(passed, 211);
}

/// Threads charge pairs of keys in different orders; every pair is charged as a whole or not at all.
#[test]
fn crossing_requests_neither_deadlock_nor_charge_in_part() {
    for kind in ["1000/year", "1000/year fixed", "1000/year log"] {
        let store = MemoryStore::new().clock(&ManualClock::new());
        let limit = limit(kind);
        let keys: Vec<String> = (0..5).map(|i| format!("key {i}")).collect();
        let taken: Vec<AtomicU64> = keys.iter().map(|_| AtomicU64::new(0)).collect();
        on_all_threads(|thread| {
            for i in 0..800 {
                let (a, b) = ((i + thread) % 5, (i * 3 + thread + 1) % 5);
                let checks = [a, b].map(|n| Check::new(COUNTER, &keys[n as usize], &limit, 1));
                let verdicts =
                    block_on(store.decide(&checks)).expect("the memory store never fails");
                if verdicts.iter().all(|verdict| verdict.allowed) {
                    for n in [a, b] {
                        taken[n as usize].fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            0
        });
        for (key, taken) in keys.iter().zip(&taken) {
            let checks = &[Check::new(COUNTER, key, &limit, 0)];
            let verdicts = block_on(store.run(StoreCall { action: Action::Peek, checks }));
            let left = verdicts.expect("the memory store never fails")[0].remaining;
            assert_eq!(left, 1_000 - taken.load(Ordering::Relaxed), "{kind}: {key}");
        }
    }
}

#[test]
fn idle_keys_are_swept() {
    for kind in KINDS {
        let clock = ManualClock::new();
        let limiter = Limiter::builder().limit(limit(kind)).clock(&clock).build_keyed();
        (0..1_000_u64).for_each(|key| assert!(limiter.check(key).is_ok()));
        assert_eq!(limiter.len(), 1_000, "{kind}");
        assert_eq!(limiter.store().sweep(), 0, "{kind}: all of them have charges");
        clock.advance(Duration::from_secs(3 * 366 * 86_400));
        assert_eq!(limiter.store().sweep(), 1_000, "{kind}");
        assert!(limiter.is_empty(), "{kind}");
    }
}

#[test]
fn inserts_sweep_idle_keys() {
    for kind in ["10/s", "10/s fixed", "10/s log"] {
        let clock = ManualClock::new();
        let limiter = Limiter::builder().limit(limit(kind)).clock(&clock).build_keyed();
        let mut most = 0;
        for round in 0..4_u64 {
            // More than the smallest table holds.
            for key in 0..50_000 {
                assert!(limiter.check(round * 50_000 + key).is_ok());
            }
            most = limiter.len().max(most);
            clock.advance(Duration::from_secs(60));
        }
        assert!(most <= 135_000, "{kind}: {most} keys at once, of 50,000 alive");
    }
}

#[test]
fn the_number_of_keys_stays_within_the_maximum() {
    for kind in KINDS {
        let store = MemoryStore::new().max_keys(1_000);
        let limit = limit(kind);
        let most = AtomicU64::new(0);
        on_all_threads(|thread| {
            for key in 0..1_000 {
                let key = (thread + 1) << 32 | key;
                let check = Check { lease: key, ..Check::new(COUNTER, key, &limit, 1) };
                assert!(store.decide_one_now(&check).allowed);
                most.fetch_max(store.len(), Ordering::Relaxed);
            }
            0
        });
        let most = most.into_inner();
        assert!((1_000..=1_000 + THREADS).contains(&most), "{kind}: {most}");
    }
}

/// Threads add keys of all slot classes at once, singly and several in one request.
#[test]
fn concurrent_inserts_never_leave_the_store_above_its_maximum() {
    const MAX_KEYS: u64 = 1_000;
    for kinds in [
        &["500/year"][..],
        &["500/year fixed"],
        &["500/year log"],
        &["500/year", "500/year fixed", "500/year log"],
    ] {
        let store = MemoryStore::new().clock(&ManualClock::new()).max_keys(MAX_KEYS);
        let limits: Vec<Limit> = kinds.iter().map(|kind| limit(kind)).collect();
        for key in 0..MAX_KEYS - 2 {
            let limit = &limits[key as usize % limits.len()];
            store.decide_one_now(&Check::new(CounterId::new(2), key, limit, 1));
        }
        for round in 0..50 {
            on_all_threads(|thread| {
                for n in 0..5 {
                    let key = (round * THREADS + thread) * 5 + n;
                    let checks: Vec<Check<'_>> =
                        limits.iter().map(|limit| Check::new(COUNTER, key, limit, 1)).collect();
                    match (n, &checks[..]) {
                        (0 | 1, checks) => {
                            for check in checks {
                                assert!(store.decide_one_now(check).allowed);
                            }
                        }
                        (_, checks) => {
                            let verdicts = store.decide_now(checks);
                            assert!(verdicts.iter().all(|verdict| verdict.allowed));
                        }
                    }
                }
                0
            });
            assert!((1..=MAX_KEYS).contains(&store.len()), "{kinds:?}: {}", store.len());
        }
    }
}

#[test]
fn a_request_with_more_keys_than_the_maximum_is_decided() {
    for kind in ["10/year", "10/year fixed", "10/year log"] {
        let store = MemoryStore::new().clock(&ManualClock::new()).max_keys(2);
        let limit = limit(kind);
        for round in 0..3_u64 {
            let checks: Vec<Check<'_>> =
                (0..4).map(|n| Check::new(COUNTER, round * 4 + n, &limit, 1)).collect();
            assert!(store.decide_now(&checks).iter().all(|verdict| verdict.allowed), "{kind}");
            assert_eq!(store.len(), 2, "{kind}");
        }
    }
}

/// Refused requests that name ever new keys beside an exhausted one must not empty the store.
#[test]
fn a_refused_request_evicts_nothing() {
    for kind in ["10/year", "10/year fixed", "10/year log"] {
        let store = MemoryStore::new().clock(&ManualClock::new()).max_keys(3);
        let limit = limit(kind);
        store.decide_one_now(&Check::new(COUNTER, "exhausted", &limit, 10));
        for key in ["ann", "bob"] {
            store.decide_one_now(&Check::new(COUNTER, key, &limit, 4));
        }
        for key in 0..50_u64 {
            let exhausted = Check::new(COUNTER, "exhausted", &limit, 1);
            let verdicts = store.decide_now(&[exhausted, Check::new(COUNTER, key, &limit, 1)]);
            assert!(!verdicts[0].allowed, "{kind}");
            assert!(!store.decide_one_now(&Check::new(COUNTER, key, &limit, 11)).allowed, "{kind}");
        }
        assert_eq!((store.len(), store.evictions()), (3, 0), "{kind}");
        for key in ["ann", "bob"] {
            let verdict = store.decide_one_now(&Check::new(COUNTER, key, &limit, 0));
            assert_eq!(verdict.remaining, 6, "{kind}: {key}");
        }
    }
}

/// A request that has to start over because the store is full leaves existing states unchanged.
#[test]
fn a_request_that_evicts_keys_charges_its_checks_once() {
    for kind in KINDS {
        let store = MemoryStore::new().clock(&ManualClock::new()).max_keys(20);
        let limit = limit(kind);
        for key in 0..19_u64 {
            store.decide_one_now(&Check { lease: key, ..Check::new(COUNTER, key, &limit, 1) });
        }
        let busy = Check { lease: 100, ..Check::new(COUNTER, "busy", &limit, 100) };
        assert!(store.decide_one_now(&busy).allowed, "{kind}");
        for key in 100..110_u64 {
            let checks = [("busy".into(), 1), (key.into(), 1)].map(
                |(name, cost): (tollgate::Key<'_>, _)| Check {
                    lease: 1_000 + key,
                    ..Check::new(COUNTER, name, &limit, cost)
                },
            );
            assert!(store.decide_now(&checks).iter().all(|verdict| verdict.allowed), "{kind}");
        }
        let checks = &[Check::new(COUNTER, "busy", &limit, 0)];
        let verdicts = block_on(store.run(StoreCall { action: Action::Peek, checks }));
        assert_eq!(verdicts.expect("the memory store never fails")[0].remaining, 390, "{kind}");
        assert_eq!((store.len(), store.evictions()), (20, 10), "{kind}");
    }
}

/// An abuser with an exhausted key floods the store with new keys, to have that one evicted.
#[test]
fn eviction_never_drops_an_exhausted_key() {
    for max_keys in [1_000, 4_000] {
        for limits in [
            &["10/h"][..],
            &["10/h fixed"],
            &["10/h log"],
            &["10/h", "20/h sliding"],
            &["10/h", "20/h log", "30/h fixed"],
            &["30/h log", "10/h"],
        ] {
            let clock = ManualClock::new();
            let limits = limits.iter().map(|text| limit(text));
            let limiter = Limiter::builder()
                .limits(limits.clone())
                .clock(&clock)
                .max_keys(max_keys)
                .build_keyed();
            let abusers: Vec<String> = (0..20).map(|i| format!("abuser {i}")).collect();
            for abuser in &abusers {
                assert!(limiter.check_n(abuser, 10).is_ok());
            }
            for key in 0..3 * max_keys {
                assert!(limiter.check(key).is_ok());
                if key % 500 == 0 {
                    clock.advance(Duration::from_millis(100));
                }
            }
            let limits: Vec<String> = limits.map(|limit| limit.to_string()).collect();
            assert!(limiter.len() <= max_keys, "{limits:?} {max_keys}: {}", limiter.len());
            for abuser in &abusers {
                assert!(limiter.check(abuser).is_err(), "{limits:?} {max_keys}: {abuser} is free");
            }
        }
    }
}

/// Charges a million keys different amounts, while the table grows 25-fold.
#[test]
fn the_table_grows_without_losing_a_state() {
    const KEYS: u64 = 1_000_000;
    let limiter = Limiter::builder().limit(limit("100/h")).clock(&ManualClock::new()).build_keyed();
    let cost = |key: u64| 1 + key.wrapping_mul(0x9e37_79b9) % 97;
    for key in 0..KEYS {
        assert!(limiter.check_n(key, cost(key)).is_ok());
    }
    assert_eq!(limiter.len(), KEYS);
    for key in (0..KEYS).step_by(7) {
        assert_eq!(limiter.peek(key).remaining, 100 - cost(key), "key {key}");
    }
}

/// If two names had the same fingerprint, the second would be refused.
#[test]
fn three_million_names_are_distinct() {
    let limiter = Limiter::builder().limit(limit("1/h")).clock(&ManualClock::new()).build_keyed();
    for i in 0..30_000 {
        let names: Vec<String> = (0..100).map(|j| format!("user:{}", i * 100 + j)).collect();
        let keys: Vec<_> = names.iter().map(Into::into).collect();
        limiter.check_each(&keys, |result| assert!(result.is_ok(), "near {i}00"));
    }
    assert_eq!(limiter.len(), 3_000_000);
}

/// Threads charge shared keys while the keys that each of them adds make the table grow.
#[test]
fn no_charge_is_lost_while_lines_split() {
    for kind in ["30/year", "30/year fixed"] {
        let limiter =
            Limiter::builder().limit(limit(kind)).clock(&ManualClock::new()).build_keyed();
        const SHARED: u64 = 2_000;
        let passed = on_all_threads(|thread| {
            let mut passed = 0;
            for i in 0..20_000 {
                passed += u64::from(limiter.check(i * 7 % SHARED).is_ok());
                assert!(limiter.check((thread + 1) << 32 | i).is_ok());
            }
            passed
        });
        assert_eq!(passed, SHARED * 30, "{kind}");
        assert_eq!(limiter.len(), SHARED + THREADS * 20_000, "{kind}");
    }
}

/// Steps with extreme costs at any time, also in the past.
fn hostile_steps() -> impl Strategy<Value = Vec<(u8, u64, i64)>> {
    let cost = prop_oneof![0..20_u64, Just(1 << 53), Just(1 << 62), Just(u64::MAX)];
    let hour = 3_600_000_000_000_i64;
    let step = prop_oneof![Just(0), Just(1), Just(hour), Just(-hour), -hour..hour, Just(i64::MAX)];
    prop::collection::vec((0..6_u8, cost, step), 1..40)
}

fn hostile_limits() -> Vec<Limit> {
    KINDS
        .iter()
        .copied()
        .chain(["3/s warmup 1h", "3/s log min_gap 100ms count_denied", "adaptive 1..9 concurrent"])
        .chain(["3/s pay_later", "3/day calendar", "unlimited", "4611686018427387904/ns"])
        .map(limit)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_calls_panics(
        start in prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 5), any::<u64>()],
        steps in hostile_steps(),
    ) {
        let clock = ManualClock::at(Time::from_nanos(start));
        let store = MemoryStore::new().clock(&clock);
        let limits = hostile_limits();
        let keyed = Limiter::builder().limits(limits.clone()).clock(&clock).build_keyed();
        let direct = Limiter::builder().limit(limit("10/s")).clock(&clock).build();
        for (op, cost, step) in steps {
            clock.set(Time::from_nanos(clock.now().as_nanos().saturating_add_signed(step)));
            let action = match op {
                0 | 1 => Action::Take { max_wait: Span::from_nanos(u64::from(op) * cost) },
                2 => Action::Peek,
                3 => Action::Spend,
                4 => Action::Refund,
                _ => Action::Release { rtt: Span::from_nanos(cost), dropped: cost > 9 },
            };
            let counter_ids = limits.iter().zip(1..);
            let checks: Vec<Check<'_>> =
                counter_ids.map(|(limit, n)| Check::new(CounterId::new(n), "a", limit, cost)).collect();
            block_on(store.run(StoreCall { action, checks: &checks })).expect("the memory store never fails");
            for check in &checks {
                block_on(store.run(StoreCall { action, checks: &[*check] })).expect("the memory store never fails");
            }
            let _ = (keyed.check_n("a", cost), direct.check_n(cost), direct.peek());
            if let Ok(hold) = direct.reserve(cost) {
                hold.settle(cost.rotate_left(7));
            }
        }
        store.sweep();
    }
}
