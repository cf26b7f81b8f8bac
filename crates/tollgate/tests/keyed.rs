//! The limiter with keys, on a manual clock.

mod support;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use support::{Task, block_on, limit, wait_until};
use tollgate::testing::ManualClock;
use tollgate::{Carry, KeyedLimiter, Limiter, MemoryStore, SettleOutcome};

const SECOND: Duration = Duration::from_secs(1);

fn keyed(texts: &[&str]) -> (ManualClock, KeyedLimiter) {
    let clock = ManualClock::new();
    let limits = texts.iter().map(|text| limit(text));
    (clock.clone(), Limiter::builder().limits(limits).clock(&clock).build_keyed())
}

/// Limits on the fast path, in wide slots, on the heap, and a meter without the fast path.
const KINDS: [&str; 4] = ["10/h", "10/h fixed", "10/h log", "10/h burst 10 initial 10"];

#[test]
fn keys_have_separate_budgets() {
    for kind in KINDS {
        let (_, limiter) = keyed(&[kind]);
        assert!(limiter.is_empty(), "{kind}");
        assert!(limiter.check("ann").is_ok() && limiter.check_n("ann", 9).is_ok(), "{kind}");
        let denied = limiter.check("ann").unwrap_err();
        assert_eq!((denied.index, denied.limit), (0, limit(kind).summary()), "{kind}");
        assert!(denied.retry_after.is_some(), "{kind}");
        assert_eq!(limiter.peek("ann").remaining, 0, "{kind}");
        assert_eq!(limiter.peek("bob").remaining, 10, "{kind}");
        assert_eq!(limiter.len(), 1, "{kind}: peeking adds no key");
        assert_eq!(limiter.check_n("bob", 11).unwrap_err().retry_after, None, "{kind}");
        assert_eq!(limiter.refund("ann", 4).remaining, 4, "{kind}");
        limiter.reset("ann");
        assert_eq!(limiter.peek("ann").remaining, 10, "{kind}");
        assert!(limiter.is_empty(), "{kind}");
    }
}

#[test]
fn many_keys_are_checked_at_once() {
    for texts in [&["2/h"][..], &["2/h log"], &["2/h", "9/h fixed"]] {
        let (_, limiter) = keyed(texts);
        let names: Vec<String> = (0..40).map(|i| format!("user {}", i % 16)).collect();
        let keys: Vec<_> = names.iter().map(Into::into).collect();
        let mut allowed = Vec::new();
        limiter.check_each(&keys, |result| allowed.push(result.is_ok()));
        let expected: Vec<bool> = (0..40).map(|i| i < 32).collect();
        assert_eq!(allowed, expected, "{texts:?}");
    }
}

#[test]
fn several_limits_are_all_or_none() {
    let (clock, limiter) = keyed(&["5/s", "8/min fixed", "20/h log"]);
    assert!(limiter.check_n("a", 5).is_ok());
    assert_eq!(limiter.check("a").unwrap_err().index, 0);
    clock.advance(SECOND);
    assert!(limiter.check_n("a", 3).is_ok());
    assert_eq!(limiter.check_n("a", 3).unwrap_err().index, 1);
    for _ in 0..10 {
        assert!(limiter.check("a").is_err());
    }
    clock.advance(60 * SECOND);
    assert!(limiter.check_n("a", 5).is_ok(), "refusals cost the other limits nothing");
    assert!(limiter.check_n("b", 5).is_ok());
}

#[test]
fn settling_a_hold_charges_the_actual_cost() {
    for kind in KINDS {
        let (_, limiter) = keyed(&[kind]);
        let hold = limiter.reserve("a", 6).expect("ten");
        assert_eq!(limiter.peek("a").remaining, 4, "{kind}");
        assert_eq!(hold.settle(2), SettleOutcome::Done);
        assert_eq!(limiter.peek("a").remaining, 8, "{kind}: less");
        assert_eq!(limiter.reserve("a", 3).expect("eight").settle(3), SettleOutcome::Done);
        assert_eq!(limiter.peek("a").remaining, 5, "{kind}: equal");
        assert_eq!(limiter.reserve("a", 2).expect("five").cancel(), SettleOutcome::Done);
        assert_eq!(limiter.peek("a").remaining, 5, "{kind}: cancelled");
        assert_eq!(limiter.reserve("a", 1).expect("five").settle(4), SettleOutcome::Done);
        assert_eq!(limiter.peek("a").remaining, 1, "{kind}: more");
        assert!(limiter.reserve("a", 2).is_err(), "{kind}");
        assert_eq!(limiter.peek("b").remaining, 10, "{kind}: other keys are not charged");
    }
}

