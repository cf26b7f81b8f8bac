//! Sends deferred requests as soon as their limits allow.
//!
//! Each line has a task of its own, so that keys do not wait for each other: it asks the limiter
//! whether who is next may go, sleeps until then, and has it sent. That it is being sent is durable
//! before it is, so that after a crash it is sent again rather than forgotten.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};
use tollgate::rules::{Decision, DeferLine, Reason};

use super::item::{Answer, Head, State, Waiting};
use super::lines::Next;
use super::queue::{Back, Begun, End, Queue, QueueError};
use super::report::Attempt;
use super::{Deferred, Handover};
use crate::clock;
use crate::net::Drain;

/// How soon something is tried again that is nobody's fault.
const SOON: Duration = Duration::from_secs(1);
/// Limits may change while somebody waits for them: they are asked again at least so often.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);
/// The longest pause between two attempts.
const LONGEST_BACKOFF: Duration = Duration::from_secs(600);
/// The longest pause that an upstream can ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);
/// How often what nobody needs any more is looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// What became of a request that was sent.
#[derive(Debug)]
pub(crate) enum Delivered {
    Answered {
        answer: Answer,
        /// When the upstream wants it again.
        retry_after: Option<Duration>,
    },
    /// Nothing of it was sent.
    Unsent(String),
    /// It may have arrived, and there was no answer.
    Unanswered(String),
}

/// Who asks the limiter and sends requests.
pub(crate) trait Courier: Send + Sync + 'static {
    /// What a request was charged and may hold while it is on its way. Dropped, it never went.
    type Leave: Send + 'static;

    /// Whether any rule defers.
    fn defers(&self) -> bool;

    /// What the limiter would say; nothing is charged.
    fn preview(&self, head: &Head) -> impl Future<Output = Option<Decision>> + Send;

    /// Asks the limiter. There is a leave if it allows the request.
    fn ask(&self, head: &Head) -> impl Future<Output = Option<(Decision, Self::Leave)>> + Send;

    /// Sends a request.
    fn deliver(
        &self,
        name: String,
        begun: Begun,
        leave: Self::Leave,
    ) -> impl Future<Output = Delivered> + Send;
}

/// Sends what is deferred until the server closes. What was sent shortly before the last process
/// ended is charged first, where that process has taken its counters along.
pub(crate) async fn replay<C: Courier>(
    deferred: &Arc<Deferred>,
    courier: Arc<C>,
    drain: &Drain,
    counters_survive: bool,
) {
    let Some(Handover { begun, found }) = deferred.handover.lock().take() else { return };
    if !counters_survive {
        charge_again(&*courier, found.attempts).await;
    }
    let (deferred, drain) = (deferred.clone(), drain.clone());
    if let Queue::Shared(shared) = &deferred.queue {
        let (shared, deferred, drain) = (shared.clone(), deferred.clone(), drain.clone());
        let courier = courier.clone();
        tokio::spawn(async move {
            shared.share(&deferred.lines, &drain, || courier.defers()).await;
        });
    }
    tokio::spawn(async move {
        let mut begun = begun;
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            tokio::select! {
                line = begun.recv() => {
                    let Some(line) = line else { return };
                    let line = OneLine { line, deferred: deferred.clone(), courier: courier.clone() };
                    let drain = drain.clone();
                    tokio::spawn(async move {
                        tokio::select! {
                            () = line.serve() => {}
                            () = drain.closing() => {}
                        }
                    });
                }
                _ = sweep.tick() => {
                    if let Err(error) = deferred.queue.sweep(clock::unix_ms()).await {
                        tracing::debug!(%error, "deferred requests that are over were not swept");
                    }
                }
                () = drain.closing() => return,
            }
        }
    });
}

/// Counters in memory do not know what was sent before a crash, so a crash loop would multiply the
/// rate. Whoever was sent within the time it takes a limit to forget asks again; what is refused
/// then would have been over the limit before, so the limit ends up no fuller than it was.
async fn charge_again<C: Courier>(courier: &C, attempts: Vec<(i64, Head)>) {
    let now_ms = clock::unix_ms();
    for (at_ms, head) in attempts {
        let age = Duration::from_millis(u64::try_from(now_ms - at_ms).unwrap_or(0));
        let Some(would) = courier.preview(&head).await else { continue };
        // Times are cut to milliseconds: who is as old as that may be a little younger.
        if age <= forgotten_after(&would) {
            // The leave ends at once: nothing is on its way.
            drop(courier.ask(&head).await);
        }
    }
}

