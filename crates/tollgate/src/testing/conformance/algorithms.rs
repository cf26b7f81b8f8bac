//! Cases that hold for the algorithms of every rate limit.

use tollgate_core::Retry;

use super::Harness;
use super::store_under_test::{StoreUnderTest, retry};

/// Every kind of rate limit, with the number of requests of cost 1 that pass at once.
pub(super) const RATES: &[(&str, u64)] = &[
    ("5/{P}", 5),
    ("5/{P} burst 8", 8),
    ("7/{P} burst 3", 3),
    ("2/7us burst 5", 5),
    ("997/{P} burst 6", 6),
    ("6/{P} leaky burst 6", 6),
    ("6/{P} leaky free 2 burst 5", 5),
    ("5/{P} gcra burst 6", 6),
    ("5/{P} interval", 5),
    ("5/{P} burst 9 initial 4", 4),
    ("5/{P} burst 9 initial 0", 0),
    ("5/{P} burst 3 pay_later", 4),
    ("5/{P} fixed", 5),
    ("5/{P} fixed first_hit", 5),
    ("5/{P} fixed count_denied", 5),
    ("5/{P} sliding", 5),
    ("5/{P} sliding count_denied", 5),
    ("5/{P} sliding slots 6", 5),
    ("5/{P} log", 5),
    ("5/{P} log count_denied", 5),
    ("5/{P} log min_gap {G}", 1),
    ("5/{P} log min_gap {G} count_denied", 1),
    ("5/{P} warmup {P}", 1),
];

/// Calendar limits, with the number of requests of cost 1 that pass at once.
const CALENDARS: &[(&str, u64)] = &[
    ("3/day calendar", 3),
    ("3/week calendar zone Asia/Kathmandu anchor 7", 3),
    ("3/month calendar zone Europe/Berlin anchor 15", 3),
    ("3/year calendar count_denied", 3),
];

pub(super) async fn limits_allow_their_amount_then_deny<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, at_once) in RATES {
        let counter = store.counter(text);
        let before = counter.peek("a").await;
        assert_eq!(before.limit, counter.limit.capacity(), "{text}");
        let (passed, denied) = counter.exhaust("a").await;
        assert_eq!(passed, *at_once, "{text}");
        assert!(!retry(denied).is_zero(), "{text}: {denied:?}");
        if !counter.pays_later() && !counter.text_contains("min_gap") {
            assert_eq!((before.remaining, denied.remaining), (*at_once, 0), "{text}");
        }
    }
}

/// Checks that `retry_after` is exact: one unit of the resolution earlier is denied.
pub(super) async fn a_denied_request_passes_at_retry_after<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for (text, _) in RATES.iter().chain(CALENDARS) {
        let counter = store.counter(text);
        counter.exhaust("early").await;
        let (_, denied) = counter.exhaust("late").await;
        let wait = retry(denied);
        store.advance(wait - store.resolution()).await;
        let early = counter.take("early", 1).await;
        assert!(!early.allowed, "{text}: passed before {wait}");
        if !counter.text_contains("count_denied") {
            let left = early.retry_after().unwrap_or_default();
            assert!(left <= store.resolution(), "{text}: {left} left");
        }
        store.advance(store.resolution()).await;
        let late = counter.take("late", 1).await;
        assert!(late.allowed && late.retry == Retry::Now, "{text}: {late:?} after {wait}");
    }
}

pub(super) async fn a_key_is_like_a_new_one_at_reset_after<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for (text, _) in RATES.iter().chain(CALENDARS) {
        let counter = store.counter(text);
        // Starts inside a window, so that its bounds differ from those of the key.
        store.advance(store.period_fraction(1, 3)).await;
        counter.exhaust("a").await;
        let reset_after = counter.peek("a").await.reset_after;
        assert!(!reset_after.is_zero(), "{text}");
        store.advance(reset_after - store.resolution()).await;
        let almost = counter.peek("a").await.reset_after;
        assert!(!almost.is_zero(), "{text}: full before {reset_after}");
        store.advance(store.resolution()).await;
        store.assert_same_verdict(text, counter.peek("a").await, counter.peek("new").await);
        store.assert_same_verdict(text, counter.take("a", 1).await, counter.take("new", 1).await);
    }
}

pub(super) async fn calendars_allow_their_amount_until_their_period_ends<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for (text, at_once) in CALENDARS {
        let counter = store.counter(text);
        let (passed, denied) = counter.exhaust("a").await;
        assert_eq!(passed, *at_once, "{text}");
        store.assert_same_span(text, retry(denied), denied.reset_after);
        store.advance(retry(denied)).await;
        assert_eq!(counter.exhaust("a").await.0, *at_once, "{text}");
    }
}

pub(super) async fn denied_requests_cost_nothing_unless_counted<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for (text, _) in RATES {
        let counter = store.counter(text);
        counter.exhaust("a").await;
        let (_, denied) = counter.exhaust("b").await;
        store.advance(store.period_fraction(1, 60).min(retry(denied) - store.resolution())).await;
        for _ in 0..3 {
            counter.take("a", 1).await;
        }
        let (hammered, quiet) = (counter.take("a", 1).await, counter.take("b", 1).await);
        if counter.text_contains("count_denied") {
            assert!(hammered.reset_after >= quiet.reset_after, "{text}");
        } else {
            store.assert_same_verdict(text, hammered, quiet);
        }
    }
}

pub(super) async fn unlimited_never_denies<H: Harness>(store: &StoreUnderTest<'_, H>) {
    let counter = store.counter("unlimited");
    for cost in [0, 1, u64::MAX] {
        let verdict = counter.take("a", cost).await;
        assert!(verdict.allowed, "{verdict:?}");
        assert_eq!((verdict.limit, verdict.remaining), (u64::MAX, u64::MAX));
    }
}
