//! Limits on how many are at work at once.

use tollgate_core::{Retry, Span};

use super::Harness;
use super::subject::{Counter, Subject, retry};
use crate::{Action, Check};

/// Every kind of limit on concurrency, and how many places it has at first.
pub(super) const PLACES: &[(&str, u64)] =
    &[("3 concurrent lease {P}", 3), ("adaptive 3..9 concurrent lease {P}", 3)];

const DONE: Action = Action::Release { rtt: Span::from_millis(5), dropped: false };
const DROPPED: Action = Action::Release { rtt: Span::from_millis(5), dropped: true };

/// `lease` is done.
async fn end<H: Harness>(counter: &Counter<'_, '_, H>, how: Action, lease: u64) {
    let check = Check { lease, ..counter.check("a", 0) };
    counter.subject.run(how, &[check]).await;
}

/// Takes a place and tells its lease.
async fn begin<H: Harness>(counter: &Counter<'_, '_, H>) -> u64 {
    let check = counter.check("a", 1);
    let verdict = counter.subject.take(&[check]).await[0];
    assert!(verdict.allowed, "{}: {verdict:?}", counter.limit);
    check.lease
}

pub(super) async fn as_many_are_in_flight_as_allowed<H: Harness>(subject: &Subject<'_, H>) {
    for (text, places) in PLACES {
        let counter = subject.counter(text);
        let never = counter.take("a", counter.limit.capacity() + 1).await;
        assert_eq!((never.allowed, never.retry), (false, Retry::Never), "{text}");
        let (passed, denied) = counter.exhaust("a").await;
        assert_eq!((passed, denied.remaining), (*places, 0), "{text}");
        subject.same_span(text, retry(denied), subject.period());
        subject.same(text, counter.peek("a").await, counter.peek("a").await);
        assert!(counter.take("a", 0).await.allowed, "{text}: asks for nothing");
        let reset = counter.run(Action::Reset, "a", 0).await;
        subject.same(text, reset, counter.peek("new").await);
        assert!(counter.take("a", *places).await.allowed, "{text}");
    }
}

pub(super) async fn a_lease_runs_out<H: Harness>(subject: &Subject<'_, H>) {
    for (text, places) in PLACES {
        let counter = subject.counter(text);
        counter.take("a", 1).await;
        subject.advance(subject.share(1, 2)).await;
        counter.take("a", places - 1).await;
        let denied = counter.take("a", 1).await;
        subject.same_span(text, retry(denied), subject.share(1, 2));
        subject.same_span(text, denied.reset_after, subject.period());
        subject.advance(retry(denied) - subject.resolution()).await;
        assert!(!counter.take("a", 1).await.allowed, "{text}: before the first ran out");
        subject.advance(subject.resolution()).await;
        assert!(counter.take("a", 1).await.allowed, "{text}: the first ran out");
        assert!(!counter.take("a", 1).await.allowed, "{text}: the others did not");
    }
}

pub(super) async fn a_renewed_lease_starts_anew<H: Harness>(subject: &Subject<'_, H>) {
    for (text, places) in PLACES {
        let counter = subject.counter(text);
        let renewed = begin(&counter).await;
        let left_alone = begin(&counter).await;
        subject.advance(subject.share(1, 2)).await;
        end(&counter, Action::Renew, renewed).await;
        subject.same_span(text, counter.peek("a").await.reset_after, subject.period());
        subject.advance(subject.share(1, 2)).await;
        assert_eq!(counter.peek("a").await.remaining, places - 1, "{text}: one ran out");
        end(&counter, Action::Renew, left_alone).await;
        end(&counter, Action::Renew, 1 << 40).await;
        assert_eq!(counter.peek("a").await.remaining, places - 1, "{text}: too late is too late");
        subject.advance(subject.share(1, 2)).await;
        assert_eq!(
            counter.peek("a").await.remaining,
            *places,
            "{text}: unless it is renewed again"
        );
    }
    let counter = subject.counter("3/{P}");
    counter.take("a", 2).await;
    end(&counter, Action::Renew, 1).await;
    assert_eq!(counter.peek("a").await.remaining, 1, "a rate has no leases");
}

pub(super) async fn a_release_frees_exactly_one<H: Harness>(subject: &Subject<'_, H>) {
    for (text, places) in PLACES {
        for how in [DONE, Action::Refund] {
            let counter = subject.counter(text);
            let mut held = Vec::new();
            for _ in 0..*places {
                held.push(begin(&counter).await);
            }
            assert!(!counter.take("a", 1).await.allowed, "{text}");
            let check = Check { lease: held[1], ..counter.check("a", 1) };
            subject.run(how, &[check]).await;
            assert_eq!(counter.peek("a").await.remaining, 1, "{text}");
            // Once more changes nothing.
            subject.run(how, &[check]).await;
            assert_eq!(counter.peek("a").await.remaining, 1, "{text}");
            assert_eq!(counter.exhaust("a").await.0, 1, "{text}");
        }
    }
}

pub(super) async fn a_late_release_frees_nobody_else<H: Harness>(subject: &Subject<'_, H>) {
    for (text, places) in PLACES {
        let counter = subject.counter(text);
        let late = begin(&counter).await;
        subject.advance(subject.period()).await;
        assert_eq!(counter.exhaust("a").await.0, *places, "{text}");
        end(&counter, DONE, late).await;
        end(&counter, DONE, 1 << 40).await;
        assert!(!counter.take("a", 1).await.allowed, "{text}");
    }
}

pub(super) async fn a_lease_taken_twice_counts_once<H: Harness>(subject: &Subject<'_, H>) {
    for (text, places) in PLACES {
        let counter = subject.counter(text);
        let check = counter.check("a", 1);
        for _ in 0..5 {
            assert_eq!(subject.take(&[check]).await[0].remaining, places - 1, "{text}");
        }
        // A denied second attempt leaves the first in place.
        let denied = subject.take(&[Check { cost: places + 1, ..check }]).await[0];
        assert!(!denied.allowed, "{text}");
        assert_eq!(counter.peek("a").await.remaining, places - 1, "{text}");
    }
}

/// What the controller does is its own affair; that it is told is the store's.
pub(super) async fn an_adaptive_limit_learns<H: Harness>(subject: &Subject<'_, H>) {
    let counter = subject.counter("adaptive 3..9 concurrent lease {P}");
    let second = Span::from_secs(2);
    let mut grown = 0;
    for _ in 0..8 {
        grown = counter.peek("a").await.limit.max(grown);
        let mut held = Vec::new();
        for _ in 0..12 {
            held.clear();
            for _ in 0..counter.peek("a").await.remaining {
                held.push(begin(&counter).await);
            }
            for lease in &held {
                end(&counter, DONE, *lease).await;
            }
        }
        subject.advance(second).await;
    }
    assert!(grown > 3, "busy, and latency steady: the limit grows, but it is {grown}");
    assert_eq!(counter.peek("b").await.limit, 3, "each key learns for itself");
    for _ in 0..8 {
        let lease = begin(&counter).await;
        end(&counter, DROPPED, lease).await;
        subject.advance(second).await;
    }
    let shrunk = counter.peek("a").await.limit;
    assert!(shrunk < grown, "drops bring it down, but it is {shrunk}");
}
