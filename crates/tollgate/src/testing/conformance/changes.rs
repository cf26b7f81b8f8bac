//! Cases of limits that are replaced at run time: what a key has left is carried over.

use tollgate_core::{Carry, Span, Verdict};

use super::Harness;
use super::store_under_test::{StoreUnderTest, TestCounter, retry};
use crate::{Action, Check, PreviousLimit};

/// The amount left of 100 for a key that had 3 of 10, for each way to carry over.
const CARRIED: [(Carry, u64); 4] =
    [(Carry::AsIs, 3), (Carry::Proportional, 30), (Carry::Additive, 93), (Carry::Reset, 100)];

/// Returns the previous limit of a counter that replaces `old` now.
async fn previous<H: Harness>(old: &TestCounter<'_, '_, H>, carry: Carry) -> PreviousLimit {
    let until = old.store.now().await;
    PreviousLimit { counter: old.counter, limit: old.limit.clone(), carry, until, previous: None }
}

/// Runs `action` on the counter that came after `previous`.
async fn run<H: Harness>(
    new: &TestCounter<'_, '_, H>,
    previous: &PreviousLimit,
    action: Action,
    cost: u64,
) -> Verdict {
    let check = Check { previous: Some(previous), ..new.check("a", cost) };
    new.store.run(action, &[check]).await[0]
}

pub(super) async fn a_changed_limit_carries_over<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for kind in ["", "interval", "fixed", "fixed first_hit", "sliding", "sliding slots 6", "log"] {
        for (carry, left) in CARRIED {
            let what = format!("{kind} {carry:?}");
            let old = store.counter(&format!("10/{{P}} {kind}"));
            let new = store.counter(&format!("100/{{P}} {kind}"));
            old.take("a", 7).await;
            let previous = previous(&old, carry).await;
            let peeked = run(&new, &previous, Action::Peek, 0).await;
            assert_eq!((peeked.limit, peeked.remaining), (100, left), "{what}");
            let spent = run(&new, &previous, Action::Spend, 2).await;
            // The state is carried over once, not with every call.
            assert_eq!(spent.remaining, left - 2, "{what}");
            assert_eq!(run(&new, &previous, Action::Peek, 0).await.remaining, left - 2, "{what}");
            let unseen = Check { previous: Some(&previous), ..new.check("b", 0) };
            assert_eq!(store.run(Action::Peek, &[unseen]).await[0].remaining, 100, "{what}");
        }
    }
}

pub(super) async fn a_change_of_algorithm_carries_over<H: Harness>(store: &StoreUnderTest<'_, H>) {
    let kinds = ["", "burst 10 gcra", "fixed", "sliding", "sliding slots 6", "log"];
    for from in kinds {
        for to in kinds.map(|kind| kind.replace("10", "100")) {
            for (carry, left) in CARRIED {
                let old = store.counter(&format!("10/{{P}} {from}"));
                let new = store.counter(&format!("100/{{P}} {to}"));
                old.take("a", 7).await;
                let previous = previous(&old, carry).await;
                let peeked = run(&new, &previous, Action::Peek, 0).await;
                assert_eq!(peeked.remaining, left, "{from:?} to {to:?}, {carry:?}");
            }
        }
    }
    // A change to `unlimited`, and one from it.
    let (all, none) = (store.counter("10/{P}"), store.counter("unlimited"));
    all.take("a", 7).await;
    let replaced = previous(&all, Carry::AsIs).await;
    assert_eq!(run(&none, &replaced, Action::Peek, 0).await.remaining, u64::MAX);
    let replaced = previous(&none, Carry::AsIs).await;
    let new = store.counter("10/{P}");
    assert_eq!(run(&new, &replaced, Action::Peek, 0).await.remaining, 10);
}

pub(super) async fn a_key_is_carried_over_as_of_the_change<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    let (old, new) = (store.counter("10/{P}"), store.counter("100/{P}"));
    old.take("a", 10).await;
    store.advance(store.period_fraction(1, 10)).await;
    let previous = previous(&old, Carry::Proportional).await; // 1 of 10 is 10 of 100
    store.advance(store.period_fraction(1, 10)).await; // and 10 more came back since
    assert_eq!(run(&new, &previous, Action::Peek, 0).await.remaining, 20);
    // A key that is full again under the old limit begins full under the new one.
    let (old, new) = (store.counter("10/{P}"), store.counter("100/{P}"));
    old.take("a", 1).await;
    let previous = self::previous(&old, Carry::AsIs).await;
    store.advance(store.period_fraction(1, 10)).await;
    assert_eq!(run(&new, &previous, Action::Peek, 0).await.remaining, 100);
}

