//! Leased limits: a node charges a chunk at the store and spends it locally.
//!
//! Token buckets (and GCRA) without options and fixed windows have chunks. All other limits are
//! decided at the store, whatever their rule says.
//!
//! # Never over
//!
//! In no interval `t` do all nodes together admit more than `B + r * t`, as if the store decided
//! every request. In a fixed window this is plain: what is spent was charged in that window, and a
//! chunk ends with it. In a token bucket, charged units refill one after the other, in the order in
//! which they were charged. A chunk that was charged when the store said "full again at `end`" stands
//! for the last units before `end`. Units that have refilled are no longer charged, and may not be
//! spent (`Chunk::unexpired`). So every unit that is spent has its own position in that queue, ahead
//! of now and no further ahead than the bucket is deep, and an interval `t` covers `B + r * t`
//! positions.
//!
//! Giving a chunk back shortens the queue, so that units of other nodes refill sooner than they
//! assume. This matters only once everything that was really *spent* has refilled. So a chunk lives
//! no longer than `LIFE`, and is given back only if what this node alone has spent is owed for longer
//! than that: no chunk of another node lives that long. Units that cannot be given back refill by
//! themselves. They are no more than refills in about `LIFE`, since a chunk is at most twice what its
//! node has just spent.
//!
//! Two things come on top, because the nodes cannot know of them: units that users gave back within
//! the time the bucket takes to fill, and after a reset the chunks of all nodes, within `LIFE`.
//!
//! # Sometimes under
//!
//! A request may be refused while other nodes have units they do not need: at most one chunk for
//! each node and key, for at most `LIFE` where it is given back. A chunk starts at the cost of the
//! request, doubles when it is used up quickly, is cut to what was used when the rest is given back,
//! and is never more than an eighth of what is left. Once the store has nothing left, or less than
//! refills within 10 ms (or a sixteenth of the time the bucket takes to fill), a node asks again after
//! the time to retry, but no sooner than after those 10 ms, and then for its share of all there is:
//! this much may lie unused for as long.

mod chunk;
mod lease_balance;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tollgate::state::State;
use tollgate::{Action, Check, Limit, LimitAlgorithm, Span, StoreCall, StoreError, Time, Verdict};
use tollgate_core::Algorithm;

use crate::backend::Backend;
use crate::local::batch::{BatchItem, run_all};
use crate::local::counter_name::CounterName;
use crate::local::decision::ClockReading;
use crate::local::sharded_table::ShardedTable;
use lease_balance::LeaseBalance;

/// The maximum number of leased counters; others are decided at the store.
const MAX_LEASES: usize = 1 << 16;

/// The leases of a node.
#[derive(Debug)]
pub(crate) struct LeaseTable<T> {
    backend: Arc<T>,
    table: ShardedTable<Arc<Lease>>,
    nodes: Arc<AtomicU64>,
}

/// A counter of which this node takes chunks.
#[derive(Debug)]
pub(crate) struct Lease {
    name: CounterName,
    limit: Arc<Limit>,
    balance: Mutex<LeaseBalance>,
    /// Locked by the task that asks the store; others wait for its chunk.
    refill: tokio::sync::Mutex<()>,
    /// The number of units that requests wait for.
    waiting: AtomicU64,
}

/// A verdict and its time, by the store's clock.
pub(crate) type TimedVerdict = (Verdict, Time);

/// Returns whether a limit has chunks.
fn has_chunks(limit: &Limit) -> bool {
    match limit.algorithm() {
        LimitAlgorithm::Meter(meter) => meter.as_plain().is_some(),
        LimitAlgorithm::FixedWindow(window) => !window.counts_denied(),
        _ => false,
    }
}

/// Counts units that a request waits for, until it is dropped.
struct WaitingUnits<'a>(&'a AtomicU64, u64);

impl<'a> WaitingUnits<'a> {
    fn new(waiting: &'a AtomicU64, units: u64) -> WaitingUnits<'a> {
        waiting.fetch_add(units, Ordering::Relaxed);
        WaitingUnits(waiting, units)
    }
}

impl Drop for WaitingUnits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl<T: Backend> LeaseTable<T> {
    pub(crate) fn new(backend: Arc<T>, nodes: Arc<AtomicU64>) -> LeaseTable<T> {
        LeaseTable { backend, table: ShardedTable::new(MAX_LEASES), nodes }
    }

    /// Returns the lease of a check; `None` if the check must be decided at the store.
    pub(crate) fn open(&self, check: &Check<'_>) -> Option<Arc<Lease>> {
        // Only the store knows whether a reserve is left.
        let can_lease = has_chunks(check.limit) && check.reserve.is_none();
        if !can_lease || check.cost == 0 || check.cost > check.limit.capacity() {
            return None;
        }
        let name = CounterName::from_check(check)?;
        let mut shard = self.table.shard(&name);
        match shard.get(&name) {
            Some(lease) if *lease.limit == *check.limit => return Some(lease.clone()),
            None if !self.table.has_capacity(&shard) => return None,
            // Units held under another limit refill at the store by themselves.
            _ => {}
        }
        let lease = Arc::new(Lease {
            name: name.clone(),
            limit: Arc::new(check.limit.clone()),
            balance: Mutex::default(),
            refill: tokio::sync::Mutex::default(),
            waiting: AtomicU64::new(0),
        });
        shard.insert(name, lease.clone());
        Some(lease)
    }

