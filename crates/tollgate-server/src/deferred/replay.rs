//! Sends deferred requests as soon as their limits allow.
//!
//! Each queue has its own task, so that keys do not wait for each other. The task asks the limiter
//! about the next request, sleeps until it is allowed, and sends it. The start of an attempt is durable
//! before the request is sent, so that a crash leads to a second attempt, not to a lost request.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit};
use tokio::time::{sleep, timeout};
use tollgate_rules::{Decision, Reason};

use super::dispatch::dispatch;
use super::item::{ItemState, QueuedItem, StoredHead, StoredResponse};
use super::metrics::AttemptOutcome;
use super::queue::{Completion, DeferredQueue, QueueError, Requeue, StartedAttempt};
use super::queue_index::NextItem;
use super::queue_key::DeferredQueueKey;
use super::{Deferred, ReplayInput};
use crate::background::{self, BackgroundWorker};
use crate::clock;
use crate::net::Drain;

/// The delay after an error of the storage or the store.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The maximum sleep before the limiter is asked again, because limits may change.
const MAX_SLEEP: Duration = Duration::from_secs(10);
/// The maximum pause between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(600);
/// The maximum `Retry-After` of an upstream that is respected.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// The outcome of sending a request.
#[derive(Debug)]
pub(crate) enum Delivery {
    Answered {
        response: StoredResponse,
        /// The upstream's `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// Nothing was sent.
    Unsent(String),
    /// The request may have arrived, but there was no response.
    Unanswered(String),
}

/// A sender that asks the limiter and forwards requests to upstreams.
pub(crate) trait RequestSender: Send + Sync + 'static {
    /// The admission of an allowed request, which ends with its delivery.
    ///
    /// Dropping it ends the request as if its client had left: concurrency permits are released,
    /// and the charge stays.
    type Permit: Send + 'static;

    /// Returns whether any rule defers.
    fn defers(&self) -> bool;

    /// Returns the decision without charging.
    fn preview(&self, head: &StoredHead) -> impl Future<Output = Option<Decision>> + Send;

    /// Decides and charges a request; returns the permit with the decision.
    fn decide(
        &self,
        head: &StoredHead,
    ) -> impl Future<Output = Option<(Decision, Self::Permit)>> + Send;

    /// Sends a request.
    fn deliver(
        &self,
        name: String,
        started: StartedAttempt,
        permit: Self::Permit,
    ) -> impl Future<Output = Delivery> + Send;
}

/// Sends deferred requests until the server closes.
///
/// Recent attempts of the last process that the counters do not have are charged first: those since
/// `counted_until_ms`.
pub(crate) async fn replay<C: RequestSender>(
    deferred: &Arc<Deferred>,
    sender: Arc<C>,
    drain: &Drain,
    counted_until_ms: i64,
) {
    let Some(ReplayInput { new_queues, recovered }) = deferred.replay_input.lock().take() else {
        return;
    };
    let mut attempts = recovered.attempts;
    attempts.retain(|(at_ms, _)| *at_ms >= counted_until_ms);
    charge_again(&*sender, attempts).await;
    let (deferred, drain) = (deferred.clone(), drain.clone());
    if let DeferredQueue::Shared(shared) = &deferred.queue {
        let (shared, deferred, drain) = (shared.clone(), deferred.clone(), drain.clone());
        let sender = sender.clone();
        background::spawn_restarting(BackgroundWorker::DeferredShare, move || {
            let (shared, deferred) = (shared.clone(), deferred.clone());
            let (drain, sender) = (drain.clone(), sender.clone());
            async move {
                background::panic_point(BackgroundWorker::DeferredShare);
                shared.share(&deferred.index, &drain, || sender.defers()).await;
            }
        });
    }
    let new_queues = Arc::new(Mutex::new(new_queues));
    background::spawn_restarting(BackgroundWorker::DeferredDispatch, move || {
        dispatch(new_queues.clone(), deferred.clone(), sender.clone(), drain.clone())
    });
}

/// Charges recent attempts again after a restart.
///
/// Counters in memory since the last snapshot are lost in a crash, so that a crash loop would multiply
/// the rate. Attempts
/// within the memory of their limits are charged again. A refused charge would have been over the limit
/// before, so that the limit ends up no fuller than it was.
async fn charge_again<C: RequestSender>(sender: &C, attempts: Vec<(i64, StoredHead)>) {
    let now_ms = clock::unix_ms();
    for (at_ms, head) in attempts {
        let age = Duration::from_millis(u64::try_from(now_ms - at_ms).unwrap_or(0));
        let Some(preview) = sender.preview(&head).await else { continue };
        // Times are rounded down to milliseconds, so that equality counts as younger.
        if age <= longest_window(&preview) {
            // The permit ends at once, because nothing is in flight.
            drop(sender.decide(&head).await);
        }
    }
}

