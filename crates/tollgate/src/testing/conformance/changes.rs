//! Limits that are replaced while running: what becomes of what a key has left.

use tollgate_core::{Carry, Verdict};

use super::Harness;
use super::subject::{Counter, Subject};
use crate::{Action, Check, Former};

/// What is left of 100 for a key that had 3 of 10.
const CARRIED: [(Carry, u64); 4] =
    [(Carry::AsIs, 3), (Carry::Proportional, 30), (Carry::Additive, 93), (Carry::Reset, 100)];

/// `old` was replaced just now.
async fn former<H: Harness>(old: &Counter<'_, '_, H>, carry: Carry) -> Former {
    let until = old.subject.now().await;
    Former { bucket: old.bucket, limit: old.limit.clone(), carry, until, former: None }
}

/// Runs `action` on the counter that came after `former`.
async fn run<H: Harness>(
    new: &Counter<'_, '_, H>,
    former: &Former,
    action: Action,
    cost: u64,
) -> Verdict {
    let check = Check { former: Some(former), ..new.check("a", cost) };
    new.subject.run(action, &[check]).await[0]
}

pub(super) async fn a_changed_limit_carries_over<H: Harness>(subject: &Subject<'_, H>) {
    for kind in ["", "interval", "fixed", "fixed first_hit", "sliding", "sliding slots 6", "log"] {
        for (carry, left) in CARRIED {
            let what = format!("{kind} {carry:?}");
            let old = subject.counter(&format!("10/{{P}} {kind}"));
            let new = subject.counter(&format!("100/{{P}} {kind}"));
            old.take("a", 7).await;
            let former = former(&old, carry).await;
            let peeked = run(&new, &former, Action::Peek, 0).await;
            assert_eq!((peeked.limit, peeked.remaining), (100, left), "{what}");
            let spent = run(&new, &former, Action::Spend, 2).await;
            // It is carried over once, not every time.
            assert_eq!(spent.remaining, left - 2, "{what}");
            assert_eq!(run(&new, &former, Action::Peek, 0).await.remaining, left - 2, "{what}");
            let unseen = Check { former: Some(&former), ..new.check("b", 0) };
            assert_eq!(subject.run(Action::Peek, &[unseen]).await[0].remaining, 100, "{what}");
        }
    }
}

pub(super) async fn a_change_of_kind_carries_over<H: Harness>(subject: &Subject<'_, H>) {
    let kinds = ["", "burst 10 gcra", "fixed", "sliding", "sliding slots 6", "log"];
    for from in kinds {
        for to in kinds.map(|kind| kind.replace("10", "100")) {
            for (carry, left) in CARRIED {
                let old = subject.counter(&format!("10/{{P}} {from}"));
                let new = subject.counter(&format!("100/{{P}} {to}"));
                old.take("a", 7).await;
                let former = former(&old, carry).await;
                let peeked = run(&new, &former, Action::Peek, 0).await;
                assert_eq!(peeked.remaining, left, "{from:?} to {to:?}, {carry:?}");
            }
        }
    }
    // From no limit, and to no limit.
    let (all, none) = (subject.counter("10/{P}"), subject.counter("unlimited"));
    all.take("a", 7).await;
    let replaced = former(&all, Carry::AsIs).await;
    assert_eq!(run(&none, &replaced, Action::Peek, 0).await.remaining, u64::MAX);
    let replaced = former(&none, Carry::AsIs).await;
    let new = subject.counter("10/{P}");
    assert_eq!(run(&new, &replaced, Action::Peek, 0).await.remaining, 10);
}

pub(super) async fn a_key_is_carried_over_as_of_the_change<H: Harness>(subject: &Subject<'_, H>) {
    let (old, new) = (subject.counter("10/{P}"), subject.counter("100/{P}"));
    old.take("a", 10).await;
    subject.advance(subject.share(1, 10)).await;
    let former = former(&old, Carry::Proportional).await; // 1 of 10 is 10 of 100
    subject.advance(subject.share(1, 10)).await; // and 10 more came back since
    assert_eq!(run(&new, &former, Action::Peek, 0).await.remaining, 20);
    // Whoever is full again under the old limit begins full under the new one.
    let (old, new) = (subject.counter("10/{P}"), subject.counter("100/{P}"));
    old.take("a", 1).await;
    let former = self::former(&old, Carry::AsIs).await;
    subject.advance(subject.share(1, 10)).await;
    assert_eq!(run(&new, &former, Action::Peek, 0).await.remaining, 100);
}

/// As when the clock of whoever made the change is ahead.
pub(super) async fn a_change_yet_to_come_is_carried_over_as_of_now<H: Harness>(
    subject: &Subject<'_, H>,
) {
    for kind in ["", "fixed", "sliding", "log"] {
        for (carry, left) in CARRIED {
            let old = subject.counter(&format!("10/{{P}} {kind}"));
            let new = subject.counter(&format!("100/{{P}} {kind}"));
            old.take("a", 7).await;
            let former = former(&old, carry).await;
            let former = Former { until: former.until + subject.period(), ..former };
            let spent = run(&new, &former, Action::Spend, 2).await;
            assert_eq!(spent.remaining, left - 2, "{kind} {carry:?}");
        }
    }
}

pub(super) async fn a_key_unseen_for_two_changes_is_found<H: Harness>(subject: &Subject<'_, H>) {
    for kind in ["", "fixed", "log"] {
        let counter = |n: u64| subject.counter(&format!("{n}/{{P}} {kind}"));
        let (first, second, third) = (counter(10), counter(20), counter(80));
        first.take("a", 6).await;
        let older = former(&first, Carry::AsIs).await;
        let newer = former(&second, Carry::Proportional).await;
        let newer = Former { former: Some(Box::new(older)), ..newer };
        // 4 of 10 are 4 of 20 are 16 of 80.
        let taken = run(&third, &newer, Action::Take { max_wait: Default::default() }, 6).await;
        assert_eq!((taken.allowed, taken.remaining), (true, 10), "{kind}");
        assert_eq!(run(&third, &newer, Action::Peek, 0).await.remaining, 10, "{kind}");
        // What was carried over is gone from where it was.
        assert_eq!(first.peek("a").await.remaining, 10, "{kind}");
    }
}

pub(super) async fn holders_stay_in_flight_when_the_limit_changes<H: Harness>(
    subject: &Subject<'_, H>,
) {
    let old = subject.counter("3 concurrent lease {P}");
    let new = subject.counter("2 concurrent lease {P}");
    let held = [old.check("a", 1), old.check("a", 1), old.check("a", 1)];
    for check in held {
        assert!(subject.take(&[check]).await[0].allowed);
    }
    let former = former(&old, Carry::Reset).await;
    for (check, left) in held.iter().zip([0, 1, 2]) {
        let denied = run(&new, &former, Action::Peek, 0).await;
        assert_eq!(denied.remaining, u64::saturating_sub(left, 1), "{denied:?}");
        let release = Check { former: Some(&former), lease: check.lease, ..new.check("a", 1) };
        let done = Action::Release { rtt: subject.share(1, 60), dropped: false };
        assert_eq!(subject.run(done, &[release]).await[0].remaining, left);
    }
}
