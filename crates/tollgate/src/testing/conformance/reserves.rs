//! Requests that must leave something for others.

use tollgate_core::{Retry, Span, Verdict};

use super::Harness;
use super::algorithms::RATES;
use super::subject::{AGES, Counter, Subject, retry};
use crate::{Action, Check, Reserve};

/// Takes one, if that leaves the reserve.
async fn take<H: Harness>(counter: &Counter<'_, '_, H>, key: &str, reserve: Reserve) -> Verdict {
    let check = Check { reserve, ..counter.check(key, 1) };
    counter.subject.take(&[check]).await[0]
}

/// Whether taking one by one stops where nothing is left: not where gaps or debts do.
fn is_plain<H: Harness>(counter: &Counter<'_, '_, H>) -> bool {
    let stops_elsewhere = ["min_gap", "initial", "count_denied"];
    !counter.pays_later() && !stops_elsewhere.iter().any(|word| counter.says(word))
}

pub(super) async fn what_must_be_left_is_left<H: Harness>(subject: &Subject<'_, H>) {
    for (text, at_once) in RATES {
        let counter = subject.counter(text);
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

/// At that span it passes, and not any earlier.
pub(super) async fn who_must_leave_something_passes_at_retry_after<H: Harness>(
    subject: &Subject<'_, H>,
) {
    for (text, _) in RATES {
        let counter = subject.counter(text);
        for reserve in [Reserve::Amount(1), Reserve::Percent(40), Reserve::Amount(u64::MAX)] {
            let forgets = counter.says("initial") && reserve == Reserve::Amount(u64::MAX);
            if counter.says("count_denied") || forgets {
                // A refusal that is spent moves the moment away; a key that has everything back
                // begins anew, with less.
                continue;
            }
            for early in [true, false] {
                let key = format!("{early} {reserve:?}");
                counter.exhaust(&*key).await;
                let denied = take(&counter, &key, reserve).await;
                assert!(!denied.allowed, "{text} leaving {reserve:?}");
                let wait = retry(denied);
                let short = if early { subject.resolution() } else { Span::ZERO };
                subject.advance(wait - short).await;
                let verdict = take(&counter, &key, reserve).await;
                assert_eq!(verdict.allowed, !early, "{text} leaving {reserve:?}: {wait}");
            }
        }
    }
}

pub(super) async fn a_reserve_is_not_charged<H: Harness>(subject: &Subject<'_, H>) {
    for (text, _) in RATES {
        let counter = subject.counter(text);
        let (reserved, plain) =
            (take(&counter, "a", Reserve::Amount(1)).await, counter.take("b", 1).await);
        if reserved.allowed {
            subject.same(text, reserved, plain);
        } else {
            assert!(counter.says("initial 0"), "{text}: {reserved:?}");
        }
        subject.same(text, counter.peek("a").await, counter.peek("b").await);
        let check = Check { reserve: Reserve::Percent(100), ..counter.check("a", 1) };
        let tried = subject.run(Action::Try { max_wait: Span::ZERO }, &[check]).await[0];
        assert_eq!(tried.allowed, counter.says("warmup") && tried.retry == Retry::Now, "{text}");
        subject.same(text, counter.peek("a").await, counter.peek("b").await);
    }
}

/// However much is to be left, and never what is too much by itself.
pub(super) async fn a_full_limit_lets_anything_it_can_hold_pass<H: Harness>(
    subject: &Subject<'_, H>,
) {
    for (text, _) in RATES {
        let counter = subject.counter(text);
        if counter.says("initial") {
            continue; // A new key has not all of it.
        }
        let capacity = counter.limit.capacity();
        for (key, cost) in [("a", 1), ("b", 2.min(capacity)), ("c", capacity)] {
            let reserve = Reserve::Amount(u64::MAX);
            let check = Check { reserve, ..counter.check(key, cost) };
            let verdict = subject.take(&[check]).await[0];
            assert!(verdict.allowed, "{text}: {cost} of {capacity}: {verdict:?}");
        }
        if counter.pays_later() {
            continue;
        }
        let check = Check { reserve: Reserve::Percent(50), ..counter.check("d", capacity + 1) };
        let verdict = subject.take(&[check]).await[0];
        assert_eq!((verdict.allowed, verdict.retry), (false, Retry::Never), "{text}");
    }
}

pub(super) async fn who_must_leave_something_never_waits<H: Harness>(subject: &Subject<'_, H>) {
    for (text, _) in RATES {
        let counter = subject.counter(text);
        if !is_plain(&counter) {
            continue;
        }
        counter.exhaust("a").await;
        let check = Check { reserve: Reserve::Amount(1), ..counter.check("a", 1) };
        let before = counter.peek("a").await;
        let denied = subject.run(Action::Take { max_wait: AGES }, &[check]).await[0];
        assert!(!denied.allowed, "{text}: {denied:?}");
        subject.same(text, counter.peek("a").await, before);
    }
}

pub(super) async fn places_stay_free_for_others<H: Harness>(subject: &Subject<'_, H>) {
    let counter = subject.counter("5 concurrent lease {P}");
    let mut holders = vec![];
    loop {
        let check = Check { reserve: Reserve::Percent(40), ..counter.check("a", 1) };
        let verdict = subject.take(&[check]).await[0];
        if !verdict.allowed {
            subject.same_span("until the first runs out", retry(verdict), subject.period());
            assert_eq!((verdict.limit, verdict.remaining), (5, 2));
            break;
        }
        holders.push(check);
    }
    assert_eq!(holders.len(), 3);
    assert_eq!(counter.exhaust("a").await.0, 2);
    // One that leaves makes room for those who leave nothing, before it does for others.
    let done = Action::Release { rtt: Span::ZERO, dropped: false };
    subject.run(done, &holders[..1]).await;
    assert!(!take(&counter, "a", Reserve::Percent(40)).await.allowed);
    assert!(counter.take("a", 1).await.allowed);
}

/// A node learns from what it sends, and so does its share.
pub(super) async fn a_share_of_an_adaptive_limit_moves_with_it<H: Harness>(
    subject: &Subject<'_, H>,
) {
    let counter = subject.counter("adaptive 2..40 concurrent lease {P}");
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

pub(super) async fn a_reserve_in_a_mix_is_all_or_none<H: Harness>(subject: &Subject<'_, H>) {
    let (kept, free) = (subject.counter("5/{P}"), subject.counter("9/{P} fixed"));
    kept.take("a", 2).await;
    let checks = |reserve| {
        let kept = Check { reserve, ..kept.check("a", 1) };
        [free.check("a", 1), kept, free.check("b", 1)]
    };
    let refused = subject.take(&checks(Reserve::Amount(3))).await;
    assert_eq!([0, 1, 2].map(|i| refused[i].allowed), [true, false, true]);
    assert_eq!([0, 1, 2].map(|i| refused[i].remaining), [9, 3, 9]);
    let passed = subject.take(&checks(Reserve::Amount(2))).await;
    assert_eq!([0, 1, 2].map(|i| passed[i].remaining), [8, 2, 8]);
}
