//! What can be done to a counter beside taking.

use tollgate_core::{Retry, Span};

use super::Harness;
use super::algorithms::RATES;
use super::subject::{AGES, Subject, retry};
use crate::{Action, Check};

pub(super) async fn peeking_spends_nothing<H: Harness>(subject: &Subject<'_, H>) {
    for (text, at_once) in RATES {
        let counter = subject.counter(text);
        let first = counter.peek("a").await;
        for _ in 0..20 {
            subject.same(text, counter.peek("a").await, first);
        }
        // Nor does it begin anything: "a" is as new as "b".
        subject.advance(subject.share(1, 60)).await;
        subject.same(text, counter.peek("a").await, counter.peek("b").await);
        assert_eq!(counter.exhaust("a").await.0, *at_once, "{text}");
        let (spent, again) = (counter.peek("a").await, counter.peek("a").await);
        subject.same(text, again, spent);
    }
}

pub(super) async fn a_cost_of_nothing_spends_nothing<H: Harness>(subject: &Subject<'_, H>) {
    for (text, at_once) in RATES {
        let counter = subject.counter(text);
        for _ in 0..20 {
            let verdict = counter.take("a", 0).await;
            assert!(verdict.allowed, "{text}: {verdict:?}");
        }
        assert_eq!(counter.exhaust("a").await.0, *at_once, "{text}");
        if !counter.pays_later() && !counter.says("count_denied") {
            // What is spent, but not owed, does not stop it.
            assert!(counter.take("a", 0).await.allowed, "{text}");
        }
    }
}

pub(super) async fn a_cost_above_capacity_never_passes<H: Harness>(subject: &Subject<'_, H>) {
    for (text, at_once) in RATES {
        let counter = subject.counter(text);
        if counter.pays_later() {
            let verdict = counter.take("a", 1_000).await;
            assert!(verdict.allowed, "{text}: {verdict:?}");
            continue;
        }
        for cost in [counter.limit.capacity() + 1, u64::MAX] {
            let verdict = counter.take("a", cost).await;
            assert_eq!((verdict.allowed, verdict.retry), (false, Retry::Never), "{text}");
            let verdict = counter.reserve("a", cost, AGES).await;
            assert_eq!((verdict.allowed, verdict.retry), (false, Retry::Never), "{text}");
        }
        if !counter.says("count_denied") {
            assert_eq!(counter.exhaust("a").await.0, *at_once, "{text}");
        }
    }
}

pub(super) async fn a_reservation_waits_no_longer_than_accepted<H: Harness>(
    subject: &Subject<'_, H>,
) {
    for (text, _) in RATES {
        let counter = subject.counter(text);
        counter.exhaust("a").await;
        counter.exhaust("b").await;
        let before = counter.peek("b").await;
        let placed = counter.reserve("a", 1, AGES).await;
        if counter.says("count_denied") {
            assert!(!placed.allowed, "{text}: there is no line to wait in");
            continue;
        }
        let wait = placed.wait;
        assert!(placed.allowed && !wait.is_zero(), "{text}: {placed:?}");
        let denied = counter.reserve("b", 1, wait - subject.resolution()).await;
        assert!(!denied.allowed, "{text}: {denied:?}, the wait is {wait}");
        subject.same(text, counter.peek("b").await, before);
        subject.same(text, counter.reserve("b", 1, wait).await, placed);
        // The next in line waits at least as long.
        let next = counter.reserve("b", 1, AGES).await;
        assert!(next.allowed && next.wait >= wait, "{text}: {next:?}");
    }
    in_line_at_the_rate(subject).await;
}

/// Of a meter the waits are known.
async fn in_line_at_the_rate<H: Harness>(subject: &Subject<'_, H>) {
    let counter = subject.counter("5/{P}");
    counter.exhaust("a").await;
    for place in 1..=3 {
        let verdict = counter.reserve("a", 1, subject.period()).await;
        subject.same_span("the wait", verdict.wait, subject.share(place, 5));
    }
    let denied = counter.reserve("a", 3, subject.period()).await;
    assert!(!denied.allowed, "{denied:?}");
    subject.same_span("the retry", retry(denied), subject.share(6, 5));
    let verdict = counter.reserve("a", 2, subject.period()).await;
    subject.same_span("the wait", verdict.wait, subject.period());
}