/// Returns the longest window of the limits of a decision.
fn longest_window(decision: &Decision) -> Duration {
    let limits = crate::headers::DecisionSummary::new(decision).limits;
    let longest = limits.iter().filter_map(|limit| limit.window_s).max();
    Duration::from_secs(longest.unwrap_or(0))
}

/// A task that replays one queue.
pub(super) struct ReplayWorker<C> {
    pub(super) queue_key: Arc<DeferredQueueKey>,
    pub(super) deferred: Arc<Deferred>,
    pub(super) sender: Arc<C>,
}

/// The action for the next request.
enum ReplayVerdict {
    Go,
    Wait(Duration),
    Never(String),
}

impl<C: RequestSender> ReplayWorker<C> {
    /// Runs until the queue is empty.
    pub(super) async fn serve(&self) {
        loop {
            background::panic_point(BackgroundWorker::DeferredReplay);
            let now_ms = clock::unix_ms();
            match self.deferred.index.next(&self.queue_key, now_ms) {
                NextItem::Ready(item) => self.advance(item).await,
                NextItem::At(due_ms, changed) => {
                    let pause = Duration::from_millis(u64::try_from(due_ms - now_ms).unwrap_or(1));
                    let _ = timeout(pause, changed.notified()).await;
                }
                NextItem::None => return,
            }
        }
    }

    /// Sends the next request, or waits.
    async fn advance(&self, item: QueuedItem) {
        let Deferred { queue, index, .. } = &*self.deferred;
        let head = match queue.head(item.id).await {
            Ok(Some(head)) => head,
            Ok(None) => return index.remove(item.id),
            Err(error) => return self.pause_after(&error).await,
        };
        let preview = self.sender.preview(&head).await;
        match preview.as_ref().map_or_else(undecodable, verdict) {
            ReplayVerdict::Go => {}
            ReplayVerdict::Wait(pause) => return sleep(pause).await,
            ReplayVerdict::Never(reason) => return self.fail(&item, reason).await,
        }
        // The semaphore is never closed. Nothing is charged while waiting for it.
        let Ok(slot) = self.deferred.in_flight.clone().acquire_owned().await else { return };
        let Some((decision, permit)) = self.sender.decide(&head).await else { return };
        match verdict(&decision) {
            ReplayVerdict::Go => {}
            ReplayVerdict::Wait(pause) => {
                drop(slot);
                return sleep(pause).await;
            }
            // The next preview finds the reason again.
            ReplayVerdict::Never(_) => return,
        }
        if !decision.wait.is_zero() {
            sleep(decision.wait).await;
        }
        match queue.begin(item.id, clock::unix_ms()).await {
            Ok(Some(started)) => {
                index.remove(item.id);
                self.send(item, started, permit, slot);
            }
            // The request was cancelled meanwhile.
            Ok(None) => index.remove(item.id),
            Err(error) => {
                drop((slot, permit));
                self.pause_after(&error).await;
            }
        }
    }

    /// Waits after an error of the storage, because no attempt may start unrecorded.
    async fn pause_after(&self, error: &QueueError) {
        tracing::warn!(%error, rule = self.queue_key.rule, "cannot use the deferred queue; its requests are sent later");
        sleep(RETRY_DELAY).await;
    }

    /// Makes a request a dead letter.
    async fn fail(&self, item: &QueuedItem, reason: String) {
        let completion =
            Completion { state: ItemState::Failed, reason: Some(reason), response: None };
        match self.deferred.queue.complete(item.id, completion, clock::unix_ms()).await {
            Ok(()) => self.deferred.index.remove(item.id),
            Err(error) => self.pause_after(&error).await,
        }
    }

    /// Sends a request in its own task and records the outcome.
    fn send(
        &self,
        item: QueuedItem,
        started: StartedAttempt,
        permit: C::Permit,
        slot: OwnedSemaphorePermit,
    ) {
        let (deferred, sender) = (self.deferred.clone(), self.sender.clone());
        tokio::spawn(async move {
            let attempt = started.attempt;
            let delivery = sender.deliver(item.id.to_string(), started, permit);
            let delivery =
                background::catch_panic_async(BackgroundWorker::DeferredDelivery, delivery).await;
            // Whether the request has arrived is unknown, as without a response.
            let delivery = delivery.unwrap_or_else(|panic| {
                Delivery::Unanswered(format!("an internal error interrupted the request: {panic}"))
            });
            deferred.record_delivery(item, attempt, delivery).await;
            drop(slot);
        });
    }
}

fn undecodable() -> ReplayVerdict {
    ReplayVerdict::Never("the stored request cannot be decoded".to_owned())
}

