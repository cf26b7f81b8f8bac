//! The maintenance of a limiter: renews leases of long requests, returns what dropped guards hold.
//!
//! A lease expires, so that a permit is not lost with its process. Permits of longer requests are
//! listed here, and a single task runs the [`Maintenance`] for all requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::{Span, Time};

use crate::decide::admission::{AdmissionLimiter, AdmissionState};
use crate::decide::limiter::LimiterState;
use tollgate::Store;

/// The number of lists, so that threads seldom contend for one.
const SHARDS: usize = 16;
/// The longest time between two runs.
const LONGEST_PAUSE: Span = Span::from_secs(1);

/// All admissions whose leases are renewed.
#[derive(Debug)]
pub(crate) struct Leases {
    shards: [Mutex<HashMap<u64, LeaseEntry>>; SHARDS],
    /// The shortest renewal interval.
    shortest_ns: AtomicU64,
    /// Whether a task runs the [`Maintenance`].
    is_maintained: AtomicBool,
}

#[derive(Clone, Debug)]
struct LeaseEntry {
    admission: Weak<AdmissionState>,
    /// The time of the next renewal, and the interval after it.
    at: Time,
    every: Span,
}

impl Default for Leases {
    fn default() -> Leases {
        Leases {
            shards: Default::default(),
            shortest_ns: AtomicU64::new(LONGEST_PAUSE.as_nanos()),
            is_maintained: AtomicBool::new(false),
        }
    }
}

impl Leases {
    fn shard(&self, lease: u64) -> &Mutex<HashMap<u64, LeaseEntry>> {
        &self.shards[lease as usize % SHARDS]
    }

    pub(crate) fn add(&self, lease: u64, admission: Weak<AdmissionState>, lasts: Span, now: Time) {
        let every = Span::from_nanos(lasts.as_nanos() / 3);
        self.shortest_ns.fetch_min(every.as_nanos(), Ordering::Relaxed);
        self.shard(lease).lock().insert(lease, LeaseEntry { admission, at: now + every, every });
    }

    pub(crate) fn remove(&self, lease: u64) {
        self.shard(lease).lock().remove(&lease);
    }

    fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().is_empty())
    }
}

impl<S: Store> LimiterState<S> {
    /// Returns what dropped guards hold, and renews leases of which a third has passed. Returns
    /// when to run again; none if there are no leases.
    pub(crate) async fn maintain(&self) -> Option<Duration> {
        self.return_all().await;
        let mut is_empty = true;
        for shard in &self.leases.shards {
            let due: Vec<(u64, LeaseEntry)> = {
                let now = self.clock.now();
                let mut entries = shard.lock();
                is_empty &= entries.is_empty();
                let due = entries.iter_mut().filter(|(_, entry)| entry.at <= now);
                let due = due.map(|(lease, entry)| {
                    entry.at = now + entry.every;
                    (*lease, entry.clone())
                });
                due.collect()
            };
            for (lease, entry) in due {
                let Some(admission) = entry.admission.upgrade() else { continue };
                // The store reports its failures itself; the renewal is retried soon.
                if admission.held.renew(self).await.is_err()
                    && let Some(entry) = shard.lock().get_mut(&lease)
                {
                    entry.at = self.clock.now();
                }
            }
        }
        let again = Span::from_nanos(self.leases.shortest_ns.load(Ordering::Relaxed));
        (!is_empty).then(|| again.into())
    }
}

/// The maintenance of a limiter: renews leases of long requests, returns what dropped guards hold.
///
/// ```
/// use std::time::Duration;
/// use tollgate::testing::ManualClock;
/// use tollgate_rules::{Request, RuleLimiter};
///
/// # futures_lite(async {
/// let clock = ManualClock::new();
/// let rules = "rules: [{ name: db, limit: 1 concurrent lease 30s }]".parse().unwrap();
/// let limiter = RuleLimiter::builder().clock(&clock).build(rules);
/// let admission = limiter.decide_now(&Request::empty()).take_admission().unwrap();
/// let mut maintenance = admission.maintenance().unwrap();
/// for _ in 0..10 {
///     assert_eq!(maintenance.run().await, Some(Duration::from_secs(1)));
///     clock.advance(Duration::from_secs(15)); // or tokio::time::sleep
/// }
/// assert!(!limiter.decide_now(&Request::empty()).allowed);
/// drop(admission);
/// assert_eq!(maintenance.run().await, None);
/// assert!(limiter.decide_now(&Request::empty()).allowed);
/// # });
/// # fn futures_lite(future: impl Future<Output = ()>) {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
/// # }
/// ```
#[must_use = "leases are renewed only while it runs"]
pub struct Maintenance {
    limiter: Arc<dyn AdmissionLimiter>,
    is_over: bool,
}

impl Maintenance {
    /// Claims the maintenance of a limiter, unless another task runs it.
    pub(crate) fn claim(limiter: &Arc<dyn AdmissionLimiter>) -> Option<Maintenance> {
        let is_taken = limiter.leases().is_maintained.swap(true, Ordering::AcqRel);
        (!is_taken).then(|| Maintenance { limiter: limiter.clone(), is_over: false })
    }

    /// Does what is due and returns when to call it again; none if nothing is left to maintain.
    ///
    /// After it has returned none, a later admission provides a new maintenance.
    pub async fn run(&mut self) -> Option<Duration> {
        while !self.is_over {
            if let Some(again) = self.limiter.maintain().await {
                return Some(again);
            }
            let leases = self.limiter.leases();
            leases.is_maintained.store(false, Ordering::Release);
            // A lease that was added meanwhile found the maintenance taken, so this task takes it
            // again.
            self.is_over = leases.is_empty() || leases.is_maintained.swap(true, Ordering::AcqRel);
        }
        None
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        if !self.is_over {
            self.limiter.leases().is_maintained.store(false, Ordering::Release);
        }
    }
}

impl std::fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maintenance").field("is_over", &self.is_over).finish()
    }
}
