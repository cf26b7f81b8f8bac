//! Rules on a store that can fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tollgate::testing::ManualClock;
use tollgate::{Action, MemoryStore, Store, StoreCall, StoreError, StoreErrorKind, Verdicts};
use tollgate_rules::{Adjustment, Request, RuleLimiter};

use super::{Settlements, block_on, settlements};

/// A store that four nodes share, and that can fail.
pub(crate) struct FailingStore {
    pub(crate) inside: MemoryStore,
    pub(crate) is_down: AtomicBool,
    pub(crate) loses_answers: AtomicBool,
    pub(crate) nodes: AtomicU64,
    pub(crate) spends: AtomicU64,
}

impl Store for FailingStore {
    async fn run(&self, call: StoreCall<'_>) -> Result<Verdicts, StoreError> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(StoreError::new("it rests").with_kind(StoreErrorKind::Unavailable));
        }
        if call.action == Action::Spend {
            self.spends.fetch_add(1, Ordering::Relaxed);
        }
        let answer = self.inside.run(call).await;
        match self.loses_answers.load(Ordering::Relaxed) {
            true => Err(StoreError::new("no answer").with_kind(StoreErrorKind::TimedOut)),
            false => answer,
        }
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn nodes(&self) -> u64 {
        self.nodes.load(Ordering::Relaxed)
    }
}

pub(crate) struct Fixture {
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<FailingStore>,
    pub(crate) limiter: RuleLimiter<Arc<FailingStore>>,
    pub(crate) settlements: Settlements,
}

impl Fixture {
    pub(crate) fn new(rules: &str) -> Fixture {
        let clock = ManualClock::new();
        let store = Arc::new(FailingStore {
            inside: MemoryStore::new().clock(&clock),
            is_down: false.into(),
            loses_answers: false.into(),
            nodes: 4.into(),
            spends: 0.into(),
        });
        let (settlements, record) = settlements();
        let builder = RuleLimiter::builder().store(store.clone()).clock(&clock);
        let limiter = builder.on_settled(record).build(rules.parse().unwrap());
        Fixture { clock, store, limiter, settlements }
    }

    pub(crate) fn down(&self, is_down: bool) {
        self.store.is_down.store(is_down, Ordering::Relaxed);
    }

    pub(crate) fn ann() -> Request<'static> {
        Request::empty().attribute("user", "ann")
    }

    /// Returns how many of a number of requests pass.
    pub(crate) fn pass(&self, times: u64) -> u64 {
        (0..times).map(|_| u64::from(block_on(self.limiter.decide(&Self::ann())).allowed)).sum()
    }

    pub(crate) fn left(&self) -> u64 {
        let peeked = block_on(self.limiter.adjust(&Self::ann(), Adjustment::Peek)).unwrap();
        peeked.tightest().unwrap().verdict.remaining
    }
}
