//! Places of requests that take long: their leases are renewed for as long as somebody is at work.
//!
//! A lease ends by itself, so that a place is not lost with whoever held it. A request that is in
//! flight for longer must say so in time. Those that are [kept](RuleLimiter::keep) are listed here,
//! and whoever runs the limiter calls [`RuleLimiter::renew_due`] now and then: there is one such
//! task for all requests, not one for each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::{Span, Time};

use super::decision::Decision;
use super::held::Held;
use super::limiter::RuleLimiter;
use super::room::return_all;
use crate::{Store, StoreError};

/// Threads that keep and let go of requests seldom meet in one of so many lists.
const SHARDS: usize = 16;
/// Leases are looked at this often, or more.
const OFTEN: Span = Span::from_secs(1);

/// All requests whose leases are renewed.
#[derive(Debug)]
pub(crate) struct Leases {
    shards: [Mutex<HashMap<u64, Entry>>; SHARDS],
    /// How often the shortest of them is to be renewed.
    shortest_ns: AtomicU64,
    is_tended: AtomicBool,
}

#[derive(Clone, Debug)]
struct Entry {
    held: Held,
    /// Renewed at this time, and again after so long.
    at: Time,
    every: Span,
}

impl Default for Leases {
    fn default() -> Leases {
        Leases {
            shards: Default::default(),
            shortest_ns: AtomicU64::new(OFTEN.as_nanos()),
            is_tended: AtomicBool::new(false),
        }
    }
}

impl Leases {
    fn shard(&self, lease: u64) -> &Mutex<HashMap<u64, Entry>> {
        &self.shards[lease as usize % SHARDS]
    }
}

/// A request whose places are kept for it. Dropped, it is on its own again: its places are free
/// when they are [released](RuleLimiter::done), or when their leases end.
#[derive(Debug)]
pub struct Keeping<S> {
    limiter: RuleLimiter<S>,
    lease: u64,
}

impl<S> Drop for Keeping<S> {
    fn drop(&mut self) {
        self.limiter.0.leases.shard(self.lease).lock().remove(&self.lease);
    }
}

impl<S: Store> RuleLimiter<S> {
    /// Keeps the places of a request that was let through, for as long as the answer lives, however
    /// long that is: [`renew_due`](RuleLimiter::renew_due) renews their leases. None if it has no
    /// places.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::testing::ManualClock;
    /// use tollgate::{Limiter, Request};
    ///
    /// let clock = ManualClock::new();
    /// let rules = "rules: [{ name: db, limit: 1 concurrent lease 30s }]".parse()?;
    /// let limiter = Limiter::builder().clock(&clock).build_rules(rules);
    /// let keeping = limiter.keep(&limiter.decide(&Request::empty()));
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// for _ in 0..10 {
    ///     clock.advance(Duration::from_secs(15));
    ///     // limiter.renew_due().await
    /// #   assert!(std::pin::pin!(limiter.renew_due()).poll(&mut context).is_ready());
    /// }
    /// assert!(!limiter.decide(&Request::empty()).allowed);
    /// drop(keeping);
    /// clock.advance(Duration::from_secs(30));
    /// assert!(limiter.decide(&Request::empty()).allowed);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn keep(&self, decision: &Decision) -> Option<Keeping<S>> {
        let held = decision.held.as_ref()?;
        let every = Span::from_nanos(held.shortest_lease()?.as_nanos() / 3);
        let (leases, lease) = (&self.0.leases, held.lease());
        let entry = Entry { held: held.places_only(), at: self.0.clock.now() + every, every };
        leases.shortest_ns.fetch_min(every.as_nanos(), Ordering::Relaxed);
        leases.shard(lease).lock().insert(lease, entry);
        Some(Keeping { limiter: self.clone(), lease })
    }

    /// Starts the leases of a request's places anew, if they have not ended.
    pub async fn renew(&self, decision: &Decision) -> Result<(), StoreError> {
        match &decision.held {
            Some(held) => held.renew(&self.0).await,
            None => Ok(()),
        }
    }

    /// Renews the leases of all requests that are [kept](RuleLimiter::keep), once a third of them
    /// is over. Says when to call it again; none if nobody is kept.
    pub async fn renew_due(&self) -> Option<Duration> {
        return_all(&self.0).await;
        let leases = &self.0.leases;
        let mut is_empty = true;
        for shard in &leases.shards {
            let due: Vec<(u64, Entry)> = {
                let now = self.0.clock.now();
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
                // A store that does not answer is the store's to report, and asked again soon.
                if entry.held.renew(&self.0).await.is_err()
                    && let Some(entry) = shard.lock().get_mut(&lease)
                {
                    entry.at = self.0.clock.now();
                }
            }
        }
        let again = Span::from_nanos(leases.shortest_ns.load(Ordering::Relaxed));
        (!is_empty).then(|| again.into())
    }

    /// Whether the caller is the one to call [`renew_due`](RuleLimiter::renew_due) from now on, and
    /// until it says that [nobody is kept](RuleLimiter::is_tended_no_more).
    pub fn is_to_be_tended(&self) -> bool {
        !self.0.leases.is_tended.swap(true, Ordering::AcqRel)
    }

    /// Nobody was kept when last asked: the caller may stop. Not if somebody came meanwhile, and
    /// nobody else tends them.
    pub fn is_tended_no_more(&self) -> bool {
        let leases = &self.0.leases;
        leases.is_tended.store(false, Ordering::Release);
        let is_kept = leases.shards.iter().any(|shard| !shard.lock().is_empty());
        !(is_kept && self.is_to_be_tended())
    }
}
