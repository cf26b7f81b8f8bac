//! Cases of the actions of a store other than a plain take.

use tollgate_core::{Retry, Span};

use super::Harness;
use super::algorithms::RATES;
use super::store_under_test::{MAX_WAIT, StoreUnderTest, retry};
use crate::{Action, Check};

pub(super) async fn peeking_spends_nothing<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, at_once) in RATES {
        let counter = store.counter(text);
        let first = counter.peek("a").await;
        for _ in 0..20 {
            store.assert_same_verdict(text, counter.peek("a").await, first);
        }
        // Peeking creates no state either: "a" is as new as "b".
        store.advance(store.period_fraction(1, 60)).await;
        store.assert_same_verdict(text, counter.peek("a").await, counter.peek("b").await);
        assert_eq!(counter.exhaust("a").await.0, *at_once, "{text}");
        let (spent, again) = (counter.peek("a").await, counter.peek("a").await);
        store.assert_same_verdict(text, again, spent);
    }
}

pub(super) async fn a_cost_of_zero_spends_nothing<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, at_once) in RATES {
        let counter = store.counter(text);
        for _ in 0..20 {
            let verdict = counter.take("a", 0).await;
            assert!(verdict.allowed, "{text}: {verdict:?}");
        }
        assert_eq!(counter.exhaust("a").await.0, *at_once, "{text}");
        if !counter.pays_later() && !counter.text_contains("count_denied") {
            // An exhausted limit without debt allows a cost of zero.
            assert!(counter.take("a", 0).await.allowed, "{text}");
        }
    }
}

pub(super) async fn a_cost_above_capacity_never_passes<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, at_once) in RATES {
        let counter = store.counter(text);
        if counter.pays_later() {
            let verdict = counter.take("a", 1_000).await;
            assert!(verdict.allowed, "{text}: {verdict:?}");
            continue;
        }
        for cost in [counter.limit.capacity() + 1, u64::MAX] {
            let verdict = counter.take("a", cost).await;
            assert_eq!((verdict.allowed, verdict.retry), (false, Retry::Never), "{text}");
            let verdict = counter.reserve("a", cost, MAX_WAIT).await;
            assert_eq!((verdict.allowed, verdict.retry), (false, Retry::Never), "{text}");
        }
        if !counter.text_contains("count_denied") {
            assert_eq!(counter.exhaust("a").await.0, *at_once, "{text}");
        }
    }
}

pub(super) async fn a_reservation_waits_no_longer_than_max_wait<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for (text, _) in RATES {
        let counter = store.counter(text);
        counter.exhaust("a").await;
        counter.exhaust("b").await;
        let before = counter.peek("b").await;
        let reserved = counter.reserve("a", 1, MAX_WAIT).await;
        if counter.text_contains("count_denied") {
            assert!(!reserved.allowed, "{text}: this limit has no reservations");
            continue;
        }
        let wait = reserved.wait;
        assert!(reserved.allowed && !wait.is_zero(), "{text}: {reserved:?}");
        let denied = counter.reserve("b", 1, wait - store.resolution()).await;
        assert!(!denied.allowed, "{text}: {denied:?}, the wait is {wait}");
        store.assert_same_verdict(text, counter.peek("b").await, before);
        store.assert_same_verdict(text, counter.reserve("b", 1, wait).await, reserved);
        // The next reservation waits at least as long.
        let next = counter.reserve("b", 1, MAX_WAIT).await;
        assert!(next.allowed && next.wait >= wait, "{text}: {next:?}");
    }
    reservations_wait_at_the_rate(store).await;
}

/// Checks the exact waits of reservations on a token bucket.
async fn reservations_wait_at_the_rate<H: Harness>(store: &StoreUnderTest<'_, H>) {
    let counter = store.counter("5/{P}");
    counter.exhaust("a").await;
    for position in 1..=3 {
        let verdict = counter.reserve("a", 1, store.period()).await;
        store.assert_same_span("the wait", verdict.wait, store.period_fraction(position, 5));
    }
    let denied = counter.reserve("a", 3, store.period()).await;
    assert!(!denied.allowed, "{denied:?}");
    store.assert_same_span("the retry", retry(denied), store.period_fraction(6, 5));
    let verdict = counter.reserve("a", 2, store.period()).await;
    store.assert_same_span("the wait", verdict.wait, store.period());
}

