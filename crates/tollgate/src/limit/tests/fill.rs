//! How long a spent key takes to be as good as new, checked against the engines themselves.

use proptest::prelude::*;
use tollgate_core::{Algorithm, Span, Time};

use super::roundtrip::text;
use crate::limit::{Engine, Limit};

/// Spends everything at `now`: how long until nothing of it is left.
fn spent<A: Algorithm>(engine: &A, now: Time) -> Option<Span> {
    let mut state = engine.fresh(now);
    let allowed = engine.decide(&mut state, now, engine.capacity()).allowed;
    allowed.then(|| engine.full_at(&state).since(now))
}

fn refilled_in(limit: &Limit, now: Time) -> Option<Span> {
    match limit.engine() {
        Engine::Meter(meter) => spent(meter, now),
        Engine::FixedWindow(window) => spent(window, now),
        Engine::SlidingWindow(window) => spent(window, now),
        Engine::SlidingSlots(slots) => spent(slots, now),
        Engine::SlidingLog(log) => spent(log, now),
        Engine::WarmUp(warm_up) => spent(warm_up, now),
        Engine::Concurrent(_) | Engine::Adaptive(_) | Engine::Unlimited => None,
    }
}

proptest! {
    #[test]
    fn a_spent_key_is_as_good_as_new_within_the_fill_time(text in text(), seconds in 0..1u64 << 31) {
        let now = Time::from_nanos(seconds * 1_000_000_007);
        // Whoever pays later may owe more than a bucket holds.
        let limit = text.parse::<Limit>().ok().filter(|_| !text.contains("pay_later"));
        if let Some((limit, refilled)) = limit.and_then(|l| refilled_in(&l, now).map(|r| (l, r))) {
            prop_assert!(refilled <= limit.fill_time(), "{limit}: {refilled} > {}", limit.fill_time());
        }
    }
}