/// Whatever the call accepts, or its patience if the call accepts less.
pub(super) async fn a_check_waits_no_longer_than_its_patience<H: Harness>(
    subject: &Subject<'_, H>,
) {
    for (text, _) in RATES {
        let counter = subject.counter(text);
        if counter.says("count_denied") {
            continue;
        }
        counter.exhaust("a").await;
        counter.exhaust("b").await;
        let before = counter.peek("b").await;
        let placed = counter.reserve("a", 1, AGES).await;
        let reserve = async |max_wait: Span, patience: Span| {
            let check = Check { patience, ..counter.check("b", 1) };
            subject.run(Action::Take { max_wait }, &[check]).await[0]
        };
        let short = placed.wait - subject.resolution();
        for (max_wait, patience) in [(AGES, Span::ZERO), (AGES, short), (short, AGES)] {
            let denied = reserve(max_wait, patience).await;
            assert!(!denied.allowed, "{text}: {denied:?} of {max_wait} and {patience}");
            subject.same(text, counter.peek("b").await, before);
        }
        subject.same(text, reserve(AGES, placed.wait).await, placed);
    }
}

pub(super) async fn spending_without_asking_makes_debt<H: Harness>(subject: &Subject<'_, H>) {
    for (text, _) in RATES {
        let counter = subject.counter(text);
        counter.exhaust("a").await;
        let (_, without) = counter.exhaust("b").await;
        let spent = counter.run(Action::Spend, "a", 3).await;
        assert!(spent.reset_after >= without.reset_after, "{text}: {spent:?}");
        let denied = counter.take("a", 1).await;
        assert!(!denied.allowed && retry(denied) >= retry(without), "{text}: {denied:?}");
    }
    let counter = subject.counter("5/{P}");
    let spent = counter.run(Action::Spend, "a", 8).await;
    assert_eq!((spent.allowed, spent.remaining), (false, 0));
    subject.same_span("the debt is paid", retry(spent), subject.share(3, 5));
    subject.same_span("one more", retry(counter.take("a", 1).await), subject.share(4, 5));
    subject.same_span("all of it", spent.reset_after, subject.share(8, 5));
}

pub(super) async fn a_refund_never_goes_above_full<H: Harness>(subject: &Subject<'_, H>) {
    for (text, _) in RATES {
        let counter = subject.counter(text);
        counter.exhaust("a").await;
        let one = counter.run(Action::Refund, "a", 1).await;
        assert!(one.allowed, "{text}: {one:?}");
        let all = counter.run(Action::Refund, "a", 1_000).await;
        assert_eq!(all.remaining, counter.limit.capacity(), "{text}");
        let unspent = counter.run(Action::Refund, "b", 1_000).await;
        assert_eq!(unspent.remaining, counter.limit.capacity(), "{text}");
    }
    let counter = subject.counter("5/{P}");
    counter.take("a", 4).await;
    assert_eq!(counter.run(Action::Refund, "a", 2).await.remaining, 3);
    assert!(!counter.take("a", 4).await.allowed);
    assert!(counter.take("a", 3).await.allowed);
}

pub(super) async fn a_reset_forgets_what_was_spent<H: Harness>(subject: &Subject<'_, H>) {
    for (text, at_once) in RATES {
        let counter = subject.counter(text);
        counter.exhaust("a").await;
        counter.run(Action::Spend, "a", 100).await;
        let reset = counter.run(Action::Reset, "a", 0).await;
        subject.same(text, reset, counter.peek("new").await);
        assert_eq!(counter.exhaust("a").await.0, *at_once, "{text}");
    }
}

/// Whatever is asked for, the answer is an answer.
pub(super) async fn large_numbers_do_not_overflow<H: Harness>(subject: &Subject<'_, H>) {
    for (text, _) in RATES {
        let counter = subject.counter(text);
        for cost in [1, 1 << 53, 1 << 62, i64::MAX as u64, 1 << 63, u64::MAX] {
            for action in [Action::Spend, Action::Refund, Action::Spend, Action::Spend] {
                counter.run(action, "a", cost).await;
                counter.reserve("a", cost, Span::MAX).await;
                counter.reserve("a", 1, Span::ZERO).await;
            }
            subject.advance(subject.period()).await;
        }
        counter.run(Action::Reset, "a", 0).await;
        subject.same(text, counter.peek("a").await, counter.peek("new").await);
    }
}
