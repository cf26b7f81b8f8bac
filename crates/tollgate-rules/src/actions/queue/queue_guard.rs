//! A guard for the queue position of a waiting request.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tollgate_core::{Span, Time};

use super::WaitQueue;
use super::queue_entry::{Departure, NextStep, QueueEntry, QueueFull, RetryTimes};
use super::queue_spec::{QueueMode, QueueSpec};
use crate::decide::decision::Decision;
use crate::decide::held_charges::HeldCharges;
use crate::decide::limiter::LimiterState;
use crate::decide::pending_returns::PendingReturn;
use tollgate::Sleep;
use tollgate::Store;

/// How often a request retries at a shared store, where other nodes release permits unnoticed. The
/// actual time is between half of this and all of it.
const SHARED_RETRY_INTERVAL: Span = Span::from_millis(50);

/// The charge of a request that has not proceeded yet. Dropping it refunds the charge.
pub(super) struct UnusedCharge<'w, S: Store> {
    limiter: &'w LimiterState<S>,
    held: Option<Box<HeldCharges>>,
}

impl<'w, S: Store> UnusedCharge<'w, S> {
    pub(super) fn take_from(
        limiter: &'w LimiterState<S>,
        decision: &mut Decision,
    ) -> UnusedCharge<'w, S> {
        UnusedCharge { limiter, held: decision.held.take() }
    }

    /// Keeps the charge: the request proceeds.
    pub(super) fn keep(mut self, decision: &mut Decision) {
        decision.held = self.held.take();
    }

    /// Gives the charge up without a refund, because the slots of later requests depend on it.
    pub(super) fn forfeit(mut self) {
        self.held = None;
    }
}

impl<S: Store> Drop for UnusedCharge<'_, S> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.limiter.return_later(PendingReturn::All(*held));
        }
    }
}

/// A queue position. Dropping it gives the position to the next request.
pub(super) struct QueueGuard<'w, S: Store> {
    limiter: &'w LimiterState<S>,
    queue: Arc<WaitQueue>,
    key: Arc<[u8]>,
    id: u64,
    /// The charge, if the request has a slot.
    charge: Option<UnusedCharge<'w, S>>,
    has_left: bool,
}

/// The result of waiting in a queue.
pub(super) enum WaitOutcome<'w, S: Store> {
    /// The request may proceed with this charge.
    Go(Option<UnusedCharge<'w, S>>),
    /// The request may retry and keeps its position.
    Retry(QueueGuard<'w, S>),
    /// The request was displaced or ran out of patience.
    Left(Departure),
}

impl<'w, S: Store> QueueGuard<'w, S> {
    /// Joins a queue; `previous` is the position the request already has, if any.
    pub(super) fn take(
        limiter: &'w LimiterState<S>,
        spec: &QueueSpec,
        charge: Option<UnusedCharge<'w, S>>,
        previous: Option<QueueGuard<'w, S>>,
    ) -> Result<QueueGuard<'w, S>, QueueFull> {
        let now = limiter.clock.now();
        let entry: QueueEntry = spec.entry.clone();
        let joined =
            limiter.queues.join(&spec.rules, spec.rule(), |state, wakers| match spec.kind {
                QueueMode::Slot { at, .. } => {
                    let previous =
                        previous.as_ref().filter(|guard| guard.is_for(spec)).map(|it| it.id);
                    state.join_granted(entry, at, previous, now, wakers)
                }
                QueueMode::Retry(_) => state.join_retrying(entry, now, wakers),
            });
        drop(previous);
        let (queue, id) = joined?;
        let key = spec.entry.key.clone();
        Ok(QueueGuard { limiter, queue, key, id, charge, has_left: false })
    }

    /// Whether this is the position that the specification describes.
    pub(super) fn is_for(&self, spec: &QueueSpec) -> bool {
        self.key == spec.entry.key && self.queue.is_for(&spec.rules.domain, &spec.rule().name)
    }

    /// Records that a retry was refused.
    pub(super) fn refused(&self, retry: RetryTimes) {
        let retry = RetryTimes { at: self.limiter.retry_at(retry.at), ..retry };
        self.queue.with(|state, _| state.refused(self.id, retry));
    }

    /// Waits for the next step.
    pub(super) async fn wait(mut self) -> WaitOutcome<'w, S> {
        let mut timer: Option<(Time, Sleep)> = None;
        let next = poll_fn(|context| self.poll_next(&mut timer, context)).await;
        match next {
            NextStep::Retry => WaitOutcome::Retry(self),
            NextStep::Go => {
                self.has_left = true;
                WaitOutcome::Go(self.charge.take())
            }
            NextStep::Leave(leave) => {
                self.has_left = true;
                if let Some(charge) = self.charge.take().filter(|_| !leave.refunds_charge) {
                    charge.forfeit();
                }
                WaitOutcome::Left(leave)
            }
            NextStep::Wait(_) => unreachable!("waited for"),
        }
    }

    fn poll_next(
        &self,
        timer: &mut Option<(Time, Sleep)>,
        context: &mut Context<'_>,
    ) -> Poll<NextStep> {
        loop {
            let now = self.limiter.clock.now();
            let next =
                self.queue.with(|state, wakers| state.next(self.id, now, context.waker(), wakers));
            let NextStep::Wait(until) = next else { return Poll::Ready(next) };
            let Some(until) = until else { return Poll::Pending };
            if timer.as_ref().is_none_or(|(at, _)| *at != until) {
                *timer = Some((until, self.limiter.clock.sleep_until(until)));
            }
            if let Some((_, sleep)) = timer {
                ready!(Pin::new(sleep).poll(context));
            }
        }
    }
}

impl<S: Store> Drop for QueueGuard<'_, S> {
    fn drop(&mut self) {
        if !self.has_left {
            let now = self.limiter.clock.now();
            let refunds_charge = self.queue.with(|state, wakers| state.leave(self.id, now, wakers));
            if let Some(charge) = self.charge.take().filter(|_| !refunds_charge) {
                charge.forfeit();
            }
        }
        self.limiter.queues.remove_one(&self.queue);
    }
}

impl<S: Store> LimiterState<S> {
    /// Returns when to retry: at `at`, or sooner if other nodes may release permits unnoticed.
    fn retry_at(&self, at: Option<Time>) -> Option<Time> {
        if !self.store.is_shared() {
            return at;
        }
        // The random part keeps nodes that were refused together from retrying together.
        let half = SHARED_RETRY_INTERVAL.as_nanos() / 2;
        let soon = self.clock.now() + Span::from_nanos(half + tollgate::state::new_lease() % half);
        Some(at.map_or(soon, |at| at.min(soon)))
    }
}
