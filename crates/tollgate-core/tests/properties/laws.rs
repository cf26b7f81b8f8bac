//! Laws that hold for every algorithm.

use proptest::prelude::*;
use tollgate_core::{Algorithm, Retry, Span, Time};

/// One call, `after` nanoseconds after the one before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) after: u64,
    pub(crate) act: Act,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Decide(u64),
    Reserve(u64, u64),
    /// An unconditional charge: a settlement, or a refund.
    Charge(i64),
}

/// Generates histories of up to `most` calls with costs up to `cost` and pauses up to `pause`.
pub(crate) fn calls(most: usize, cost: u64, pause: u64) -> impl Strategy<Value = Vec<Call>> {
    let signed = cost as i64;
    let act = prop_oneof![
        4 => (0..=cost).prop_map(Act::Decide),
        1 => (0..=cost, 0..=pause).prop_map(|(cost, wait)| Act::Reserve(cost, wait)),
        1 => (-signed..=signed).prop_map(Act::Charge),
    ];
    let pause = prop_oneof![1 => Just(0), 3 => 0..=pause];
    prop::collection::vec((pause, act).prop_map(|(after, act)| Call { after, act }), 0..=most)
}

/// Performs a call and returns its result: the verdict, or the judgement after a charge.
pub(crate) fn perform<A: Algorithm>(algo: &A, state: &mut A::State, now: Time, act: Act) -> String {
    match act {
        Act::Decide(cost) => format!("{:?}", algo.decide(state, now, cost)),
        Act::Reserve(cost, wait) => {
            format!("{:?}", algo.reserve(state, now, cost, Span::from_nanos(wait)))
        }
        Act::Charge(cost) => {
            algo.charge(state, now, cost);
            format!("{:?}", algo.judge(state, now))
        }
    }
}

/// Returns the state after `calls`, and the time.
pub(crate) fn lived<A: Algorithm>(algo: &A, start: Time, calls: &[Call]) -> (A::State, Time) {
    let (mut state, mut now) = (algo.fresh(start), start);
    for call in calls {
        now = now + Span::from_nanos(call.after);
        perform(algo, &mut state, now, call.act);
    }
    (state, now)
}

/// Checks all laws of a state at a time, for a request of `cost`.
pub(crate) fn hold<A: Algorithm>(algo: &A, state: &A::State, now: Time, cost: u64) {
    retry_is_exact(algo, state, now, cost);
    reset_is_exact(algo, state, now);
    denial_changes_nothing(algo, state, now, cost);
    refund_never_exceeds_full(algo, state, now);
}

/// Checks that a request passes at `now + retry` and fails one nanosecond earlier.
pub(crate) fn retry_is_exact<A: Algorithm>(algo: &A, state: &A::State, now: Time, cost: u64) {
    let mut before = state.clone();
    let verdict = algo.decide(&mut before, now, cost);
    let passes_at = |at| algo.decide(&mut before.clone(), at, cost).allowed;
    match verdict.retry {
        Retry::Now => assert!(verdict.allowed),
        Retry::Never => assert!(!algo.pays_later() && cost > algo.capacity()),
        Retry::After(span) => {
            assert!(!verdict.allowed && !span.is_zero());
            assert!(passes_at(now + span), "refused at the reported time: {verdict:?}");
            let early = now + (span - Span::from_nanos(1));
            assert!(!passes_at(early), "passed before the reported time: {verdict:?}");
        }
    }
}

/// Checks that everything is available at `now + reset_after`, but not one nanosecond earlier.
pub(crate) fn reset_is_exact<A: Algorithm>(algo: &A, state: &A::State, now: Time) {
    let reset = algo.peek(state, now).reset_after;
    let left_at = |at| algo.peek(state, at).remaining;
    assert_eq!(left_at(now + reset), algo.capacity());
    if !reset.is_zero() {
        assert!(left_at(now + (reset - Span::from_nanos(1))) < algo.capacity());
        assert_eq!(algo.full_at(state), now + reset);
    } else {
        assert!(algo.full_at(state) <= now);
    }
}

/// Checks that a refused request changes nothing, unless the limit counts it.
pub(crate) fn denial_changes_nothing<A: Algorithm>(
    algo: &A,
    state: &A::State,
    now: Time,
    cost: u64,
) {
    let mut after = state.clone();
    if !algo.decide(&mut after, now, cost).allowed && !algo.counts_denied() {
        assert_eq!(&after, state);
    }
}

/// Checks that a refund never exceeds a full limit.
pub(crate) fn refund_never_exceeds_full<A: Algorithm>(algo: &A, state: &A::State, now: Time) {
    let mut refunded = state.clone();
    algo.charge(&mut refunded, now, i64::MIN);
    assert_eq!(algo.judge(&refunded, now).remaining, algo.capacity());
    assert!(algo.decide(&mut refunded, now, algo.capacity()).allowed);
    assert!(!algo.decide(&mut refunded, now, 1).allowed);
}

/// Checks that a full state behaves like that of a new key, in any further history.
pub(crate) fn full_equals_absent<A: Algorithm>(
    algo: &A,
    state: &A::State,
    at: Time,
    next: &[Call],
) {
    let mut now = at.max(algo.full_at(state));
    let (mut old, mut new) = (state.clone(), algo.fresh(now));
    for call in next {
        now = now + Span::from_nanos(call.after);
        let (results, expected) =
            (perform(algo, &mut old, now, call.act), perform(algo, &mut new, now, call.act));
        assert_eq!(results, expected, "at {now:?}, {call:?}");
    }
}

/// Checks that the order of charges within one instant does not matter.
pub(crate) fn order_is_irrelevant<A: Algorithm>(
    algo: &A,
    state: &A::State,
    now: Time,
    costs: &[i64],
) {
    let total = |costs: &mut dyn Iterator<Item = &i64>| {
        let mut state = state.clone();
        costs.for_each(|cost| algo.charge(&mut state, now, *cost));
        state
    };
    assert_eq!(total(&mut costs.iter()), total(&mut costs.iter().rev()));
    let mut sorted = costs.to_vec();
    sorted.sort_unstable();
    assert_eq!(total(&mut costs.iter()), total(&mut sorted.iter()));
}

/// Checks that any call at any time neither overflows nor panics.
pub(crate) fn survives<A: Algorithm>(algo: &A, calls: &[(u64, u64, i64)]) {
    let start = Time::from_nanos(calls.first().map_or(0, |call| call.0));
    survives_from(algo, algo.fresh(start), calls);
}

/// Checks that calls on any state that a store may have read neither overflow nor panic.
pub(crate) fn survives_from<A: Algorithm>(
    algo: &A,
    mut state: A::State,
    calls: &[(u64, u64, i64)],
) {
    for &(at, cost, signed) in calls {
        let now = Time::from_nanos(at);
        algo.decide(&mut state, now, cost);
        algo.reserve(&mut state, now, cost, Span::from_nanos(cost));
        algo.charge(&mut state, now, signed);
        let left = i128::from(algo.capacity()) - i128::from(algo.used(&state, now));
        algo.with_remaining(now, left);
        algo.with_remaining(now, i128::from(signed) << 60);
        assert!(algo.judge(&state, now).remaining <= algo.capacity());
        algo.full_at(&state);
    }
}