/// Checks that the wait is bounded by both the `max_wait` of the call and the patience.
pub(super) async fn a_check_waits_no_longer_than_its_patience<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for (text, _) in RATES {
        let counter = store.counter(text);
        if counter.text_contains("count_denied") {
            continue;
        }
        counter.exhaust("a").await;
        counter.exhaust("b").await;
        let before = counter.peek("b").await;
        let reserved = counter.reserve("a", 1, MAX_WAIT).await;
        let reserve = async |max_wait: Span, patience: Span| {
            let check = Check { patience, ..counter.check("b", 1) };
            store.run(Action::Take { max_wait }, &[check]).await[0]
        };
        let short = reserved.wait - store.resolution();
        for (max_wait, patience) in [(MAX_WAIT, Span::ZERO), (MAX_WAIT, short), (short, MAX_WAIT)] {
            let denied = reserve(max_wait, patience).await;
            assert!(!denied.allowed, "{text}: {denied:?} of {max_wait} and {patience}");
            store.assert_same_verdict(text, counter.peek("b").await, before);
        }
        store.assert_same_verdict(text, reserve(MAX_WAIT, reserved.wait).await, reserved);
    }
}

pub(super) async fn spending_without_a_check_makes_debt<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, _) in RATES {
        let counter = store.counter(text);
        counter.exhaust("a").await;
        let (_, without) = counter.exhaust("b").await;
        let spent = counter.run(Action::Spend, "a", 3).await;
        assert!(spent.reset_after >= without.reset_after, "{text}: {spent:?}");
        let denied = counter.take("a", 1).await;
        assert!(!denied.allowed && retry(denied) >= retry(without), "{text}: {denied:?}");
    }
    let counter = store.counter("5/{P}");
    let spent = counter.run(Action::Spend, "a", 8).await;
    assert_eq!((spent.allowed, spent.remaining), (false, 0));
    store.assert_same_span("until the debt is paid", retry(spent), store.period_fraction(3, 5));
    store.assert_same_span(
        "until one more passes",
        retry(counter.take("a", 1).await),
        store.period_fraction(4, 5),
    );
    store.assert_same_span(
        "until the limit is full",
        spent.reset_after,
        store.period_fraction(8, 5),
    );
}

pub(super) async fn a_refund_never_goes_above_full<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, _) in RATES {
        let counter = store.counter(text);
        counter.exhaust("a").await;
        let one = counter.run(Action::Refund, "a", 1).await;
        assert!(one.allowed, "{text}: {one:?}");
        let all = counter.run(Action::Refund, "a", 1_000).await;
        assert_eq!(all.remaining, counter.limit.capacity(), "{text}");
        let unspent = counter.run(Action::Refund, "b", 1_000).await;
        assert_eq!(unspent.remaining, counter.limit.capacity(), "{text}");
    }
    let counter = store.counter("5/{P}");
    counter.take("a", 4).await;
    assert_eq!(counter.run(Action::Refund, "a", 2).await.remaining, 3);
    assert!(!counter.take("a", 4).await.allowed);
    assert!(counter.take("a", 3).await.allowed);
}

pub(super) async fn a_reset_forgets_what_was_spent<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, at_once) in RATES {
        let counter = store.counter(text);
        counter.exhaust("a").await;
        counter.run(Action::Spend, "a", 100).await;
        let reset = counter.run(Action::Reset, "a", 0).await;
        store.assert_same_verdict(text, reset, counter.peek("new").await);
        assert_eq!(counter.exhaust("a").await.0, *at_once, "{text}");
    }
}

/// Checks that no cost makes the store fail.
pub(super) async fn large_numbers_do_not_overflow<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, _) in RATES {
        let counter = store.counter(text);
        for cost in [1, 1 << 53, 1 << 62, i64::MAX as u64, 1 << 63, u64::MAX] {
            for action in [Action::Spend, Action::Refund, Action::Spend, Action::Spend] {
                counter.run(action, "a", cost).await;
                counter.reserve("a", cost, Span::MAX).await;
                counter.reserve("a", 1, Span::ZERO).await;
            }
            store.advance(store.period()).await;
        }
        counter.run(Action::Reset, "a", 0).await;
        store.assert_same_verdict(text, counter.peek("a").await, counter.peek("new").await);
    }
}
