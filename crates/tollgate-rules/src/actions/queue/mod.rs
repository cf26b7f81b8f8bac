//! Queues of requests that may proceed later (`then: queue`, `then: delay`, a request's own
//! patience).
//!
//! Each rule with waiting requests has a [`WaitQueue`] with one key queue per key; all keys share
//! the capacity of the rule. A request waits in one of two ways:
//!
//! - **with a slot.** A rate limit that allows a request later charges it at once and returns the
//!   time. These times are stored in [`slots`]; the [order](queue_order) of the queue assigns
//!   requests to them, so a request that wakes late delays no other.
//! - **retrying.** The time when a permit of a concurrency limit becomes free is unknown. A refused
//!   request waits without being charged; the first one retries when capacity may have become free,
//!   and no later request overtakes it.
//!
//! No task or thread is needed: the first request of a key queue also waits for the clock, and when
//! it leaves, the next one is woken to do so. A request stays in its queue as long as its future
//! lives.

mod accepted_after;
mod admit;
mod queue_entry;
mod queue_guard;
mod queue_occupancy;
mod queue_order;
mod queue_spec;
mod queue_state;
mod slots;

use std::sync::Arc;

pub use admit::QueuedRequest;
pub(crate) use queue_spec::AttemptKind;

use crate::compile::domain::{CompiledDomain, CompiledRule, Domain};
use crate::compile::policy::Then;
use crate::decide::decision::{Decision, Reason};
use crate::decide::held_charges::HeldCharges;
use crate::matching::rule_checks::RuleChecks;
use queue_state::{QueueState, Wakers};
use tollgate::sync::{AtomicUsize, Mutex, Ordering, RwLock};

/// The queues of all rules that have waiting requests.
#[derive(Debug, Default)]
pub(crate) struct WaitQueues {
    queues: RwLock<Vec<Arc<WaitQueue>>>,
    /// The number of waiting requests in all queues.
    waiting_count: AtomicUsize,
}

/// The queue of one rule.
#[derive(Debug)]
struct WaitQueue {
    domain: Box<str>,
    rule: Box<str>,
    /// The name of the rule's counters, which other rules may share.
    bucket: Box<str>,
    state: Mutex<QueueState>,
}

/// The number of requests that wait for a rule.
///
/// ```
/// use tollgate_rules::RuleLimiter;
/// let limiter = RuleLimiter::new("rules: [{ name: api, limit: 10/s }]".parse()?);
/// assert!(limiter.status().queues().is_empty());
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueLength {
    /// The domain of the rule.
    pub domain: String,
    /// The name of the rule.
    pub rule: String,
    /// The number of requests that wait for it.
    pub waiting: usize,
}

impl WaitQueue {
    fn new(rules: &CompiledDomain, rule: &CompiledRule) -> WaitQueue {
        let (domain, bucket) = (rules.domain.clone(), rule.bucket.clone());
        WaitQueue { domain, rule: rule.name.clone(), bucket, state: Mutex::default() }
    }

    fn is_for(&self, domain: &str, rule: &str) -> bool {
        *self.rule == *rule && *self.domain == *domain
    }

    /// Changes the state under its lock, then wakes the affected requests.
    fn with<T>(&self, act: impl FnOnce(&mut QueueState, &mut Wakers) -> T) -> T {
        let mut wakers = Wakers::new();
        let done = act(&mut self.state.lock(), &mut wakers);
        wake(wakers);
        done
    }
}

