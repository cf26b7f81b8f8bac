//! What a request was charged, for as long as that may still change: places it holds while it is in
//! flight, a turn it may give up, a cost that is settled once the outcome is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Span, Time};

use super::compiled::Bound;
use super::demand::LineKind;
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
    /// When it was charged.
    pub(super) since: Time,
    /// For how long what is not needed may go back, if not as its rules say.
    pub(super) open: Option<Duration>,
    /// The shares it was taken from, where limits are shared fairly.
    pub(crate) fair: Option<Arc<Claims>>,
    /// Whether it was charged in this process, because the store did not answer.
    pub(super) is_local: bool,
    /// Whether the truth was told: once, whatever clones of the decision there are.
    settled: Arc<AtomicBool>,
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
    pub(crate) kind: LineKind,
}

/// Whether a limit is on concurrency: what is taken is held, not spent.
pub(super) fn is_place(bound: &Bound) -> bool {
    matches!(bound.limit.engine(), Engine::Concurrent(_) | Engine::Adaptive(_))
}

impl Held {
    pub(crate) fn new(
        lease: u64,
        lines: Vec<HeldLine>,
        since: Time,
        open: Option<Duration>,
        is_local: bool,
    ) -> Held {
        Held { lease, lines, since, open, fair: None, is_local, settled: Arc::default() }
    }

    /// Whether nobody has settled it before; whoever asks does it now.
    pub(super) fn settle_once(&self) -> bool {
        !self.settled.swap(true, Ordering::Relaxed)
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

    /// The request is still under way: it keeps its places for longer.
    pub(crate) async fn renew<S: Store>(&self, limiter: &Shared<S>) -> Result<(), StoreError> {
        self.run(limiter, Action::Renew, HeldLine::is_place).await
    }

    /// Names the holder of its places.
    pub(crate) fn lease(&self) -> u64 {
        self.lease
    }

    /// How long its places are its own; none if it has no place.
    pub(crate) fn shortest_lease(&self) -> Option<Span> {
        let lease = |line: &HeldLine| match line.bound.limit.engine() {
            Engine::Concurrent(places) => Some(places.lease()),
            Engine::Adaptive(range) => Some(range.lease),
            _ => None,
        };
        self.lines.iter().filter(|line| line.charged).filter_map(lease).min()
    }

    /// What of it are places.
    pub(crate) fn places_only(&self) -> Held {
        let lines = self.lines.iter().filter(|line| line.is_place()).cloned();
        Held { lines: lines.collect(), fair: None, settled: self.settled.clone(), ..*self }
    }

    /// The request never went on: everything it was charged goes back.
    pub(crate) async fn give_back<S: Store>(&self, limiter: &Shared<S>) -> Result<(), StoreError> {
        if let Some(fair) = &self.fair {
            fair.give_back();
        }
        let is_open = self.settle_once();
        self.run(limiter, Action::Refund, |line| line.charged && (is_open || line.is_place())).await
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
    pub(super) fn is_place(&self) -> bool {
        self.charged && is_place(&self.bound)
    }

    fn check(&self, lease: u64) -> Check<'_> {
        let Bound { bucket, limit } = &self.bound;
        Check { lease, ..Check::new(*bucket, Key::Bytes(&self.key), limit, self.cost) }
    }
}