/// Checks a change by a node whose clock is ahead.
pub(super) async fn a_change_in_the_future_is_carried_over_as_of_now<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for kind in ["", "fixed", "sliding", "log"] {
        for (carry, left) in CARRIED {
            let old = store.counter(&format!("10/{{P}} {kind}"));
            let new = store.counter(&format!("100/{{P}} {kind}"));
            old.take("a", 7).await;
            let previous = previous(&old, carry).await;
            let previous = PreviousLimit { until: previous.until + store.period(), ..previous };
            let spent = run(&new, &previous, Action::Spend, 2).await;
            assert_eq!(spent.remaining, left - 2, "{kind} {carry:?}");
        }
    }
}

pub(super) async fn a_key_unused_for_two_changes_is_carried_over<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for kind in ["", "fixed", "log"] {
        let counter = |n: u64| store.counter(&format!("{n}/{{P}} {kind}"));
        let (first, second, third) = (counter(10), counter(20), counter(80));
        first.take("a", 6).await;
        let older = previous(&first, Carry::AsIs).await;
        let newer = previous(&second, Carry::Proportional).await;
        let newer = PreviousLimit { previous: Some(Box::new(older)), ..newer };
        // 4 of 10 are 4 of 20 are 16 of 80.
        let taken = run(&third, &newer, Action::Take { max_wait: Default::default() }, 6).await;
        assert_eq!((taken.allowed, taken.remaining), (true, 10), "{kind}");
        assert_eq!(run(&third, &newer, Action::Peek, 0).await.remaining, 10, "{kind}");
        // The old counter no longer has the state that was carried over.
        assert_eq!(first.peek("a").await.remaining, 10, "{kind}");
    }
}

pub(super) async fn leases_stay_valid_when_the_limit_changes<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    let old = store.counter("3 concurrent lease {P}");
    let new = store.counter("2 concurrent lease {P}");
    let leased = [old.check("a", 1), old.check("a", 1), old.check("a", 1)];
    for check in leased {
        assert!(store.take(&[check]).await[0].allowed);
    }
    let previous = previous(&old, Carry::Reset).await;
    for (check, left) in leased.iter().zip([0, 1, 2]) {
        let denied = run(&new, &previous, Action::Peek, 0).await;
        assert_eq!(denied.remaining, u64::saturating_sub(left, 1), "{denied:?}");
        let release = Check { previous: Some(&previous), lease: check.lease, ..new.check("a", 1) };
        let done = Action::Release { rtt: store.period_fraction(1, 60), dropped: false };
        assert_eq!(store.run(done, &[release]).await[0].remaining, left);
    }
}

pub(super) async fn a_counter_with_varying_limits_is_one_arrival_time<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    let counter = store.counter("1/{P}").counter;
    let limit = |tokens: u64, burst: u64| {
        store.limit(&format!("{tokens}/{{P}} burst {burst}")).with_whole_nanoseconds()
    };
    // Bursts of a period, of a tenth of it, and of about a period in odd nanoseconds.
    let (slow, small, odd) = (limit(10, 10), limit(100, 10), limit(7, 7));
    let check = |limit, cost| Check { limit_varies: true, ..Check::new(counter, "a", limit, cost) };
    let passes = async |limit, cost, remaining| {
        let verdict = store.take(&[check(limit, cost)]).await[0];
        assert!(verdict.allowed, "{limit}: {verdict:?}");
        assert_eq!(verdict.remaining, remaining, "{limit}: {verdict:?}");
    };
    passes(&slow, 4, 6).await;
    // The arrival time is four tenths ahead, and the small burst tolerates one.
    for (cost, hundredths) in [(1, 31), (0, 30)] {
        let denied = store.take(&[check(&small, cost)]).await[0];
        assert!(!denied.allowed, "{denied:?}");
        assert_eq!((denied.limit, denied.remaining), (10, 0));
        let slack = Span::from_nanos(store.period().as_nanos() / 200);
        let (at_most, waits) = (store.period_fraction(hundredths, 100), retry(denied));
        assert!(waits <= at_most + store.resolution() && waits + slack > at_most, "{waits}");
    }
    passes(&slow, 1, 5).await;
    passes(&odd, 1, 2).await;
    store.advance(store.period_fraction(6, 10)).await;
    passes(&small, 1, 4).await;
    passes(&odd, 1, 5).await;
    store.run(Action::Reset, &[check(&small, 0)]).await;
    passes(&odd, 7, 0).await;
}
