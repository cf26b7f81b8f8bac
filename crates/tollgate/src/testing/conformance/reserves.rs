//! Cases of requests with a reserve: an amount that they must leave for other requests.

use tollgate_core::{Retry, Span, Verdict};

use super::Harness;
use super::algorithms::RATES;
use super::store_under_test::{MAX_WAIT, StoreUnderTest, TestCounter, retry};
use crate::{Action, Check, Reserve};

/// Takes one if that leaves `reserve`.
async fn take<H: Harness>(
    counter: &TestCounter<'_, '_, H>,
    key: &str,
    reserve: Reserve,
) -> Verdict {
    let check = Check { reserve, ..counter.check(key, 1) };
    counter.store.take(&[check]).await[0]
}

/// Returns whether taking one by one ends when nothing is left, and not at a gap or a debt.
fn is_plain<H: Harness>(counter: &TestCounter<'_, '_, H>) -> bool {
    let stops_elsewhere = ["min_gap", "initial", "count_denied"];
    !counter.pays_later() && !stops_elsewhere.iter().any(|keyword| counter.text_contains(keyword))
}

pub(super) async fn a_reserve_is_left<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, at_once) in RATES {
        let counter = store.counter(text);
        if !is_plain(&counter) {
            continue;
        }
        for (key, reserve, left) in
            [("a", Reserve::Amount(2), 2), ("b", Reserve::Percent(1), 1), ("c", Reserve::None, 0)]
        {
            let mut passed = 0;
            while take(&counter, key, reserve).await.allowed {
                passed += 1;
            }
            assert_eq!(passed, at_once - left, "{text} leaving {reserve:?}");
            assert_eq!(counter.exhaust(key).await.0, left, "{text} leaving {reserve:?}");
        }
    }
}

/// Checks that `retry_after` is exact for a request with a reserve.
pub(super) async fn a_request_with_a_reserve_passes_at_retry_after<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for (text, _) in RATES {
        let counter = store.counter(text);
        for reserve in [Reserve::Amount(1), Reserve::Percent(40), Reserve::Amount(u64::MAX)] {
            let is_forgotten =
                counter.text_contains("initial") && reserve == Reserve::Amount(u64::MAX);
            if counter.text_contains("count_denied") || is_forgotten {
                // A counted refusal delays the next success. A key that is full is forgotten, and
                // a new key begins with its initial tokens.
                continue;
            }
            for early in [true, false] {
                let key = format!("{early} {reserve:?}");
                counter.exhaust(&*key).await;
                let denied = take(&counter, &key, reserve).await;
                assert!(!denied.allowed, "{text} leaving {reserve:?}");
                let wait = retry(denied);
                let short = if early { store.resolution() } else { Span::ZERO };
                store.advance(wait - short).await;
                let verdict = take(&counter, &key, reserve).await;
                assert_eq!(verdict.allowed, !early, "{text} leaving {reserve:?}: {wait}");
            }
        }
    }
}

pub(super) async fn a_reserve_is_not_charged<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, _) in RATES {
        let counter = store.counter(text);
        let (reserved, plain) =
            (take(&counter, "a", Reserve::Amount(1)).await, counter.take("b", 1).await);
        if reserved.allowed {
            store.assert_same_verdict(text, reserved, plain);
        } else {
            assert!(counter.text_contains("initial 0"), "{text}: {reserved:?}");
        }
        store.assert_same_verdict(text, counter.peek("a").await, counter.peek("b").await);
        let check = Check { reserve: Reserve::Percent(100), ..counter.check("a", 1) };
        let tried = store.run(Action::Try { max_wait: Span::ZERO }, &[check]).await[0];
        assert_eq!(
            tried.allowed,
            counter.text_contains("warmup") && tried.retry == Retry::Now,
            "{text}"
        );
        store.assert_same_verdict(text, counter.peek("a").await, counter.peek("b").await);
    }
}