#[test]
fn an_expired_hold_keeps_its_charge() {
    let (clock, limiter) = keyed(&["10/h fixed"]);
    let hold = limiter.reserve("a", 5).expect("ten").expire_in(SECOND);
    clock.advance(SECOND);
    assert_eq!(hold.settle(1), SettleOutcome::Expired);
    assert_eq!(limiter.peek("a").remaining, 5);
}

#[test]
fn requests_of_a_key_wait_in_order() {
    for kind in ["10/s burst 1", "1/100ms fixed", "1/100ms log"] {
        let (clock, limiter) = keyed(&[kind]);
        for key in ["a", "b"] {
            limiter.check(key).expect("the first");
        }
        let mut tasks: Vec<_> = (0..3).map(|_| Task::new(limiter.wait("a"))).collect();
        let mut other = Task::new(limiter.wait("b"));
        assert!(tasks.iter_mut().all(|task| task.poll().is_none()), "{kind}");
        assert!(other.poll().is_none(), "{kind}");
        for next in 0..tasks.len() {
            clock.advance(Duration::from_millis(100));
            assert_eq!(other.poll().is_some(), next == 0, "{kind}");
            let done: Vec<bool> = tasks.iter_mut().map(|task| task.poll().is_some()).collect();
            assert_eq!(done.iter().position(|done| *done), Some(next), "{kind}");
        }
    }
}

#[test]
fn a_wait_that_cannot_succeed_costs_nothing() {
    for kind in ["10/s burst 1", "1/100ms fixed", "1/100ms log"] {
        let (clock, limiter) = keyed(&[kind]);
        limiter.check("a").expect("the first");
        let before = limiter.peek("a");
        let timeout = Duration::from_nanos(99_999_999);
        assert!(block_on(limiter.wait_timeout("a", timeout)).is_err(), "{kind}");
        assert!(limiter.blocking_wait_timeout("a", timeout).is_err(), "{kind}");
        assert!(block_on(limiter.wait_n("a", 2)).is_err(), "{kind}");
        let mut cancelled = Task::new(limiter.wait("a"));
        assert!(cancelled.poll().is_none(), "{kind}");
        drop(cancelled);
        assert_eq!(limiter.peek("a"), before, "{kind}");
        clock.advance(Duration::from_millis(100));
        assert!(limiter.check("a").is_ok(), "{kind}");
    }
}

#[test]
fn blocking_waits_follow_the_clock() {
    let (clock, limiter) = keyed(&["10/s burst 1"]);
    limiter.check("a").expect("the first");
    thread::scope(|scope| {
        let first = scope.spawn(|| limiter.blocking_wait_timeout("a", SECOND));
        let second = scope.spawn(|| limiter.blocking_wait("a"));
        wait_until(|| clock.waiting() == 2);
        clock.advance(Duration::from_millis(100));
        wait_until(|| clock.waiting() == 1);
        clock.advance(Duration::from_millis(100));
        assert!(first.join().expect("no panic").is_ok());
        second.join().expect("no panic");
    });
}

#[test]
fn a_change_carries_budgets_over() {
    let carried =
        [(Carry::AsIs, 3), (Carry::Proportional, 30), (Carry::Additive, 93), (Carry::Reset, 100)];
    for (carry, left) in carried {
        for (old, new) in [("10/h", "100/h"), ("10/h", "100/h fixed"), ("10/h log", "100/h")] {
            let (_, limiter) = keyed(&[old]);
            limiter.check_n("a", 7).expect("ten");
            limiter.change([limit(new)], carry);
            assert_eq!(limiter.peek("new").remaining, 100, "{old} to {new}, {carry:?}");
            assert_eq!(limiter.peek("a").remaining, left, "{old} to {new}, {carry:?}");
            assert!(limiter.check_n("a", left).is_ok() && limiter.check("a").is_err());
            assert_eq!(limiter.len(), 1, "{old} to {new}: the counter of the old limit is removed");
        }
    }
}

