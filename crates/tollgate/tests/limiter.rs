//! The limiter without keys, on a manual clock.

mod support;

use std::thread;
use std::time::Duration;

use support::{Task, limit, wait_until};
use tollgate::testing::ManualClock;
use tollgate::{Carry, Limiter, SettleOutcome};

const SECOND: Duration = Duration::from_secs(1);

fn limiter(texts: &[&str]) -> (ManualClock, Limiter) {
    let clock = ManualClock::new();
    let limits = texts.iter().map(|text| limit(text));
    (clock.clone(), Limiter::builder().limits(limits).clock(&clock).build())
}

/// A plain meter, whose state is one atomic word, and a limit whose state is behind a mutex.
const KINDS: [&str; 2] = ["10/s", "10/s burst 10 initial 10"];

#[test]
fn a_limiter_refuses_when_its_budget_is_spent() {
    for kind in KINDS.into_iter().chain(["10/s gcra", "10/s fixed", "10/s log", "10/s sliding"]) {
        let (clock, limiter) = limiter(&[kind]);
        assert_eq!(limiter.peek().remaining, 10, "{kind}");
        assert!(limiter.check().is_ok() && limiter.check_n(9).is_ok(), "{kind}");
        let denied = limiter.check().unwrap_err();
        assert_eq!((denied.index, denied.limit), (0, limit(kind).summary()), "{kind}");
        assert_eq!(limiter.peek().remaining, 0, "{kind}");
        clock.advance(denied.retry_after.expect("it passes later"));
        assert!(limiter.check().is_ok(), "{kind}");
        assert_eq!(limiter.check_n(11).unwrap_err().retry_after, None, "{kind}");
        limiter.reset();
        assert_eq!(limiter.peek().remaining, 10, "{kind}");
    }
}

#[test]
fn clones_share_a_budget() {
    let (_, limiter) = limiter(&["2/h"]);
    let clone = limiter.clone();
    assert!(limiter.check().is_ok() && clone.check().is_ok());
    assert!(limiter.check().is_err() && clone.check().is_err());
}

#[test]
fn several_limits_are_all_or_none() {
    let (clock, limiter) = limiter(&["5/s", "8/min fixed", "20/h log"]);
    assert!(limiter.check_n(5).is_ok());
    assert_eq!(limiter.check().unwrap_err().index, 0);
    clock.advance(SECOND);
    assert!(limiter.check_n(3).is_ok());
    let denied = limiter.check_n(3).unwrap_err();
    assert_eq!(denied.index, 1, "of two that refuse, the one with the longest wait");
    assert_eq!(denied.limit.to_string(), "8/min fixed");
    assert_eq!(limiter.check_n(9).unwrap_err().index, 1, "never is the longest wait");
    clock.advance(60 * SECOND);
    assert_eq!(limiter.peek().remaining, 5, "the first is the tightest again");
}

#[test]
fn a_denial_names_the_limit_and_the_wait() {
    let (_, limiter) = limiter(&["2/s burst 4"]);
    limiter.check_n(4).expect("a burst");
    let text = limiter.check().unwrap_err().to_string();
    assert_eq!(text, "over the limit of 2/s burst 4: retry in 500ms");
    let text = limiter.check_n(5).unwrap_err().to_string();
    assert!(text.contains("can never pass"), "{text}");
}

#[test]
fn settling_a_hold_charges_the_actual_cost() {
    for kind in KINDS {
        let (clock, limiter) = limiter(&[kind]);
        let hold = limiter.reserve(6).expect("there are ten");
        assert_eq!((hold.amount(), limiter.peek().remaining), (6, 4), "{kind}");
        assert_eq!(hold.settle(2), SettleOutcome::Done);
        assert_eq!(limiter.peek().remaining, 8, "{kind}: less");
        assert_eq!(limiter.reserve(3).expect("eight").settle(3), SettleOutcome::Done);
        assert_eq!(limiter.peek().remaining, 5, "{kind}: equal");
        assert_eq!(limiter.reserve(5).expect("five").settle(9), SettleOutcome::Done);
        let owed = limiter.check().unwrap_err().retry_after;
        assert_eq!(owed, Some(Duration::from_millis(500)), "{kind}: four more, and the next");
        clock.advance(2 * SECOND);
        assert_eq!(limiter.reserve(7).expect("ten").cancel(), SettleOutcome::Done);
        assert_eq!(limiter.peek().remaining, 10, "{kind}: cancelled");
        assert_eq!(limiter.reserve(11).unwrap_err().retry_after, None, "{kind}");
        drop(limiter.reserve(4).expect("ten"));
        assert_eq!(limiter.peek().remaining, 6, "{kind}: a dropped hold keeps its charge");
    }
}

