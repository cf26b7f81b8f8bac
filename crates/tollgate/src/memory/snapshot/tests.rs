//! Tests of snapshots: every algorithm, every damaged byte, clock steps, writes while deciding.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::key::FingerprintSeed;
use crate::testing::ManualClock;
use crate::{Action, Check, CounterId, Limit, StoreCall, Verdict};

/// Limits of every algorithm and slot class.
const LIMITS: &[&str] = &[
    "5/min",
    "997/min burst 6",
    "2/7us burst 5",
    "6/min leaky free 2 burst 5",
    "5/min gcra burst 6",
    "5/min interval",
    "5/min burst 9 initial 4",
    "5/min burst 3 pay_later",
    "5/min fixed",
    "5/min fixed first_hit",
    "5/min fixed count_denied",
    "3/day calendar",
    "5/min sliding",
    "5/min sliding slots 6",
    "5/min log",
    "5/min log min_gap 1s",
    "5/min warmup 1min",
];

const HOUR: Duration = Duration::from_secs(3600);

fn limits() -> Vec<(CounterId, Limit)> {
    LIMITS.iter().map(|text| (CounterId::from_parts(&[text]), text.parse().unwrap())).collect()
}

fn store(clock: &ManualClock) -> MemoryStore {
    MemoryStore::new().clock(clock)
}

fn snapshot(store: &MemoryStore) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.write_snapshot(b"attached", &mut bytes).unwrap();
    bytes
}

fn restore(bytes: &[u8], clock: &ManualClock) -> MemoryStore {
    store(clock).restore(bytes).unwrap().store
}

fn run(store: &MemoryStore, action: Action, check: Check<'_>) -> Verdict {
    store.run_at(StoreCall { action, checks: &[check] }, store.now())[0]
}

fn spend(store: &MemoryStore, limit: &Limit, key: &str, cost: u64) {
    let counter = CounterId::from_parts(&[&limit.to_string()]);
    run(store, Action::Spend, Check::new(counter, key, limit, cost));
}

fn peek(store: &MemoryStore, limit: &Limit, key: &str) -> Verdict {
    let counter = CounterId::from_parts(&[&limit.to_string()]);
    run(store, Action::Peek, Check::new(counter, key, limit, 0))
}

/// A store with states of all classes, always with the same bytes.
fn fixed_store(clock: &ManualClock) -> MemoryStore {
    let mut store = store(clock);
    let seed = FingerprintSeed { shared: 1, home: 2, tag: 3 };
    store.fingerprinter = Fingerprinter::from_seed(seed);
    for text in ["5/h", "997/h burst 6", "5/h fixed", "5/h sliding", "5/h log", "5/h warmup 1min"] {
        spend(&store, &text.parse().unwrap(), "ann", 3);
    }
    store
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn restored_states_decide_like_the_saved_ones(
        before in prop::collection::vec((0..LIMITS.len(), 0_u8..4, 0_u64..4, 0_u64..20_000), 1..80),
        after in prop::collection::vec((0..LIMITS.len(), 0_u8..4, 0_u64..4, 0_u64..20_000), 1..80),
        stopped_ms in 0_u64..40_000,
    ) {
        let (limits, clock) = (limits(), ManualClock::new());
        let saved = store(&clock);
        let take = Action::Take { max_wait: Span::ZERO };
        let step = |store: &MemoryStore, (limit, key, cost, _): (usize, u8, u64, u64)| {
            let (counter, limit) = &limits[limit];
            run(store, take, Check::new(*counter, u64::from(key), limit, cost))
        };
        for operation in before {
            step(&saved, operation);
            clock.advance(Duration::from_millis(operation.3));
        }
        let bytes = snapshot(&saved);
        clock.advance(Duration::from_millis(stopped_ms));
        let other = ManualClock::at(clock.now());
        let restored = restore(&bytes, &other);
        for operation in after {
            prop_assert_eq!(step(&saved, operation), step(&restored, operation));
            clock.advance(Duration::from_millis(operation.3));
            other.advance(Duration::from_millis(operation.3));
        }
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    let clock = ManualClock::new();
    let bytes = snapshot(&fixed_store(&clock));
    assert!(store(&clock).restore(bytes.as_slice()).is_ok());
    for at in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            let read = store(&clock).restore(damaged.as_slice());
            assert!(read.is_err(), "byte {at} of {} changed by {change:#x}", bytes.len());
        }
    }
}