fn verdict(decision: &Decision) -> ReplayVerdict {
    match (decision.allowed, decision.reason, decision.retry_after) {
        (true, ..) => ReplayVerdict::Go,
        (false, Reason::OverLimit | Reason::Banned, Some(retry)) => {
            ReplayVerdict::Wait(retry.clamp(Duration::from_millis(1), MAX_SLEEP))
        }
        (false, Reason::OverLimit | Reason::StoreFailed | Reason::Unmatched, None) => {
            ReplayVerdict::Wait(RETRY_DELAY)
        }
        _ => ReplayVerdict::Never(decision.to_string()),
    }
}

impl Deferred {
    /// Records the outcome of an attempt.
    ///
    /// Retries until the record is durable; otherwise the request would be sent twice.
    async fn record_delivery(&self, mut item: QueuedItem, attempt: u32, delivery: Delivery) {
        let outcome = self.outcome(&item, attempt, delivery);
        loop {
            let now_ms = clock::unix_ms();
            let recorded = match &outcome {
                AttemptResult::Finished(completion, _) => {
                    self.queue.complete(item.id, completion.clone(), now_ms).await
                }
                AttemptResult::Retry(requeue, _) => {
                    self.queue.requeue(item.id, requeue.clone(), now_ms).await
                }
            };
            match recorded {
                Ok(()) => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot record the outcome of a deferred request; trying again");
                    sleep(RETRY_DELAY).await;
                }
            }
        }
        match outcome {
            AttemptResult::Finished(_, attempt) => self.attempts.count(attempt),
            AttemptResult::Retry(requeue, attempt) => {
                self.attempts.count(attempt);
                item.due_ms = requeue.due_ms;
                item.failures += 1;
                self.index.insert(item);
            }
        }
    }

    /// Returns what follows from a delivery: the end of the request, or its next attempt.
    fn outcome(&self, item: &QueuedItem, attempt: u32, delivery: Delivery) -> AttemptResult {
        let (reason, response, retry_after, is_unsent) = match delivery {
            Delivery::Answered { response, .. } if is_final(response.status) => {
                let completion =
                    Completion { state: ItemState::Done, reason: None, response: Some(response) };
                return AttemptResult::Finished(completion, AttemptOutcome::Done);
            }
            Delivery::Answered { response, retry_after } => {
                let reason = format!("the upstream answered {}", response.status);
                (reason, Some(response), retry_after, false)
            }
            Delivery::Unsent(reason) => (reason, None, None, true),
            Delivery::Unanswered(reason) => (reason, None, None, false),
        };
        let now_ms = clock::unix_ms();
        let pause = backoff(self.options.backoff, item.failures, fastrand::f64())
            .max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER));
        let due_ms = now_ms.saturating_add(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
        let give_up_ms = i64::try_from(self.options.give_up.as_millis()).unwrap_or(i64::MAX);
        let is_last = !is_unsent && attempt >= self.options.attempts;
        if is_last || due_ms.saturating_sub(item.added_ms) > give_up_ms {
            let completion =
                Completion { state: ItemState::Failed, reason: Some(reason), response };
            return AttemptResult::Finished(completion, AttemptOutcome::Failed);
        }
        let outcome = if is_unsent { AttemptOutcome::Unreachable } else { AttemptOutcome::Retry };
        AttemptResult::Retry(Requeue { due_ms, reason, is_unsent }, outcome)
    }
}

/// The result of an attempt.
enum AttemptResult {
    Finished(Completion, AttemptOutcome),
    Retry(Requeue, AttemptOutcome),
}

/// Returns whether a status is final, not to be retried.
fn is_final(status: u16) -> bool {
    status < 500 && ![408, 425, 429].contains(&status)
}

/// Returns a random share of a pause that doubles with each failure, up to a maximum.
///
/// The random share keeps requests that failed together from returning together.
fn backoff(first: Duration, failures: u32, share: f64) -> Duration {
    let longest = first.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
    longest.min(MAX_BACKOFF.max(first)).mul_f64(share.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_bounded() {
        let second = Duration::from_secs(1);
        assert_eq!(backoff(second, 0, 1.0), second);
        assert_eq!(backoff(second, 3, 0.5), 4 * second);
        assert_eq!(backoff(second, 40, 1.0), MAX_BACKOFF);
        assert_eq!(backoff(second, 5, 0.0), Duration::ZERO);
    }

    #[test]
    fn some_statuses_are_retried() {
        assert!([200, 204, 302, 400, 404, 409, 422].into_iter().all(is_final));
        assert!(![408, 425, 429, 500, 502, 503, 504].into_iter().any(is_final));
    }
}
