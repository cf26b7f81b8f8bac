//! The store under test, and a limit on it, with the operations that the cases use.

use std::cell::Cell;
use std::time::Duration;

use tollgate_core::{Retry, Span, Time, Verdict};

use super::Harness;
use crate::{Action, Check, CounterId, Key, Limit, Store, StoreCall, Verdicts};

/// A wait that no case exceeds: two years.
pub(super) const MAX_WAIT: Span = Span::from_secs(2 * 366 * 86_400);

/// A new store, with the harness that moves its time.
pub(super) struct StoreUnderTest<'h, H: Harness> {
    harness: &'h H,
    store: H::Store,
    counter_ids: Cell<u64>,
    leases: Cell<u64>,
}

/// A limit with its own counter id.
pub(super) struct TestCounter<'s, 'h, H: Harness> {
    pub(super) store: &'s StoreUnderTest<'h, H>,
    pub(super) limit: Limit,
    pub(super) counter: CounterId,
}

impl<'h, H: Harness> StoreUnderTest<'h, H> {
    pub(super) async fn new(harness: &'h H) -> StoreUnderTest<'h, H> {
        let store = harness.store().await;
        StoreUnderTest { harness, store, counter_ids: Cell::new(0), leases: Cell::new(0) }
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

    /// Returns the period of the tested limits.
    pub(super) fn period(&self) -> Span {
        self.harness.period().into()
    }

    /// Returns `n / of` of the period.
    pub(super) fn period_fraction(&self, n: u64, of: u64) -> Span {
        Span::from_nanos(self.period().as_nanos() * n / of)
    }

    /// Parses a limit, with `{P}` replaced by the period and `{G}` by a tenth of it.
    pub(super) fn limit(&self, text: &str) -> Limit {
        let millis = |period: Duration| format!("{}ms", period.as_millis());
        let text = text
            .replace("{P}", &millis(self.harness.period()))
            .replace("{G}", &millis(self.harness.period() / 10));
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Returns a new lease number.
    pub(super) fn lease(&self) -> u64 {
        self.leases.set(self.leases.get() + 1);
        self.leases.get()
    }

    pub(super) fn counter(&self, text: &str) -> TestCounter<'_, 'h, H> {
        self.counter_ids.set(self.counter_ids.get() + 1);
        let counter = CounterId::new(self.counter_ids.get());
        TestCounter { store: self, limit: self.limit(text), counter }
    }

    pub(super) async fn run(&self, action: Action, checks: &[Check<'_>]) -> Verdicts {
        let result = self.store.run(StoreCall { action, checks }).await;
        let verdicts = result.unwrap_or_else(|error| panic!("the store failed: {error}"));
        assert_eq!(verdicts.len(), checks.len(), "one verdict for each check");
        verdicts
    }

    pub(super) async fn take(&self, checks: &[Check<'_>]) -> Verdicts {
        self.run(Action::Take { max_wait: Span::ZERO }, checks).await
    }

    /// Asserts that two spans are equal within the resolution of the store.
    pub(super) fn assert_same_span(&self, what: &str, actual: Span, expected: Span) {
        let apart = actual.as_nanos().abs_diff(expected.as_nanos());
        assert!(apart < self.resolution().as_nanos(), "{what}: is {actual}, expected {expected}");
    }

    /// Asserts that two verdicts are equal, with spans within the resolution of the store.
    pub(super) fn assert_same_verdict(&self, what: &str, actual: Verdict, expected: Verdict) {
        let spans = |v: Verdict| match v.retry {
            Retry::Now => [Some(v.reset_after), Some(v.wait), Some(Span::ZERO)],
            Retry::After(span) => [Some(v.reset_after), Some(v.wait), Some(span)],
            Retry::Never => [Some(v.reset_after), Some(v.wait), None],
        };
        let alike = spans(actual).into_iter().zip(spans(expected)).all(|pair| match pair {
            (Some(a), Some(b)) => {
                a.as_nanos().abs_diff(b.as_nanos()) < self.resolution().as_nanos()
            }
            (a, b) => a == b,
        });
        let alike = alike
            && (actual.allowed, actual.limit, actual.remaining)
                == (expected.allowed, expected.limit, expected.remaining)
            && matches!(actual.retry, Retry::Now) == matches!(expected.retry, Retry::Now);
        assert!(alike, "{what}:\n  is       {actual:?},\n  expected {expected:?}");
    }
}

impl<H: Harness> TestCounter<'_, '_, H> {
    /// Returns a check of `cost` with a new lease.
    pub(super) fn check<'a>(&'a self, key: impl Into<Key<'a>>, cost: u64) -> Check<'a> {
        let lease = self.store.lease();
        Check { lease, ..Check::new(self.counter, key, &self.limit, cost) }
    }

    pub(super) async fn run<'k>(
        &self,
        action: Action,
        key: impl Into<Key<'k>>,
        cost: u64,
    ) -> Verdict {
        let key: Key<'_> = key.into();
        let check = self.check(key, cost);
        self.store.run(action, &[check]).await[0]
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

    /// Takes one by one until denied; returns the number that passed, and the denial.
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

    pub(super) fn text_contains(&self, text: &str) -> bool {
        self.limit.to_string().contains(text)
    }

    /// Returns whether a request of any cost passes while there is no debt.
    pub(super) fn pays_later(&self) -> bool {
        self.text_contains("pay_later") || self.text_contains("warmup")
    }
}

/// Returns the span after which a denied request can be retried.
pub(super) fn retry(denied: Verdict) -> Span {
    denied.retry_after().unwrap_or_else(|| panic!("no span to retry after: {denied:?}"))
}
