//! Cases of several checks in one call: all of them are charged, or none.

use tollgate_core::{Retry, Span};

use super::Harness;
use super::algorithms::RATES;
use super::concurrency::CONCURRENCY_LIMITS;
use super::store_under_test::{MAX_WAIT, StoreUnderTest};
use crate::{Action, Check};

pub(super) async fn verdicts_come_in_the_order_of_the_checks<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    let texts = ["9/{P} log", "unlimited", "4/{P}", "7/{P} fixed", "2 concurrent", "5/{P} sliding"];
    let counters = texts.map(|text| store.counter(text));
    let limits = [9, u64::MAX, 4, 7, 2, 5];
    let checks = counters.each_ref().map(|counter| counter.check("a", 1));
    let verdicts = store.take(&checks).await;
    for (verdict, limit) in verdicts.iter().zip(limits) {
        let left = if limit == u64::MAX { limit } else { limit - 1 };
        assert_eq!((verdict.limit, verdict.remaining), (limit, left));
    }
    let mut backwards = counters.each_ref().map(|counter| counter.check("a", 1));
    backwards.reverse();
    let verdicts = store.run(Action::Peek, &backwards).await;
    let peeked: Vec<u64> = verdicts.iter().rev().map(|verdict| verdict.limit).collect();
    assert_eq!(peeked, limits);
}

pub(super) async fn one_denial_charges_no_counter<H: Harness>(store: &StoreUnderTest<'_, H>) {
    let [first, second, third] = ["5/{P}", "6/{P}", "2/{P}"].map(|text| store.counter(text));
    let checks = || [first.check("a", 1), second.check("a", 1), third.check("a", 1)];
    for left in [1, 0] {
        let verdicts = store.take(&checks()).await;
        assert!(verdicts.iter().all(|verdict| verdict.allowed), "{verdicts:?}");
        assert_eq!(verdicts[2].remaining, left);
    }
    for _ in 0..3 {
        let verdicts = store.take(&checks()).await;
        // Each verdict reports its own counter; the first two had capacity left.
        let reported = verdicts.iter().map(|verdict| (verdict.allowed, verdict.remaining));
        assert!(reported.eq([(true, 3), (true, 4), (false, 0)]), "{verdicts:?}");
        store.assert_same_span(
            "retry",
            super::store_under_test::retry(verdicts[2]),
            store.period_fraction(1, 2),
        );
    }
    // A check that can never pass charges none either.
    let verdicts = store.take(&[first.check("a", 1), second.check("a", 7)]).await;
    assert_eq!((verdicts[0].remaining, verdicts[1].retry), (3, Retry::Never));
    assert_eq!(first.peek("a").await.remaining, 3);
}

/// Checks that the reservation of the first check is undone when the second denies.
pub(super) async fn one_denial_leaves_no_reservation<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, _) in RATES {
        let (counter, gate) = (store.counter(text), store.counter("1/{P} fixed count_denied"));
        counter.exhaust("a").await;
        gate.exhaust("a").await;
        let before = counter.peek("a").await;
        store
            .run(Action::Take { max_wait: MAX_WAIT }, &[counter.check("a", 1), gate.check("a", 1)])
            .await;
        if !counter.text_contains("count_denied") {
            store.assert_same_verdict(text, counter.peek("a").await, before);
        }
    }
}

/// Checks one check that may wait beside one that may not: both are charged, or none.
pub(super) async fn each_check_has_its_own_patience<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, at_once) in RATES {
        let (patient, hasty) = (store.counter("1/{P}"), store.counter(text));
        if hasty.text_contains("count_denied") {
            continue;
        }
        let checks =
            || [patient.check("a", 1), Check { patience: Span::ZERO, ..hasty.check("a", 1) }];
        for position in 0..*at_once {
            let verdicts = store.run(Action::Take { max_wait: MAX_WAIT }, &checks()).await;
            assert!(verdicts.iter().all(|verdict| verdict.allowed), "{text}: {verdicts:?}");
            store.assert_same_span(text, verdicts[0].wait, store.period().times(position));
        }
        let before = patient.peek("a").await;
        for _ in 0..2 {
            let mut checks = checks();
            checks.reverse();
            let verdicts = store.run(Action::Take { max_wait: MAX_WAIT }, &checks).await;
            assert_eq!([0, 1].map(|i| verdicts[i].allowed), [false, true], "{text}");
            store.assert_same_verdict(text, patient.peek("a").await, before);
        }
    }
}

/// Checks every limit before and after one that denies.
pub(super) async fn every_mix_of_algorithms_is_all_or_none<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for (text, at_once) in RATES.iter().chain(CONCURRENCY_LIMITS) {
        for max_wait in [Span::ZERO, MAX_WAIT] {
            let (counter, gate) = (store.counter(text), store.counter("1/{P} log count_denied"));
            gate.exhaust("a").await;
            let before = counter.peek("a").await;
            for cost in [0, 1, 2] {
                let mut checks = [counter.check("a", cost), gate.check("a", 1)];
                for _ in 0..2 {
                    let verdicts = store.run(Action::Take { max_wait }, &checks).await;
                    assert!(!verdicts.iter().all(|verdict| verdict.allowed), "{text}");
                    checks.reverse();
                }
            }
            if !counter.text_contains("count_denied") {
                store.assert_same_verdict(text, counter.peek("a").await, before);
                assert_eq!(counter.exhaust("a").await.0, *at_once, "{text}");
            }
        }
    }
}

/// Checks a call that names one counter twice, as when a user is their own tenant.
pub(super) async fn the_same_check_twice_is_charged_twice<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for (text, at_once) in RATES.iter().chain(CONCURRENCY_LIMITS) {
        let counter = store.counter(text);
        let pair = || [counter.check("a", 1), counter.check("a", 1)];
        let verdicts = store.take(&pair()).await;
        let allowed = verdicts.iter().all(|verdict| verdict.allowed);
        assert_eq!(allowed, *at_once >= 2, "{text}: {verdicts:?}");
        if counter.text_contains("count_denied") {
            continue;
        }
        let left = if allowed { at_once - 2 } else { *at_once };
        // One check too many denies them all.
        let many: Vec<_> = (0..=left).map(|_| counter.check("a", 1)).collect();
        let verdicts = store.take(&many).await;
        let denied = verdicts.iter().filter(|verdict| !verdict.allowed).count();
        assert_eq!(denied, 1, "{text}: only the last is too many: {verdicts:?}");
        assert_eq!(counter.exhaust("a").await.0, left, "{text}");
        if CONCURRENCY_LIMITS.iter().all(|(concurrent, _)| concurrent != text) {
            store.run(Action::Refund, &pair()).await;
            assert!(
                store.take(&pair()).await.iter().all(|verdict| verdict.allowed) || *at_once < 2,
                "{text}"
            );
        }
    }
    let counter = store.counter("9/{P}");
    let twice = [counter.check("a", 2), counter.check("b", 1), counter.check("a", 3)];
    let left = store.take(&twice).await.iter().map(|verdict| verdict.remaining).collect::<Vec<_>>();
    assert_eq!(left, [7, 8, 4]);
    store.run(Action::Spend, &twice).await;
    assert!(!counter.peek("a").await.allowed);
    assert_eq!(counter.peek("b").await.remaining, 7);
}

pub(super) async fn a_call_without_checks_is_valid<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for action in [Action::Take { max_wait: Span::ZERO }, Action::Peek, Action::Reset] {
        assert!(store.run(action, &[]).await.is_empty());
    }
}