/// Checks that a reserve never blocks a full limit, and never allows a cost above capacity.
pub(super) async fn a_full_limit_allows_any_cost_up_to_its_capacity<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for (text, _) in RATES {
        let counter = store.counter(text);
        if counter.text_contains("initial") {
            continue; // A new key is not full.
        }
        let capacity = counter.limit.capacity();
        for (key, cost) in [("a", 1), ("b", 2.min(capacity)), ("c", capacity)] {
            let reserve = Reserve::Amount(u64::MAX);
            let check = Check { reserve, ..counter.check(key, cost) };
            let verdict = store.take(&[check]).await[0];
            assert!(verdict.allowed, "{text}: {cost} of {capacity}: {verdict:?}");
        }
        if counter.pays_later() {
            continue;
        }
        let check = Check { reserve: Reserve::Percent(50), ..counter.check("d", capacity + 1) };
        let verdict = store.take(&[check]).await[0];
        assert_eq!((verdict.allowed, verdict.retry), (false, Retry::Never), "{text}");
    }
}

pub(super) async fn a_request_with_a_reserve_never_waits<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for (text, _) in RATES {
        let counter = store.counter(text);
        if !is_plain(&counter) {
            continue;
        }
        counter.exhaust("a").await;
        let check = Check { reserve: Reserve::Amount(1), ..counter.check("a", 1) };
        let before = counter.peek("a").await;
        let denied = store.run(Action::Take { max_wait: MAX_WAIT }, &[check]).await[0];
        assert!(!denied.allowed, "{text}: {denied:?}");
        store.assert_same_verdict(text, counter.peek("a").await, before);
    }
}

pub(super) async fn a_reserve_keeps_permits_free<H: Harness>(store: &StoreUnderTest<'_, H>) {
    let counter = store.counter("5 concurrent lease {P}");
    let mut permits = vec![];
    loop {
        let check = Check { reserve: Reserve::Percent(40), ..counter.check("a", 1) };
        let verdict = store.take(&[check]).await[0];
        if !verdict.allowed {
            store.assert_same_span("until the first lease expires", retry(verdict), store.period());
            assert_eq!((verdict.limit, verdict.remaining), (5, 2));
            break;
        }
        permits.push(check);
    }
    assert_eq!(permits.len(), 3);
    assert_eq!(counter.exhaust("a").await.0, 2);
    // A released permit is available to requests without a reserve first.
    let done = Action::Release { rtt: Span::ZERO, dropped: false };
    store.run(done, &permits[..1]).await;
    assert!(!take(&counter, "a", Reserve::Percent(40)).await.allowed);
    assert!(counter.take("a", 1).await.allowed);
}

/// Checks that a reserve in percent follows the current limit, not the maximum.
pub(super) async fn a_share_of_an_adaptive_limit_moves_with_it<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    let counter = store.counter("adaptive 2..40 concurrent lease {P}");
    let limit = counter.peek("a").await.limit;
    let mut passed = 0;
    loop {
        let verdict = take(&counter, "a", Reserve::Percent(50)).await;
        if !verdict.allowed {
            break;
        }
        passed += 1;
    }
    assert_eq!(passed, limit - limit.div_ceil(2));
    assert_eq!(counter.peek("a").await.remaining, limit.div_ceil(2));
}

pub(super) async fn a_reserve_in_a_mix_is_all_or_none<H: Harness>(store: &StoreUnderTest<'_, H>) {
    let (reserved, free) = (store.counter("5/{P}"), store.counter("9/{P} fixed"));
    reserved.take("a", 2).await;
    let checks = |reserve| {
        let reserved = Check { reserve, ..reserved.check("a", 1) };
        [free.check("a", 1), reserved, free.check("b", 1)]
    };
    let refused = store.take(&checks(Reserve::Amount(3))).await;
    assert_eq!([0, 1, 2].map(|i| refused[i].allowed), [true, false, true]);
    assert_eq!([0, 1, 2].map(|i| refused[i].remaining), [9, 3, 9]);
    let passed = store.take(&checks(Reserve::Amount(2))).await;
    assert_eq!([0, 1, 2].map(|i| passed[i].remaining), [8, 2, 8]);
}
