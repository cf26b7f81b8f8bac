//! Several checks in one request: all of them or none.

use tollgate_core::{Retry, Span};

use super::Harness;
use super::algorithms::RATES;
use super::places::PLACES;
use super::subject::{AGES, Subject};
use crate::{Action, Check};

pub(super) async fn verdicts_come_in_the_order_asked<H: Harness>(subject: &Subject<'_, H>) {
    let texts = ["9/{P} log", "unlimited", "4/{P}", "7/{P} fixed", "2 concurrent", "5/{P} sliding"];
    let counters = texts.map(|text| subject.counter(text));
    let limits = [9, u64::MAX, 4, 7, 2, 5];
    let checks = counters.each_ref().map(|counter| counter.check("a", 1));
    let verdicts = subject.take(&checks).await;
    for (verdict, limit) in verdicts.iter().zip(limits) {
        let left = if limit == u64::MAX { limit } else { limit - 1 };
        assert_eq!((verdict.limit, verdict.remaining), (limit, left));
    }
    let mut backwards = counters.each_ref().map(|counter| counter.check("a", 1));
    backwards.reverse();
    let verdicts = subject.run(Action::Peek, &backwards).await;
    let peeked: Vec<u64> = verdicts.iter().rev().map(|verdict| verdict.limit).collect();
    assert_eq!(peeked, limits);
}

pub(super) async fn one_denial_charges_nobody<H: Harness>(subject: &Subject<'_, H>) {
    let [first, second, third] = ["5/{P}", "6/{P}", "2/{P}"].map(|text| subject.counter(text));
    let checks = || [first.check("a", 1), second.check("a", 1), third.check("a", 1)];
    for left in [1, 0] {
        let verdicts = subject.take(&checks()).await;
        assert!(verdicts.iter().all(|verdict| verdict.allowed), "{verdicts:?}");
        assert_eq!(verdicts[2].remaining, left);
    }
    for _ in 0..3 {
        let verdicts = subject.take(&checks()).await;
        // Each says how it stands; the first two had room.
        let stand = verdicts.iter().map(|verdict| (verdict.allowed, verdict.remaining));
        assert!(stand.eq([(true, 3), (true, 4), (false, 0)]), "{verdicts:?}");
        subject.same_span("retry", super::subject::retry(verdicts[2]), subject.share(1, 2));
    }
    // Where one can never pass, none is charged either.
    let verdicts = subject.take(&[first.check("a", 1), second.check("a", 7)]).await;
    assert_eq!((verdicts[0].remaining, verdicts[1].retry), (3, Retry::Never));
    assert_eq!(first.peek("a").await.remaining, 3);
}

/// The first of them takes a place in line, which it must not keep when the second denies.
pub(super) async fn one_denial_leaves_no_reservation<H: Harness>(subject: &Subject<'_, H>) {
    for (text, _) in RATES {
        let (counter, gate) = (subject.counter(text), subject.counter("1/{P} fixed count_denied"));
        counter.exhaust("a").await;
        gate.exhaust("a").await;
        let before = counter.peek("a").await;
        subject
            .run(Action::Take { max_wait: AGES }, &[counter.check("a", 1), gate.check("a", 1)])
            .await;
        if !counter.says("count_denied") {
            subject.same(text, counter.peek("a").await, before);
        }
    }
}

/// One is ready to wait, the other must pass at once: it does, or nobody is charged.
pub(super) async fn each_check_has_its_own_patience<H: Harness>(subject: &Subject<'_, H>) {
    for (text, at_once) in RATES {
        let (patient, hasty) = (subject.counter("1/{P}"), subject.counter(text));
        if hasty.says("count_denied") {
            continue;
        }
        let checks =
            || [patient.check("a", 1), Check { patience: Span::ZERO, ..hasty.check("a", 1) }];
        for place in 0..*at_once {
            let verdicts = subject.run(Action::Take { max_wait: AGES }, &checks()).await;
            assert!(verdicts.iter().all(|verdict| verdict.allowed), "{text}: {verdicts:?}");
            subject.same_span(text, verdicts[0].wait, subject.period().times(place));
        }
        let before = patient.peek("a").await;
        for _ in 0..2 {
            let mut checks = checks();
            checks.reverse();
            let verdicts = subject.run(Action::Take { max_wait: AGES }, &checks).await;
            assert_eq!([0, 1].map(|i| verdicts[i].allowed), [false, true], "{text}");
            subject.same(text, patient.peek("a").await, before);
        }
    }
}

/// Every kind beside one that denies, on either side of it.
pub(super) async fn every_mix_of_kinds_is_all_or_none<H: Harness>(subject: &Subject<'_, H>) {
    for (text, at_once) in RATES.iter().chain(PLACES) {
        for max_wait in [Span::ZERO, AGES] {
            let (counter, gate) =
                (subject.counter(text), subject.counter("1/{P} log count_denied"));
            gate.exhaust("a").await;
            let before = counter.peek("a").await;
            for cost in [0, 1, 2] {
                let mut checks = [counter.check("a", cost), gate.check("a", 1)];
                for _ in 0..2 {
                    let verdicts = subject.run(Action::Take { max_wait }, &checks).await;
                    assert!(!verdicts.iter().all(|verdict| verdict.allowed), "{text}");
                    checks.reverse();
                }
            }
            if !counter.says("count_denied") {
                subject.same(text, counter.peek("a").await, before);
                assert_eq!(counter.exhaust("a").await.0, *at_once, "{text}");
            }
        }
    }
}

/// A request may name one counter twice, as when a user is their own tenant.
pub(super) async fn the_same_check_twice_is_charged_twice<H: Harness>(subject: &Subject<'_, H>) {
    for (text, at_once) in RATES.iter().chain(PLACES) {
        let counter = subject.counter(text);
        let pair = || [counter.check("a", 1), counter.check("a", 1)];
        let verdicts = subject.take(&pair()).await;
        let allowed = verdicts.iter().all(|verdict| verdict.allowed);
        assert_eq!(allowed, *at_once >= 2, "{text}: {verdicts:?}");
        if counter.says("count_denied") {
            continue;
        }
        let left = if allowed { at_once - 2 } else { *at_once };
        // One too many together: none of them.
        let many: Vec<_> = (0..=left).map(|_| counter.check("a", 1)).collect();
        let verdicts = subject.take(&many).await;
        let denied = verdicts.iter().filter(|verdict| !verdict.allowed).count();
        assert_eq!(denied, 1, "{text}: only the last is too many: {verdicts:?}");
        assert_eq!(counter.exhaust("a").await.0, left, "{text}");
        if PLACES.iter().all(|(places, _)| places != text) {
            subject.run(Action::Refund, &pair()).await;
            assert!(
                subject.take(&pair()).await.iter().all(|verdict| verdict.allowed) || *at_once < 2,
                "{text}"
            );
        }
    }
    let counter = subject.counter("9/{P}");
    let twice = [counter.check("a", 2), counter.check("b", 1), counter.check("a", 3)];
    let left =
        subject.take(&twice).await.iter().map(|verdict| verdict.remaining).collect::<Vec<_>>();
    assert_eq!(left, [7, 8, 4]);
    subject.run(Action::Spend, &twice).await;
    assert!(!counter.peek("a").await.allowed);
    assert_eq!(counter.peek("b").await.remaining, 7);
}

pub(super) async fn no_check_at_all_is_fine<H: Harness>(subject: &Subject<'_, H>) {
    for action in [Action::Take { max_wait: Span::ZERO }, Action::Peek, Action::Reset] {
        assert!(subject.run(action, &[]).await.is_empty());
    }
}