#[test]
fn an_expired_hold_keeps_its_charge() {
    let (clock, limiter) = limiter(&["10/h"]);
    let hold = limiter.reserve(5).expect("ten").expire_in(SECOND);
    let late = limiter.reserve(2).expect("five").expire_in(SECOND);
    clock.advance(SECOND);
    assert_eq!(hold.settle(1), SettleOutcome::Expired);
    assert_eq!(limiter.peek().remaining, 3);
    assert_eq!(late.settle(3), SettleOutcome::Expired, "the overrun is charged all the same");
    assert_eq!(limiter.peek().remaining, 2);
}

#[test]
fn waiting_tasks_proceed_in_order() {
    for kind in ["10/s burst 1", "10/s burst 1 initial 1", "1/100ms log", "1/100ms fixed"] {
        let (clock, limiter) = limiter(&[kind]);
        let start = clock.now();
        limiter.check().expect("the first");
        let mut tasks: Vec<_> = (0..5).map(|_| Task::new(limiter.wait())).collect();
        assert!(tasks.iter_mut().all(|task| task.poll().is_none()), "{kind}");
        for next in 0..tasks.len() {
            clock.advance(Duration::from_nanos(99_999_999));
            assert!(tasks[next].poll().is_none(), "{kind}: {next} is early");
            clock.advance(Duration::from_nanos(1));
            assert!(tasks[next].poll().is_some(), "{kind}: {next} is late");
            assert!(tasks[next + 1..].iter_mut().all(|task| task.poll().is_none()), "{kind}");
        }
        assert_eq!(clock.now().since(start), Duration::from_millis(500).into(), "{kind}");
    }
}

#[test]
fn one_task_can_wait_twice() {
    let (clock, limiter) = limiter(&["10/s burst 1"]);
    limiter.check().expect("the first");
    let both = async {
        let (mut a, mut b) = (Box::pin(limiter.wait()), Box::pin(limiter.wait()));
        let mut done = [false; 2];
        std::future::poll_fn(|context| {
            done[0] = done[0] || a.as_mut().poll(context).is_ready();
            done[1] = done[1] || b.as_mut().poll(context).is_ready();
            if done[0] { std::task::Poll::Ready(done) } else { std::task::Poll::Pending }
        })
        .await
    };
    let mut task = Task::new(both);
    assert!(task.poll().is_none());
    clock.advance(Duration::from_millis(100));
    assert_eq!(task.poll(), Some([true, false]), "the earlier of the two wakes it");
}

#[test]
fn a_cancelled_wait_costs_nothing() {
    let (clock, limiter) = limiter(&["10/s burst 1", "600/min"]);
    limiter.check().expect("the first");
    let mut first = Task::new(limiter.wait());
    assert!(first.poll().is_none());
    let owed = limiter.peek().reset_after;
    let mut second = Task::new(limiter.wait());
    assert!(second.poll().is_none());
    drop(second);
    assert_eq!(limiter.peek().reset_after, owed);
    drop(first);
    clock.advance(Duration::from_millis(100));
    assert!(limiter.check().is_ok());
}

#[test]
fn a_wait_that_would_take_too_long_is_refused_at_once() {
    for kind in ["10/s burst 1", "1/100ms log", "1/100ms sliding", "1/100ms fixed"] {
        let (_, limiter) = limiter(&[kind]);
        limiter.check().expect("the first");
        let before = limiter.peek();
        let denied = Task::new(limiter.wait_timeout(Duration::from_nanos(99_999_999))).poll();
        let denied = denied.expect("at once").unwrap_err();
        assert!(denied.retry_after.is_some(), "{kind}");
        assert_eq!(limiter.peek(), before, "{kind}: and charges nothing");
        let never = Task::new(limiter.wait_n(2)).poll().expect("at once").unwrap_err();
        assert_eq!((never.retry_after, limiter.peek()), (None, before), "{kind}");
        let mut waits = Task::new(limiter.wait_timeout(SECOND));
        assert!(waits.poll().is_none(), "{kind}");
    }
}