#[test]
fn every_cut_and_every_addition_is_noticed() {
    let clock = ManualClock::new();
    let bytes = snapshot(&fixed_store(&clock));
    for length in 0..bytes.len() {
        let read = store(&clock).restore(&bytes[..length]);
        assert!(matches!(read, Err(SnapshotError::Corrupt(_))), "cut to {length}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(store(&clock).restore(longer.as_slice()), Err(SnapshotError::Corrupt(_))));
}

#[test]
fn a_newer_format_and_another_file_have_their_own_errors() {
    let clock = ManualClock::new();
    let mut bytes = snapshot(&fixed_store(&clock));
    bytes[8] = 2;
    let error = store(&clock).restore(bytes.as_slice()).unwrap_err();
    assert!(matches!(error, SnapshotError::NewerVersion(2)));
    assert!(error.to_string().contains("reads formats up to 1"), "{error}");
    let error = store(&clock).restore(&b"SQLite format 3\0"[..]).unwrap_err();
    assert!(matches!(error, SnapshotError::NotASnapshot));
}

/// Later versions must read this file. To add one for a new format, write the bytes of
/// `snapshot(&fixed_store(&ManualClock::new()))`.
#[test]
fn the_snapshot_of_format_1_is_read() {
    let bytes = include_bytes!("tests/format-1.snapshot");
    let clock = ManualClock::new();
    let RestoredStore { store, attachment, .. } = store(&clock).restore(&bytes[..]).unwrap();
    assert_eq!(attachment, b"attached");
    assert_eq!(store.len(), 6);
    let saved = fixed_store(&ManualClock::new());
    for text in ["5/h", "997/h burst 6", "5/h fixed", "5/h sliding", "5/h log", "5/h warmup 1min"] {
        let limit = text.parse().unwrap();
        assert!(!peek(&store, &limit, "ann").reset_after.is_zero(), "{text}");
        assert_eq!(peek(&store, &limit, "ann"), peek(&saved, &limit, "ann"), "{text}");
    }
}

/// The wall clock is an hour earlier than when the snapshot was written: the time that the process
/// was stopped is unknown, and no key waits longer than it had to.
#[test]
fn a_wall_clock_that_was_set_back_locks_no_key_out() {
    let (limits, clock) = (limits(), ManualClock::new());
    let saved = store(&clock);
    for (counter, limit) in &limits {
        run(&saved, Action::Spend, Check::new(*counter, "ann", limit, 5));
    }
    let bytes = snapshot(&saved);
    let other = ManualClock::at(clock.now() - Span::from(HOUR));
    let restored = restore(&bytes, &other);
    for (counter, limit) in &limits {
        let check = Check::new(*counter, "ann", limit, 0);
        assert_eq!(run(&restored, Action::Peek, check), run(&saved, Action::Peek, check));
    }
}

/// The wall clock is an hour later than it should be: keys are free sooner, by one burst at most.
#[test]
fn a_wall_clock_that_was_set_forward_frees_one_burst_at_most() {
    let (limits, clock) = (limits(), ManualClock::new());
    let saved = store(&clock);
    for (counter, limit) in &limits {
        run(&saved, Action::Spend, Check::new(*counter, "ann", limit, 5));
    }
    let bytes = snapshot(&saved);
    let other = ManualClock::at(clock.now() + Span::from(HOUR));
    let restored = restore(&bytes, &other);
    for (counter, limit) in &limits {
        let check = Check::new(*counter, "ann", limit, 1);
        let take = Action::Take { max_wait: Span::ZERO };
        let admitted = (0..100).filter(|_| run(&restored, take, check).allowed).count() as u64;
        assert!(admitted <= limit.capacity() + 1, "{limit}: {admitted}"); // One more may pay later.
    }
}

#[test]
fn the_clock_goes_on_where_it_was() {
    let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
    // Ten seconds passed; then the wall clock was set back; then it drifted; then it had been set
    // forward by two hours while the store was running.
    assert_eq!(resume_time(at(1_000), at(1_000), at(1_010)), at(1_010));
    assert_eq!(resume_time(at(5_000), at(5_000), at(1_400)), at(5_000));
    assert_eq!(resume_time(at(1_000), at(1_001), at(1_010)), at(1_010));
    assert_eq!(resume_time(at(1_000), at(8_200), at(8_210)), at(1_010));
    let resumed = Clock::system().resumed_at(at(77));
    assert!((at(77)..at(77 + 3_600)).contains(&resumed.now()));
}

#[test]
fn only_states_that_matter_are_saved() {
    let clock = ManualClock::new();
    let saved = store(&clock);
    let permits: Limit = "2 concurrent lease 1h".parse().unwrap();
    let take = Action::Take { max_wait: Span::ZERO };
    let check = Check { lease: 7, ..Check::new(CounterId::new(1), "ann", &permits, 2) };
    assert!(run(&saved, take, check).allowed);
    spend(&saved, &"10/s".parse().unwrap(), "ann", 5);
    spend(&saved, &"10/h".parse().unwrap(), "ann", 5);
    clock.advance(Duration::from_secs(1)); // The first is full again.
    let restored = restore(&snapshot(&saved), &clock);
    assert_eq!(restored.len(), 1);
    assert!(run(&restored, take, Check { lease: 8, ..check }).allowed, "permits are not saved");
}

#[test]
fn a_digest_matches_until_something_changes() {
    let clock = ManualClock::new();
    let store = fixed_store(&clock);
    let digest = store.write_snapshot(b"one", io::sink()).unwrap();
    assert!(store.matches_snapshot(b"one", &digest));
    assert!(!store.matches_snapshot(b"two", &digest));
    spend(&store, &"5/h log".parse().unwrap(), "ann", 1);
    assert!(!store.matches_snapshot(b"one", &digest));
    assert!(!MemoryStore::new().matches_snapshot(b"one", &digest));
}

#[test]
fn a_smaller_store_keeps_the_keys_that_owe_most() {
    let (clock, limit) = (ManualClock::new(), "1k/h".parse().unwrap());
    let saved = store(&clock);
    for key in 0..500_u64 {
        spend(&saved, &limit, &key.to_string(), if key == 250 { 900 } else { 1 });
    }
    let small = MemoryStore::new().clock(&clock).max_keys(100);
    let restored = small.restore(snapshot(&saved).as_slice()).unwrap().store;
    assert!(restored.len() <= 100);
    assert_eq!(peek(&restored, &limit, "250").remaining, 100);
}

#[test]
fn a_failed_write_is_an_error() {
    struct FullDisk(usize);
    impl Write for FullDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let store = fixed_store(&ManualClock::new());
    let length = snapshot(&store).len();
    for room in 0..length {
        let error = store.write_snapshot(b"attached", FullDisk(room)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
    assert!(store.write_snapshot(b"attached", FullDisk(length)).is_ok());
}

/// Other threads insert keys, so that the table grows, and charge one key all the time.
#[test]
fn a_store_that_is_in_use_is_saved_without_gaps() {
    let (clock, limit) = (ManualClock::new(), "1000000/h".parse::<Limit>().unwrap());
    let saved = store(&clock);
    let key = |number: u64| format!("key {number}");
    for number in 0..50_000 {
        spend(&saved, &limit, &key(number), 1);
    }
    let (charged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (before, bytes, after) = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 50_000.. {
                if stop.load(Ordering::Relaxed) || number == 1_000_000 {
                    break;
                }
                spend(&saved, &limit, &key(number), 1);
                spend(&saved, &limit, "busy", 1);
                charged.fetch_add(1, Ordering::SeqCst);
            }
        });
        while charged.load(Ordering::SeqCst) < 100 {
            std::thread::yield_now();
        }
        let before = charged.load(Ordering::SeqCst);
        let bytes = snapshot(&saved);
        // The charge of the moment may be done but not counted yet.
        let after = charged.load(Ordering::SeqCst) + 1;
        stop.store(true, Ordering::Relaxed);
        (before, bytes, after)
    });
    let restored = restore(&bytes, &clock);
    for number in 0..50_000 {
        assert_eq!(peek(&restored, &limit, &key(number)).remaining, 999_999, "{number}");
    }
    let busy = 1_000_000 - peek(&restored, &limit, "busy").remaining;
    assert!((before..=after).contains(&busy), "{before} <= {busy} <= {after}");
}

/// Writes the checksums of all blocks anew.
fn reseal(bytes: &mut [u8]) {
    let number =
        |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut sum) = (72, 0);
    while at < bytes.len() {
        let end = at + 9 + number(bytes, at + 5) as usize;
        let mut hasher = crc32fast::Hasher::new_with_initial(sum);
        hasher.update(&bytes[at..end]);
        sum = hasher.finalize();
        bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
        at = end + 4;
    }
}