/// How long limits remember a request at most.
fn forgotten_after(decision: &Decision) -> Duration {
    let limits = crate::headers::Answer::of(decision).limits;
    let longest = limits.iter().filter_map(|limit| limit.window_s).max();
    Duration::from_secs(longest.unwrap_or(0))
}

/// A line and who serves it.
struct OneLine<C> {
    line: Arc<DeferLine>,
    deferred: Arc<Deferred>,
    courier: Arc<C>,
}

/// What to do with who is next.
enum Verdict {
    Go,
    Wait(Duration),
    Never(String),
}

impl<C: Courier> OneLine<C> {
    /// Until the line is over.
    async fn serve(&self) {
        loop {
            let now_ms = clock::unix_ms();
            match self.deferred.lines.next(&self.line, now_ms) {
                Next::Now(waiting) => self.advance(waiting).await,
                Next::At(due_ms, bell) => {
                    let pause = Duration::from_millis(u64::try_from(due_ms - now_ms).unwrap_or(1));
                    let _ = timeout(pause, bell.notified()).await;
                }
                Next::Nobody => return,
            }
        }
    }

    /// Has who is next sent, or waits a while for it.
    async fn advance(&self, waiting: Waiting) {
        let Deferred { queue, lines, .. } = &*self.deferred;
        let head = match queue.head(waiting.id).await {
            Ok(Some(head)) => head,
            Ok(None) => return lines.leave(waiting.id),
            Err(error) => return self.trouble(&error).await,
        };
        let would = self.courier.preview(&head).await;
        match would.as_ref().map_or_else(unreadable, verdict) {
            Verdict::Go => {}
            Verdict::Wait(pause) => return sleep(pause).await,
            Verdict::Never(why) => return self.bury(&waiting, why).await,
        }
        // It is never closed. Whoever waits for a place has asked for nothing yet.
        let Ok(place) = self.deferred.in_flight.clone().acquire_owned().await else { return };
        let Some((decision, leave)) = self.courier.ask(&head).await else { return };
        match verdict(&decision) {
            Verdict::Go => {}
            Verdict::Wait(pause) => {
                drop(place);
                return sleep(pause).await;
            }
            // The next look finds the same, and why.
            Verdict::Never(_) => return,
        }
        if !decision.wait.is_zero() {
            sleep(decision.wait).await;
        }
        match queue.begin(waiting.id, clock::unix_ms()).await {
            Ok(Some(begun)) => {
                lines.leave(waiting.id);
                self.send(waiting, begun, leave, place);
            }
            // Somebody cancelled it just now.
            Ok(None) => lines.leave(waiting.id),
            Err(error) => {
                drop((place, leave));
                self.trouble(&error).await;
            }
        }
    }

    /// Where requests are kept is in trouble: nothing is sent that cannot be written down.
    async fn trouble(&self, error: &QueueError) {
        tracing::warn!(%error, rule = self.line.rule, "deferred requests are not sent for now");
        sleep(SOON).await;
    }

    async fn bury(&self, waiting: &Waiting, why: String) {
        let end = End { state: State::Failed, why: Some(why), answer: None };
        match self.deferred.queue.end(waiting.id, end, clock::unix_ms()).await {
            Ok(()) => self.deferred.lines.leave(waiting.id),
            Err(error) => self.trouble(&error).await,
        }
    }

    fn send(&self, waiting: Waiting, begun: Begun, leave: C::Leave, place: OwnedSemaphorePermit) {
        let (deferred, courier) = (self.deferred.clone(), self.courier.clone());
        tokio::spawn(async move {
            let attempt = begun.attempt;
            let delivered = courier.deliver(waiting.id.to_string(), begun, leave).await;
            deferred.settle(waiting, attempt, delivered).await;
            drop(place);
        });
    }
}

fn unreadable() -> Verdict {
    Verdict::Never("what was kept of it is no request".to_owned())
}