#[test]
fn a_key_is_carried_over_several_changes() {
    for kind in ["", " fixed", " log"] {
        let per_hour = |n: u64| [limit(&format!("{n}/h{kind}"))];
        let (clock, limiter) = keyed(&[&format!("10/h{kind}")]);
        limiter.check_n("a", 6).expect("ten"); // 4 of 10
        limiter.check_n("b", 6).expect("ten");
        limiter.change(per_hour(20), Carry::Proportional); // 8 of 20
        assert_eq!(limiter.peek("b").remaining, 8, "{kind}");
        limiter.change(per_hour(40), Carry::Additive); // 28 of 40
        limiter.change(per_hour(80), Carry::AsIs); // 28 of 80
        assert_eq!(limiter.peek("a").remaining, 28, "{kind}");
        assert_eq!(
            limiter.peek("b").remaining,
            28,
            "{kind}: the same for a key that was seen meanwhile"
        );
        clock.advance(3 * 3_600 * SECOND);
        assert_eq!(limiter.peek("a").remaining, 80, "{kind}");
    }
}

#[test]
fn permits_and_holds_survive_a_change() {
    let (_, limiter) = keyed(&["3 concurrent"]);
    let permits: Vec<_> = (0..3).map(|_| limiter.acquire("a").expect("a permit")).collect();
    limiter.change([limit("1 concurrent")], Carry::Reset);
    assert!(limiter.acquire("a").is_err());
    drop(permits);
    assert!(limiter.acquire("a").is_ok());
    let (_, limiter) = keyed(&["10/h"]);
    let hold = limiter.reserve("a", 6).expect("ten");
    limiter.change([limit("10/h")], Carry::AsIs);
    hold.settle(1);
    assert_eq!(limiter.peek("a").remaining, 9);
}

#[test]
fn adaptive_limits_learn_for_each_key() {
    let (clock, limiter) = keyed(&["adaptive 2..20 concurrent"]);
    let mut grown = 0;
    for _ in 0..200 {
        // The limit drops for a moment now and then, to measure the service without a queue.
        grown = limiter.peek("a").limit.max(grown);
        let permits_left = limiter.peek("a").remaining;
        let permits: Vec<_> = (0..permits_left).map(|_| limiter.acquire("a")).collect();
        clock.advance(Duration::from_millis(50));
        drop(permits);
    }
    assert!(grown > 2, "{grown}");
    assert_eq!(limiter.peek("b").limit, 2);
    for _ in 0..20 {
        limiter.acquire("a").expect("a permit").failed();
        clock.advance(2 * SECOND);
    }
    assert!(limiter.peek("a").limit < grown);
}

#[test]
fn a_new_controller_keeps_permits_and_level() {
    let (clock, limiter) = keyed(&["adaptive 2..20 concurrent aimd"]);
    for _ in 0..3 {
        let permits = [limiter.acquire("a"), limiter.acquire("a")];
        clock.advance(Duration::from_millis(1));
        drop(permits);
    }
    let grown = limiter.peek("a").limit;
    assert!(grown > 2, "{grown}");
    let _permit = limiter.acquire("a").expect("a permit");
    limiter.change([limit("adaptive 2..30 concurrent")], Carry::AsIs);
    let now = limiter.peek("a");
    assert_eq!((now.limit, now.remaining), (grown, grown - 1));
}

#[test]
fn clones_share_counters_and_limiters_do_not() {
    let store = Arc::new(MemoryStore::new());
    let build = || Limiter::builder().limit(limit("1/h")).store(store.clone()).build_keyed();
    let (one, other) = (build(), build());
    let clone = one.clone();
    let allowed = |limiter: &KeyedLimiter<Arc<MemoryStore>>| {
        block_on(limiter.decide("a", 1)).expect("the memory store never fails")[0].allowed
    };
    assert!(allowed(&one));
    assert!(!allowed(&clone), "a clone is the same limiter");
    assert!(allowed(&other), "one store, two limiters, two counters");
    assert_eq!(store.len(), 2);
}
