//! The size of one counter: no valid limit has a state beyond its bound, whatever is done to it.

mod support;

use proptest::prelude::*;
use proptest::sample::select;
use support::{block_on, limit};
use tollgate::limit::MAX_ENTRIES;
use tollgate::state::{self, State};
use tollgate::testing::ManualClock;
use tollgate::{
    Action, Check, CounterId, Limit, LimitAlgorithm, MemoryStore, Span, Store, StoreCall, Time,
};

/// Returns the most entries that a state of `limit` may have.
fn most_entries(limit: &Limit) -> u64 {
    match limit.algorithm() {
        // The oldest entry and the newest one may be above the limit.
        LimitAlgorithm::SlidingLog(_) => limit.capacity() + 2,
        LimitAlgorithm::SlidingSlots(slots) => {
            let count = slots.log().window().as_nanos() / slots.log().slot();
            (count + 2).min(limit.capacity() + 2)
        }
        LimitAlgorithm::Concurrent(_) | LimitAlgorithm::Adaptive(_) => limit.capacity(),
        _ => 0,
    }
}

/// Returns the number of entries of a state.
fn entries(state: &State) -> u64 {
    match state {
        State::SlidingLog(log) | State::SlidingSlots(log) => log.entries().len() as u64,
        State::Leases(leases) => leases.leases().len() as u64,
        _ => 0,
    }
}

/// Generates limits with every kind of state that grows, of small amounts.
fn limits() -> impl Strategy<Value = Limit> {
    let kinds = select(vec![
        "{n}/10s log",
        "{n}/10s log count_denied",
        "{n}/10s log min_gap 100ms",
        "{n}/10s log min_gap 1us count_denied",
        "{n}/10s sliding slots 10",
        "{n}/10s sliding slots 2",
        "{n} concurrent lease 10s",
        "adaptive 1..{n} concurrent lease 10s",
    ]);
    (kinds, 1..70_u64).prop_map(|(kind, n)| limit(&kind.replace("{n}", &n.to_string())))
}

/// Generates operations: an action, a cost, and a step of the clock in milliseconds.
fn operations() -> impl Strategy<Value = Vec<(u8, u64, i64)>> {
    let cost = prop_oneof![8 => Just(1), 3 => 0..9_u64, 1 => 0..80_u64, 1 => Just(u64::MAX)];
    let step = prop_oneof![4 => 0..3_i64, 2 => 0..900_i64, 1 => -2_000..9_000_i64];
    prop::collection::vec((0..12_u8, cost, step), 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_state_grows_beyond_the_bound_of_its_limit(
        limit in limits(),
        operations in operations(),
    ) {
        let most = most_entries(&limit);
        let clock = ManualClock::at(Time::EPOCH + Span::from_secs(1_000_000));
        let store = MemoryStore::new().clock(&clock);
        let mut states = [None];
        for (lease, (action, cost, step)) in (1..).zip(operations) {
            let now = clock.now().as_nanos().saturating_add_signed(step * 1_000_000);
            clock.set(Time::from_nanos(now));
            let action = match action {
                0..=5 => Action::Take { max_wait: Span::ZERO },
                6 | 7 => Action::Take { max_wait: Span::from_secs(cost.min(60)) },
                8 | 9 => Action::Spend,
                10 => Action::Refund,
                _ => Action::Release { rtt: Span::from_millis(cost.min(900)), dropped: false },
            };
            let check = Check::new(CounterId::new(0), "ann", &limit, cost);
            let call = StoreCall { action, checks: &[Check { lease: lease / 2, ..check }] };
            state::run(call, &mut states, clock.now());
            let count = states[0].as_ref().map_or(0, entries);
            prop_assert!(count <= most, "{limit}: {count} entries, not {most}");
            block_on(store.run(call)).expect("the memory store never fails");
            // Buffers double when they are full, and a map of few entries takes less than 1 kB.
            let bytes = 1_024 + 32 * (most + 1).next_power_of_two().max(4);
            prop_assert!(store.memory() <= bytes, "{limit}: {} bytes", store.memory());
        }
    }
}

/// Every way to make a limit has the same bound.
#[test]
fn limits_that_cannot_be_stored_are_rejected() {
    let (most, more) = (MAX_ENTRIES, MAX_ENTRIES + 1);
    for (valid, invalid) in [
        (Limit::per_day(most).unwrap().log(), Limit::per_day(more).unwrap().log()),
        (Limit::concurrent(most), Limit::concurrent(more)),
        (Limit::adaptive(1, most), Limit::adaptive(1, more)),
    ] {
        let (valid, error) = (valid.unwrap(), invalid.unwrap_err());
        assert_eq!(most_entries(&valid) / most, 1);
        assert!(error.to_string().contains("at most 10000 and not 10001"), "{error}");
    }
    // A share of a limit is never larger than the limit.
    assert_eq!(limit("10k/d log").shared_by(3).capacity(), most / 3);
    let error = "1000000000000/d log min_gap 1us count_denied".parse::<Limit>().unwrap_err();
    assert_eq!(error.suggestion.as_deref(), Some("1000000000000/d sliding count_denied"));
    limit("1000000000000/d sliding slots 4000"); // A slot has one entry.
}