#[test]
fn blocking_waits_follow_the_clock() {
    let (clock, limiter) = limiter(&["10/s burst 1"]);
    limiter.check().expect("the first");
    let too_long = limiter.blocking_wait_timeout(Duration::from_millis(99));
    assert!(too_long.is_err(), "refused at once");
    thread::scope(|scope| {
        let waiting: Vec<_> =
            (0..3).map(|_| scope.spawn(|| limiter.blocking_wait_timeout(SECOND))).collect();
        wait_until(|| clock.waiting() == 3);
        for left in [2, 1, 0] {
            clock.advance(Duration::from_millis(100));
            wait_until(|| clock.waiting() == left);
        }
        for thread in waiting {
            assert!(thread.join().expect("no panic").is_ok());
        }
        let endless = scope.spawn(|| limiter.blocking_wait());
        wait_until(|| clock.waiting() == 1);
        clock.advance(Duration::from_millis(100));
        endless.join().expect("no panic");
    });
}

#[test]
fn a_change_carries_the_budget_over() {
    let carried =
        [(Carry::AsIs, 3), (Carry::Proportional, 30), (Carry::Additive, 93), (Carry::Reset, 100)];
    for (carry, left) in carried {
        for (old, new) in [("10/h", "100/h"), ("10/h", "100/h fixed"), ("10/h log", "100/h")] {
            let (_, limiter) = limiter(&[old]);
            limiter.check_n(7).expect("ten");
            limiter.change([limit(new)], carry);
            assert_eq!(limiter.peek().remaining, left, "{old} to {new}, {carry:?}");
            limiter.change([limit(new)], Carry::AsIs);
            assert_eq!(limiter.peek().remaining, left, "changed to the same");
            assert!(limiter.check_n(left).is_ok() && limiter.check().is_err());
        }
    }
    let (_, limiter) = limiter(&["10/h"]);
    limiter.check_n(4).expect("ten");
    limiter.change([limit("10/h"), limit("2/h")], Carry::AsIs);
    assert_eq!(limiter.check_n(3).unwrap_err().index, 1, "a second limit begins full");
    limiter.change([limit("10/h")], Carry::AsIs);
    assert_eq!(limiter.peek().remaining, 6, "and can be removed again");
}

#[test]
fn dropping_a_permit_releases_it() {
    let (clock, limiter) = limiter(&["2 concurrent lease 10s", "5/s"]);
    let first = limiter.acquire().expect("two permits are free");
    let second = limiter.acquire().expect("one permit is free");
    assert_eq!(limiter.acquire().unwrap_err().index, 0);
    drop(first);
    let third = limiter.acquire().expect("the permit of the first");
    clock.advance(10 * SECOND);
    let fourth = limiter.acquire().expect("expired leases are released");
    let fifth = limiter.acquire().expect("both have expired");
    drop((second, third));
    assert!(limiter.acquire().is_err(), "an expired permit releases no other");
    drop((fourth, fifth));
    assert!(limiter.acquire().is_ok());
}

#[test]
fn an_adaptive_limit_grows_and_shrinks() {
    let (clock, limiter) = limiter(&["adaptive 2..20 concurrent"]);
    let mut grown = 0;
    for _ in 0..200 {
        // The limit drops for a moment now and then, to measure the service without a queue.
        grown = limiter.peek().limit.max(grown);
        let permits: Vec<_> = (0..limiter.peek().remaining).map(|_| limiter.acquire()).collect();
        clock.advance(Duration::from_millis(50));
        drop(permits);
    }
    assert!(grown > 2, "{grown}");
    for _ in 0..20 {
        limiter.acquire().expect("a permit").failed();
        clock.advance(2 * SECOND);
    }
    assert!(limiter.peek().limit < grown, "{}", limiter.peek().limit);
}

#[test]
fn a_limiter_without_limits_allows_everything() {
    let (_, limiter) = limiter(&[]);
    assert!(limiter.check_n(u64::MAX).is_ok());
    assert_eq!(limiter.peek().remaining, u64::MAX);
}