impl WaitQueues {
    /// Whether any request waits.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting_count.load(Ordering::Relaxed) > 0
    }

    fn find(&self, domain: &str, rule: &str) -> Option<Arc<WaitQueue>> {
        self.queues.read().iter().find(|queue| queue.is_for(domain, rule)).cloned()
    }

    /// Adds a request to the queue of a rule. The queue is created if needed, and stays if the
    /// request joined.
    fn join<T, E>(
        &self,
        rules: &CompiledDomain,
        rule: &CompiledRule,
        act: impl FnOnce(&mut QueueState, &mut Wakers) -> Result<T, E>,
    ) -> Result<(Arc<WaitQueue>, T), E> {
        let mut queues = self.queues.write();
        let existing = queues.iter().find(|queue| queue.is_for(&rules.domain, &rule.name)).cloned();
        let queue = existing.unwrap_or_else(|| {
            let queue = Arc::new(WaitQueue::new(rules, rule));
            queues.push(queue.clone());
            queue
        });
        // The request counts as waiting before it retries, so a permit released after that wakes
        // it.
        self.waiting_count.fetch_add(1, Ordering::Relaxed);
        let mut wakers = Wakers::new();
        let joined = act(&mut queue.state.lock(), &mut wakers);
        drop(queues);
        wake(wakers);
        if joined.is_err() {
            self.remove_one(&queue);
        }
        joined.map(|joined| (queue, joined))
    }

    /// Counts one request less and removes the queue if it is empty.
    fn remove_one(&self, queue: &Arc<WaitQueue>) {
        self.waiting_count.fetch_sub(1, Ordering::Relaxed);
        if queue.state.lock().is_empty() {
            let mut queues = self.queues.write();
            if queue.state.lock().is_empty() {
                queues.retain(|other| !Arc::ptr_eq(other, queue));
            }
        }
    }

    /// Refuses an arriving request that must not reach the store, because its queue is full or it
    /// would overtake waiting requests.
    #[cold]
    pub(crate) fn refuse_arrival(
        &self,
        domain: &Domain,
        request_checks: &RuleChecks<'_>,
    ) -> Option<Decision> {
        let compiled = &domain.compiled;
        for rule_check in request_checks.rule_checks.iter().filter(|rule_check| rule_check.enforced)
        {
            let rule = &compiled.rules[rule_check.rule as usize];
            if rule.then.patience().max(request_checks.patience).is_zero() {
                continue;
            }
            let Some(queue) = self.find(&compiled.domain, &rule.name) else { continue };
            let key = &request_checks.keys[rule_check.key.clone()];
            // The tenant is not known yet: assume one that has no waiting request.
            let share_key = if rule.fair.is_some() { &[][..] } else { key };
            let (capacity, lifo) = capacity_of(&rule.then);
            let state = queue.state.lock();
            let is_closed = match request_checks.attempt {
                // The request has a queue position already.
                AttemptKind::Alternative(..) => state.has_retrying_entry(key, lifo),
                _ => state.refuses(key, share_key, capacity, lifo),
            };
            if is_closed {
                let (rules, code) = (Some(compiled.clone()), rule.then.status());
                let mut refusal =
                    Decision::plain(false, Reason::OverLimit, code, Some(rule_check.rule), rules);
                refusal.key = Some(key.into());
                return Some(refusal);
            }
        }
        None
    }

    /// Wakes the requests that wait for permits which were just released.
    pub(crate) fn released(&self, held: &HeldCharges) {
        if !self.has_waiting() {
            return;
        }
        let mut wakers = Wakers::new();
        let rules = &held.rules;
        for charge in &held.charges {
            let Some(CompiledRule { bucket, .. }) = rules.rules.get(charge.rule as usize) else {
                continue;
            };
            let queues = self.queues.read();
            let shares =
                |queue: &&Arc<WaitQueue>| queue.bucket == *bucket && queue.domain == rules.domain;
            let shared = queues.iter().filter(shares);
            shared.for_each(|queue| queue.state.lock().notify(&charge.key, &mut wakers));
        }
        wake(wakers);
    }

    /// Wakes the first request of every key: any capacity may have become free.
    pub(crate) fn wake_all(&self) {
        if self.has_waiting() {
            let mut wakers = Wakers::new();
            self.queues.read().iter().for_each(|queue| queue.state.lock().wake_all(&mut wakers));
            wake(wakers);
        }
    }

    /// Returns the queue length of each rule that has waiting requests.
    pub(crate) fn waiting(&self) -> Vec<QueueLength> {
        let queues = self.queues.read();
        let count = |queue: &Arc<WaitQueue>| QueueLength {
            domain: queue.domain.to_string(),
            rule: queue.rule.to_string(),
            waiting: queue.state.lock().waiting(),
        };
        queues.iter().map(count).collect()
    }
}

/// Wakes tasks with no lock held, because some executors run them right there.
fn wake(wakers: Wakers) {
    wakers.into_iter().for_each(|waker| waker.wake());
}

/// Returns the capacity of a rule's queue, and whether the newest request goes first.
fn capacity_of(then: &Then) -> (u64, bool) {
    match then {
        Then::Queue(queue) => (queue.capacity, queue.lifo),
        _ => (u64::MAX, false),
    }
}
