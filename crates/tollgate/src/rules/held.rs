//! What a request was charged, for as long as that may still change: places it holds while it is in
//! flight, a turn it may give up, a cost that is settled once the outcome is known.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::Span;

use super::compiled::Bound;
use super::fair::Claims;
use super::limiter::Shared;
use crate::limit::Engine;
use crate::store::{Action, Call, Store};
use crate::store_error::StoreError;
use crate::{Check, Key};

/// What a request was charged.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    lease: u64,
    pub(crate) lines: Vec<HeldLine>,
    /// The shares it was taken from, where limits are shared fairly.
    pub(crate) fair: Option<Arc<Claims>>,
    /// Whether it was charged in this process, because the store did not answer.
    is_local: bool,
}

/// One limit that allowed a request.
#[derive(Clone, Debug)]
pub(crate) struct HeldLine {
    pub(crate) rule: u32,
    pub(crate) bound: Bound,
    pub(crate) key: Box<[u8]>,
    pub(crate) cost: u64,
    /// Whether the cost was charged; otherwise the limit was only asked.
    pub(crate) charged: bool,
}

/// Whether a limit is on concurrency: what is taken is held, not spent.
pub(super) fn is_place(bound: &Bound) -> bool {
    matches!(bound.limit.engine(), Engine::Concurrent(_) | Engine::Adaptive(_))
}

impl Held {
    pub(crate) fn new(lease: u64, lines: Vec<HeldLine>, is_local: bool) -> Held {
        Held { lease, lines, fair: None, is_local }
    }

    /// Whether anything of it is a place among those in flight.
    pub(crate) fn has_places(&self) -> bool {
        self.lines.iter().any(HeldLine::is_place)
    }

    /// The request is done: its places are free again, where they were taken.
    pub(crate) async fn release<S: Store>(
        &self,
        limiter: &Shared<S>,
        rtt: Span,
        dropped: bool,
    ) -> Result<(), StoreError> {
        if let Some(fair) = &self.fair {
            fair.done();
        }
        self.run(limiter, Action::Release { rtt, dropped }, HeldLine::is_place).await
    }

    /// The request never went on: everything it was charged goes back.
    pub(crate) async fn give_back<S: Store>(&self, limiter: &Shared<S>) -> Result<(), StoreError> {
        if let Some(fair) = &self.fair {
            fair.give_back();
        }
        self.run(limiter, Action::Refund, |line| line.charged).await
    }

    async fn run<S: Store>(
        &self,
        limiter: &Shared<S>,
        action: Action,
        wanted: impl Fn(&HeldLine) -> bool,
    ) -> Result<(), StoreError> {
        let lines = self.lines.iter().filter(|line| wanted(line));
        let checks: SmallVec<[Check<'_>; 4]> = lines.map(|line| line.check(self.lease)).collect();
        if checks.is_empty() {
            return Ok(());
        }
        let call = Call { action, checks: &checks };
        match limiter.local.get().filter(|_| self.is_local) {
            Some(local) => local.store.run(call).await.map(drop),
            None => limiter.store.run(call).await.map(drop),
        }
    }
}

impl HeldLine {
    fn is_place(&self) -> bool {
        self.charged && is_place(&self.bound)
    }

    fn check(&self, lease: u64) -> Check<'_> {
        let Bound { bucket, limit } = &self.bound;
        Check { lease, ..Check::new(*bucket, Key::Bytes(&self.key), limit, self.cost) }
    }
}
