//! A store under test, and one limit on it, with the words the cases are told in.

use std::cell::Cell;
use std::time::Duration;

use tollgate_core::{Retry, Span, Time, Verdict};

use super::Harness;
use crate::{Action, Bucket, Call, Check, Key, Limit, Store, Verdicts};

/// More than any case waits for: two years.
pub(super) const AGES: Span = Span::from_secs(2 * 366 * 86_400);

/// A new store, and the harness that moves its time.
pub(super) struct Subject<'h, H: Harness> {
    harness: &'h H,
    store: H::Store,
    buckets: Cell<u64>,
    leases: Cell<u64>,
}

/// A limit, in a bucket of its own.
pub(super) struct Counter<'s, 'h, H: Harness> {
    pub(super) subject: &'s Subject<'h, H>,
    pub(super) limit: Limit,
    pub(super) bucket: Bucket,
}

impl<'h, H: Harness> Subject<'h, H> {
    pub(super) async fn new(harness: &'h H) -> Subject<'h, H> {
        let store = harness.store().await;
        Subject { harness, store, buckets: Cell::new(0), leases: Cell::new(0) }
    }

    pub(super) async fn advance(&self, by: Span) {
        self.harness.advance(by.into()).await;
    }

    pub(super) async fn now(&self) -> Time {
        self.harness.now().await
    }

    pub(super) fn resolution(&self) -> Span {
        self.harness.resolution()
    }

    /// The period of the limits tested.
    pub(super) fn period(&self) -> Span {
        self.harness.period().into()
    }

    /// A part of the period.
    pub(super) fn share(&self, n: u64, of: u64) -> Span {
        Span::from_nanos(self.period().as_nanos() * n / of)
    }

    /// The limit of that text, in which `{P}` stands for the period and `{G}` for a tenth of it.
    pub(super) fn limit(&self, text: &str) -> Limit {
        let millis = |period: Duration| format!("{}ms", period.as_millis());
        let text = text
            .replace("{P}", &millis(self.harness.period()))
            .replace("{G}", &millis(self.harness.period() / 10));
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// A number not handed out before.
    pub(super) fn lease(&self) -> u64 {
        self.leases.set(self.leases.get() + 1);
        self.leases.get()
    }

    pub(super) fn counter(&self, text: &str) -> Counter<'_, 'h, H> {
        self.buckets.set(self.buckets.get() + 1);
        let bucket = Bucket::new(self.buckets.get());
        Counter { subject: self, limit: self.limit(text), bucket }
    }

    pub(super) async fn run(&self, action: Action, checks: &[Check<'_>]) -> Verdicts {
        let answer = self.store.run(Call { action, checks }).await;
        let verdicts = answer.unwrap_or_else(|error| panic!("the store is in trouble: {error}"));
        assert_eq!(verdicts.len(), checks.len(), "one verdict for each check");
        verdicts
    }

    pub(super) async fn take(&self, checks: &[Check<'_>]) -> Verdicts {
        self.run(Action::Take { max_wait: Span::ZERO }, checks).await
    }

    /// Asserts that two spans are the same, as far as the store tells them apart.
    pub(super) fn same_span(&self, what: &str, is: Span, should_be: Span) {
        let apart = is.as_nanos().abs_diff(should_be.as_nanos());
        assert!(apart < self.resolution().as_nanos(), "{what}: is {is}, should be {should_be}");
    }

    /// Asserts that two verdicts are the same, as far as the store tells spans apart.
    pub(super) fn same(&self, what: &str, is: Verdict, should_be: Verdict) {
        let spans = |v: Verdict| match v.retry {
            Retry::Now => [Some(v.reset_after), Some(v.wait), Some(Span::ZERO)],
            Retry::After(span) => [Some(v.reset_after), Some(v.wait), Some(span)],
            Retry::Never => [Some(v.reset_after), Some(v.wait), None],
        };
        let alike = spans(is).into_iter().zip(spans(should_be)).all(|pair| match pair {
            (Some(a), Some(b)) => {
                a.as_nanos().abs_diff(b.as_nanos()) < self.resolution().as_nanos()
            }
            (a, b) => a == b,
        });
        let alike = alike
            && (is.allowed, is.limit, is.remaining)
                == (should_be.allowed, should_be.limit, should_be.remaining)
            && matches!(is.retry, Retry::Now) == matches!(should_be.retry, Retry::Now);
        assert!(alike, "{what}:\n       is {is:?},\nshould be {should_be:?}");
    }
}

impl<H: Harness> Counter<'_, '_, H> {
    /// A check of `cost`, by a holder not seen before.
    pub(super) fn check<'a>(&'a self, key: impl Into<Key<'a>>, cost: u64) -> Check<'a> {
        let lease = self.subject.lease();
        Check { lease, ..Check::new(self.bucket, key, &self.limit, cost) }
    }

    pub(super) async fn run<'k>(
        &self,
        action: Action,
        key: impl Into<Key<'k>>,
        cost: u64,
    ) -> Verdict {
        let key: Key<'_> = key.into();
        let check = self.check(key, cost);
        self.subject.run(action, &[check]).await[0]
    }

    pub(super) async fn take<'k>(&self, key: impl Into<Key<'k>>, cost: u64) -> Verdict {
        self.reserve(key, cost, Span::ZERO).await
    }

    pub(super) async fn reserve<'k>(
        &self,
        key: impl Into<Key<'k>>,
        cost: u64,
        max_wait: Span,
    ) -> Verdict {
        self.run(Action::Take { max_wait }, key, cost).await
    }

    pub(super) async fn peek<'k>(&self, key: impl Into<Key<'k>>) -> Verdict {
        self.run(Action::Peek, key, 0).await
    }

    /// Takes one by one until denied: how many passed, and the denial.
    pub(super) async fn exhaust<'k>(&self, key: impl Into<Key<'k>>) -> (u64, Verdict) {
        let key = key.into();
        for passed in 0..100 {
            let verdict = self.take(key, 1).await;
            if !verdict.allowed {
                return (passed, verdict);
            }
        }
        panic!("{}: a hundred passed", self.limit);
    }

    pub(super) fn says(&self, word: &str) -> bool {
        self.limit.to_string().contains(word)
    }

    /// Whatever its cost, a request passes when nothing is owed.
    pub(super) fn pays_later(&self) -> bool {
        self.says("pay_later") || self.says("warmup")
    }
}

/// The span of a denial that is not for ever.
pub(super) fn retry(denied: Verdict) -> Span {
    denied.retry_after().unwrap_or_else(|| panic!("no span to retry after: {denied:?}"))
}
