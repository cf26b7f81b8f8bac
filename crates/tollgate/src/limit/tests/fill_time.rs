//! Checks the fill time of limits against the algorithms.

use proptest::prelude::*;
use tollgate_core::{Algorithm, Span, Time};

use super::roundtrip::text;
use crate::limit::{Limit, LimitAlgorithm};

/// Takes the whole capacity at `now` and returns how long the key takes to be full again.
fn exhaust<A: Algorithm>(algorithm: &A, now: Time) -> Option<Span> {
    let mut state = algorithm.fresh(now);
    let allowed = algorithm.decide(&mut state, now, algorithm.capacity()).allowed;
    allowed.then(|| algorithm.full_at(&state).since(now))
}

fn refilled_in(limit: &Limit, now: Time) -> Option<Span> {
    match limit.algorithm() {
        LimitAlgorithm::Meter(meter) => exhaust(meter, now),
        LimitAlgorithm::FixedWindow(window) => exhaust(window, now),
        LimitAlgorithm::SlidingWindow(window) => exhaust(window, now),
        LimitAlgorithm::SlidingSlots(slots) => exhaust(slots, now),
        LimitAlgorithm::SlidingLog(log) => exhaust(log, now),
        LimitAlgorithm::WarmUp(warm_up) => exhaust(warm_up, now),
        LimitAlgorithm::Concurrent(_) | LimitAlgorithm::Adaptive(_) | LimitAlgorithm::Unlimited => {
            None
        }
    }
}

proptest! {
    #[test]
    fn an_exhausted_key_is_full_within_the_fill_time(text in text(), seconds in 0..1u64 << 31) {
        let now = Time::from_nanos(seconds * 1_000_000_007);
        // With `pay_later` the debt can exceed the capacity of the bucket.
        let limit = text.parse::<Limit>().ok().filter(|_| !text.contains("pay_later"));
        if let Some((limit, refilled)) = limit.and_then(|l| refilled_in(&l, now).map(|r| (l, r))) {
            prop_assert!(refilled <= limit.fill_time(), "{limit}: {refilled} > {}", limit.fill_time());
        }
    }
}
