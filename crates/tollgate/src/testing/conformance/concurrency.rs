//! Cases of concurrency limits: permits, leases, renewal and release.

use tollgate_core::{Retry, Span};

use super::Harness;
use super::store_under_test::{StoreUnderTest, TestCounter, retry};
use crate::{Action, Check};

/// Every kind of concurrency limit, with its initial number of permits.
pub(super) const CONCURRENCY_LIMITS: &[(&str, u64)] =
    &[("3 concurrent lease {P}", 3), ("adaptive 3..9 concurrent lease {P}", 3)];

const DONE: Action = Action::Release { rtt: Span::from_millis(5), dropped: false };
const DROPPED: Action = Action::Release { rtt: Span::from_millis(5), dropped: true };

/// Runs `action` on the permit of `lease`.
async fn run_on_lease<H: Harness>(counter: &TestCounter<'_, '_, H>, action: Action, lease: u64) {
    let check = Check { lease, ..counter.check("a", 0) };
    counter.store.run(action, &[check]).await;
}

/// Takes a permit and returns its lease.
async fn acquire<H: Harness>(counter: &TestCounter<'_, '_, H>) -> u64 {
    let check = counter.check("a", 1);
    let verdict = counter.store.take(&[check]).await[0];
    assert!(verdict.allowed, "{}: {verdict:?}", counter.limit);
    check.lease
}

pub(super) async fn no_more_permits_are_taken_than_allowed<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for (text, permits) in CONCURRENCY_LIMITS {
        let counter = store.counter(text);
        let never = counter.take("a", counter.limit.capacity() + 1).await;
        assert_eq!((never.allowed, never.retry), (false, Retry::Never), "{text}");
        let (passed, denied) = counter.exhaust("a").await;
        assert_eq!((passed, denied.remaining), (*permits, 0), "{text}");
        store.assert_same_span(text, retry(denied), store.period());
        store.assert_same_verdict(text, counter.peek("a").await, counter.peek("a").await);
        assert!(counter.take("a", 0).await.allowed, "{text}: a cost of zero");
        let reset = counter.run(Action::Reset, "a", 0).await;
        store.assert_same_verdict(text, reset, counter.peek("new").await);
        assert!(counter.take("a", *permits).await.allowed, "{text}");
    }
}

pub(super) async fn a_lease_expires<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, permits) in CONCURRENCY_LIMITS {
        let counter = store.counter(text);
        counter.take("a", 1).await;
        store.advance(store.period_fraction(1, 2)).await;
        counter.take("a", permits - 1).await;
        let denied = counter.take("a", 1).await;
        store.assert_same_span(text, retry(denied), store.period_fraction(1, 2));
        store.assert_same_span(text, denied.reset_after, store.period());
        store.advance(retry(denied) - store.resolution()).await;
        assert!(!counter.take("a", 1).await.allowed, "{text}: before the first expired");
        store.advance(store.resolution()).await;
        assert!(counter.take("a", 1).await.allowed, "{text}: the first expired");
        assert!(!counter.take("a", 1).await.allowed, "{text}: the rest did not");
    }
}

pub(super) async fn a_renewed_lease_starts_anew<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, permits) in CONCURRENCY_LIMITS {
        let counter = store.counter(text);
        let renewed = acquire(&counter).await;
        let not_renewed = acquire(&counter).await;
        store.advance(store.period_fraction(1, 2)).await;
        run_on_lease(&counter, Action::Renew, renewed).await;
        store.assert_same_span(text, counter.peek("a").await.reset_after, store.period());
        store.advance(store.period_fraction(1, 2)).await;
        assert_eq!(counter.peek("a").await.remaining, permits - 1, "{text}: one expired");
        run_on_lease(&counter, Action::Renew, not_renewed).await;
        run_on_lease(&counter, Action::Renew, 1 << 40).await;
        assert_eq!(
            counter.peek("a").await.remaining,
            permits - 1,
            "{text}: an expired lease is not renewed"
        );
        store.advance(store.period_fraction(1, 2)).await;
        assert_eq!(
            counter.peek("a").await.remaining,
            *permits,
            "{text}: the renewed lease expired too"
        );
    }
    let counter = store.counter("3/{P}");
    counter.take("a", 2).await;
    run_on_lease(&counter, Action::Renew, 1).await;
    assert_eq!(counter.peek("a").await.remaining, 1, "a rate has no leases");
}

pub(super) async fn a_release_frees_exactly_one<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, permits) in CONCURRENCY_LIMITS {
        for action in [DONE, Action::Refund] {
            let counter = store.counter(text);
            let mut leases = Vec::new();
            for _ in 0..*permits {
                leases.push(acquire(&counter).await);
            }
            assert!(!counter.take("a", 1).await.allowed, "{text}");
            let check = Check { lease: leases[1], ..counter.check("a", 1) };
            store.run(action, &[check]).await;
            assert_eq!(counter.peek("a").await.remaining, 1, "{text}");
            // A second release changes nothing.
            store.run(action, &[check]).await;
            assert_eq!(counter.peek("a").await.remaining, 1, "{text}");
            assert_eq!(counter.exhaust("a").await.0, 1, "{text}");
        }
    }
}

pub(super) async fn a_late_release_frees_no_other_permit<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for (text, permits) in CONCURRENCY_LIMITS {
        let counter = store.counter(text);
        let late = acquire(&counter).await;
        store.advance(store.period()).await;
        assert_eq!(counter.exhaust("a").await.0, *permits, "{text}");
        run_on_lease(&counter, DONE, late).await;
        run_on_lease(&counter, DONE, 1 << 40).await;
        assert!(!counter.take("a", 1).await.allowed, "{text}");
    }
}

pub(super) async fn a_lease_taken_twice_counts_once<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, permits) in CONCURRENCY_LIMITS {
        let counter = store.counter(text);
        let check = counter.check("a", 1);
        for _ in 0..5 {
            assert_eq!(store.take(&[check]).await[0].remaining, permits - 1, "{text}");
        }
        // A denied second attempt keeps the permit of the first.
        let denied = store.take(&[Check { cost: permits + 1, ..check }]).await[0];
        assert!(!denied.allowed, "{text}");
        assert_eq!(counter.peek("a").await.remaining, permits - 1, "{text}");
    }
}

/// Checks that a store reports releases to the controller; its choices are tested elsewhere.
pub(super) async fn an_adaptive_limit_learns_from_releases<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    let counter = store.counter("adaptive 3..9 concurrent lease {P}");
    let second = Span::from_secs(2);
    let mut grown = 0;
    for _ in 0..8 {
        grown = counter.peek("a").await.limit.max(grown);
        let mut leases = Vec::new();
        for _ in 0..12 {
            leases.clear();
            for _ in 0..counter.peek("a").await.remaining {
                leases.push(acquire(&counter).await);
            }
            for lease in &leases {
                run_on_lease(&counter, DONE, *lease).await;
            }
        }
        store.advance(second).await;
    }
    assert!(grown > 3, "busy at a steady latency, the limit grows, but it is {grown}");
    assert_eq!(counter.peek("b").await.limit, 3, "each key learns for itself");
    for _ in 0..8 {
        let lease = acquire(&counter).await;
        run_on_lease(&counter, DROPPED, lease).await;
        store.advance(second).await;
    }
    let shrunk = counter.peek("a").await.limit;
    assert!(shrunk < grown, "drops bring it down, but it is {shrunk}");
}