/// A snapshot with correct checksums may still have states that no limit would have.
#[test]
fn impossible_states_cause_no_panic() {
    let clock = ManualClock::new();
    let bytes = snapshot(&fixed_store(&clock));
    let texts = ["5/h", "997/h burst 6", "5/h fixed", "5/h sliding", "5/h log", "5/h warmup 1min"];
    let limits = texts.map(|text| text.parse::<Limit>().unwrap());
    let mut random = fastrand::Rng::with_seed(6);
    let mut restored = 0;
    for _ in 0..2_000 {
        let (mut changed, mut at) = (bytes.clone(), 72);
        while at < bytes.len() {
            let length = u32::from_le_bytes(bytes[at + 5..at + 9].try_into().unwrap()) as usize;
            for byte in &mut changed[at + 9..at + 9 + length] {
                // Mostly the high bytes of words, with the extremes.
                if bytes[at] < 3 && random.u8(..) < 12 {
                    let any = random.u8(..);
                    *byte = random.choice([0, 1, 0x7f, 0x80, 0xff, any]).unwrap();
                }
            }
            at += 9 + length + 4;
        }
        reseal(&mut changed);
        let clock = ManualClock::new();
        let Ok(RestoredStore { store, .. }) = store(&clock).restore(changed.as_slice()) else {
            continue;
        };
        restored += 1;
        for limit in &limits {
            let counter = CounterId::from_parts(&[&limit.to_string()]);
            let take = Action::Take { max_wait: Span::ZERO };
            for action in [Action::Peek, take, Action::Refund, Action::Spend] {
                run(&store, action, Check::new(counter, "ann", limit, 2));
                clock.advance(Duration::from_secs(60));
            }
        }
    }
    assert!(restored > 500, "{restored}");
}