fn verdict(decision: &Decision) -> Verdict {
    match (decision.allowed, decision.reason, decision.retry_after) {
        (true, ..) => Verdict::Go,
        (false, Reason::OverLimit | Reason::Banned, Some(retry)) => {
            Verdict::Wait(retry.clamp(Duration::from_millis(1), LONGEST_SLEEP))
        }
        (false, Reason::OverLimit | Reason::StoreFailed | Reason::Unmatched, None) => {
            Verdict::Wait(SOON)
        }
        _ => Verdict::Never(decision.to_string()),
    }
}

impl Deferred {
    /// Writes down how an attempt went, however long that takes: to forget it is to send it twice.
    async fn settle(&self, mut waiting: Waiting, attempt: u32, delivered: Delivered) {
        let outcome = self.outcome(&waiting, attempt, delivered);
        loop {
            let now_ms = clock::unix_ms();
            let written = match &outcome {
                Settled::Over(end, _) => self.queue.end(waiting.id, end.clone(), now_ms).await,
                Settled::Again(back, _) => self.queue.back(waiting.id, back.clone(), now_ms).await,
            };
            match written {
                Ok(()) => break,
                Err(error) => {
                    tracing::warn!(%error, "what became of a deferred request is not written yet");
                    sleep(SOON).await;
                }
            }
        }
        match outcome {
            Settled::Over(_, attempt) => self.tally.count(attempt),
            Settled::Again(back, attempt) => {
                self.tally.count(attempt);
                waiting.due_ms = back.due_ms;
                waiting.failures += 1;
                self.lines.join(waiting);
            }
        }
    }

    fn outcome(&self, waiting: &Waiting, attempt: u32, delivered: Delivered) -> Settled {
        let (why, answer, asked, is_unsent) = match delivered {
            Delivered::Answered { answer, .. } if is_final(answer.status) => {
                let end = End { state: State::Done, why: None, answer: Some(answer) };
                return Settled::Over(end, Attempt::Done);
            }
            Delivered::Answered { answer, retry_after } => {
                let why = format!("the upstream answered {}", answer.status);
                (why, Some(answer), retry_after, false)
            }
            Delivered::Unsent(why) => (why, None, None, true),
            Delivered::Unanswered(why) => (why, None, None, false),
        };
        let now_ms = clock::unix_ms();
        let pause = backoff(self.options.backoff, waiting.failures, fastrand::f64())
            .max(asked.unwrap_or_default().min(LONGEST_ASKED));
        let due_ms = now_ms.saturating_add(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
        let give_up_ms = i64::try_from(self.options.give_up.as_millis()).unwrap_or(i64::MAX);
        let is_last = !is_unsent && attempt >= self.options.attempts;
        if is_last || due_ms.saturating_sub(waiting.added_ms) > give_up_ms {
            let end = End { state: State::Failed, why: Some(why), answer };
            return Settled::Over(end, Attempt::Failed);
        }
        let how = if is_unsent { Attempt::Unreachable } else { Attempt::Retry };
        Settled::Again(Back { due_ms, why, is_unsent }, how)
    }
}

/// What becomes of a request after an attempt.
enum Settled {
    Over(End, Attempt),
    Again(Back, Attempt),
}

/// Whether an answer is the last word.
fn is_final(status: u16) -> bool {
    status < 500 && ![408, 425, 429].contains(&status)
}

/// Twice as long each time, up to a bound, and a random share of that: so that those who failed
/// together do not come back together.
fn backoff(first: Duration, failures: u32, share: f64) -> Duration {
    let longest = first.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
    longest.min(LONGEST_BACKOFF.max(first)).mul_f64(share.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_bounded() {
        let second = Duration::from_secs(1);
        assert_eq!(backoff(second, 0, 1.0), second);
        assert_eq!(backoff(second, 3, 0.5), 4 * second);
        assert_eq!(backoff(second, 40, 1.0), LONGEST_BACKOFF);
        assert_eq!(backoff(second, 5, 0.0), Duration::ZERO);
    }

    #[test]
    fn some_answers_are_not_the_last_word() {
        assert!([200, 204, 302, 400, 404, 409, 422].into_iter().all(is_final));
        assert!(![408, 425, 429, 500, 502, 503, 504].into_iter().any(is_final));
    }
}