    fn decide(&self, lease: &Lease, check: &Check<'_>, max_wait: Span) -> Option<TimedVerdict> {
        let now = ClockReading::now(&*self.backend, check)?;
        let patience = self.backend.patience();
        let verdict = lease.balance.lock().decide(check, max_wait, now, patience)?;
        Some((verdict, now.store))
    }

    /// Takes the cost of a check from the chunk, or from a new chunk of the store.
    pub(crate) async fn take(
        &self,
        lease: &Lease,
        check: &Check<'_>,
        max_wait: Span,
    ) -> Result<TimedVerdict, StoreError> {
        if let Some(taken) = self.decide(lease, check, max_wait) {
            return Ok(taken);
        }
        let failures = lease.balance.lock().failures();
        let _waiting = WaitingUnits::new(&lease.waiting, check.cost);
        let _guard = lease.refill.lock().await;
        if let Some(taken) = self.decide(lease, check, max_wait) {
            return Ok(taken);
        }
        // A request that waited for another's refill shares its error.
        if let Some(error) = lease.balance.lock().failed_since(failures) {
            return Err(error);
        }
        let refilled = self.refill(lease, check, max_wait).await;
        refilled.inspect_err(|error| lease.balance.lock().fail(error))
    }

    async fn refill(
        &self,
        lease: &Lease,
        check: &Check<'_>,
        max_wait: Span,
    ) -> Result<TimedVerdict, StoreError> {
        let backend = &*self.backend;
        let plan = {
            let (waiting, nodes) =
                (lease.waiting.load(Ordering::Relaxed), self.nodes.load(Ordering::Relaxed));
            let now = ClockReading::now(backend, check);
            lease.balance.lock().plan(check, waiting, nodes, now, backend.patience())
        };
        if plan.back > 0 {
            let back = Check { cost: plan.back, ..*check };
            backend.run(StoreCall { action: Action::Refund, checks: &[back] }).await?;
        }
        let mut size = plan.size;
        loop {
            let requested_at = backend.clock().now();
            let max_wait = if size == check.cost { max_wait } else { Span::ZERO };
            let chunk = Check { cost: size, ..*check };
            let call = StoreCall { action: Action::Take { max_wait }, checks: &[chunk] };
            let outcome = backend.run(call).await?;
            // Other nodes were quicker, but there may still be enough for this check alone.
            if !outcome.verdicts[0].allowed && size > check.cost {
                size = check.cost;
                continue;
            }
            let (at, local) = (outcome.now, backend.clock().now());
            let verdict = lease.balance.lock().receive(check, size, outcome, requested_at, local);
            return Ok((verdict, at));
        }
    }

    /// Puts back the units of a request that another check refused; false if the store must do it.
    pub(crate) fn give_back(&self, lease: &Lease, check: &Check<'_>) -> bool {
        let now = ClockReading::now(&*self.backend, check);
        now.is_some_and(|now| lease.balance.lock().give_back(check.limit, check.cost, now))
    }

    /// Records that units were given back at the store.
    pub(crate) fn refunded(
        &self,
        lease: &Lease,
        check: &Check<'_>,
        state: Option<State>,
        now: Time,
    ) {
        lease.balance.lock().refunded(check.limit, check.cost, state, now);
    }

    /// Returns the verdict on a counter, with the units of the chunk as remaining.
    pub(crate) fn current_verdict(&self, lease: &Lease, check: &Check<'_>) -> Option<Verdict> {
        let now = self.backend.latest(check)?;
        Some(lease.balance.lock().allowed(check.limit, now))
    }

    /// Returns the state of a counter at the store, with the units of the chunk given back.
    pub(crate) fn including_chunk(
        &self,
        lease: &Lease,
        check: &Check<'_>,
        state: &Option<State>,
        now: Time,
    ) -> Option<State> {
        let now = ClockReading { store: now, local: self.backend.clock().now() };
        lease.balance.lock().including_chunk(check.limit, state, now)
    }

    /// Drops the chunk of a counter that was reset.
    pub(crate) fn clear(&self, check: &Check<'_>) {
        let Some(name) = CounterName::from_check(check) else { return };
        if let Some(lease) = self.table.shard(&name).get(&name) {
            lease.balance.lock().clear();
        }
    }

    /// Returns what is left of aged chunks, or of all, and forgets idle counters.
    pub(crate) async fn return_chunks(&self, all: bool) {
        let backend = &*self.backend;
        let (local, patience) = (backend.clock().now(), backend.patience());
        let mut back = Vec::new();
        for mut shard in self.table.each() {
            shard.retain(|_, lease| {
                let mut balance = lease.balance.lock();
                if !balance.has_aged(local) && !all {
                    return !balance.is_idle(local) || Arc::strong_count(lease) > 1;
                }
                let latest = backend.latest(&lease.name.check(&lease.limit, 0));
                let units = latest.map_or(0, |store| {
                    balance.take_returnable(&lease.limit, ClockReading { store, local }, patience)
                });
                if units > 0 {
                    let (name, limit) = (lease.name.clone(), lease.limit.clone());
                    back.push(BatchItem { name, limit, cost: units });
                }
                true
            });
        }
        for (_, outcome) in run_all(backend, Action::Refund, back).await {
            if let Err(error) = outcome {
                tracing::debug!(%error, "cannot return unused chunks; they expire by themselves");
            }
        }
    }
}
