//! Leased: a node charges a chunk at the store and spends it here.
//!
//! Limits with chunks are token buckets (and GCRA) without options, and fixed windows; all others
//! are decided at the store, whatever their rule says.
//!
//! # Never over
//!
//! In no interval `t` do all nodes together admit more than `B + r * t`, just as if every request
//! had asked the store. In a fixed window that is plain: what is spent was charged in that window,
//! and a chunk ends with it. In a token bucket charged units come back one after the other, in the
//! order in which they were charged. A chunk that was charged when the store said "full again at
//! `end`" stands for the last units before `end`; those whose turn has come are no longer charged,
//! and may not be spent (`Chunk::unlapsed`). So every unit that is spent has a place of its own in
//! that queue, ahead of now and no further ahead than the bucket is deep, and an interval `t` has
//! room for `B + r * t` of them.
//!
//! Giving a chunk back shortens the queue, so that what others hold comes back sooner than they
//! think. That would matter only once everything that was really *spent* has come back. So a chunk
//! lives no longer than `LIFE`, and goes back only if what this node alone has spent is owed for
//! longer than that: then no chunk that is out can live to see it. What cannot go back comes back
//! by itself; it is no more than is refilled in about `LIFE`, since chunks are no larger than what
//! their node has just spent twice over.
//!
//! Two things come on top, as the nodes cannot know of them: what users gave back within the time
//! the bucket takes to fill, and after a reset the chunks that are out, within `LIFE`.
//!
//! # Sometimes under
//!
//! A request may be refused although others hold units they have no use for: at most one chunk for
//! each node and key, for at most `LIFE` where it goes back. A chunk starts at what is asked for,
//! doubles when it was used up quickly, is cut to what was used when the rest went back, and is
//! never more than an eighth of what is left. Once the store has nothing left, or less than comes back
//! within 10 ms (or a sixteenth of the time the bucket takes to fill), a node asks again after the
//! time to retry, no sooner than after those 10 ms, and then for its share of all there is: so much
//! may lie there unused for as long.

mod chunk;
mod purse;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tollgate::state::State;
use tollgate::{Action, Call, Check, Engine, Limit, Span, StoreError, Time, Verdict};
use tollgate_core::Algorithm;

use super::batch::{Item, run_all};
use super::judge::Moment;
use super::name::Name;
use super::shards::Shards;
use super::truth::Truth;
use purse::Purse;

/// So many counters are leased at most; others are decided at the store.
const MOST: usize = 1 << 16;

/// The chunks of a node.
#[derive(Debug)]
pub(crate) struct Leases<T> {
    truth: Arc<T>,
    table: Shards<Arc<Lease>>,
    nodes: Arc<AtomicU64>,
}

/// A counter that chunks are taken from.
#[derive(Debug)]
pub(crate) struct Lease {
    name: Name,
    limit: Arc<Limit>,
    purse: Mutex<Purse>,
    /// Held by the one who asks the store; the others wait for what comes of it.
    asking: tokio::sync::Mutex<()>,
    /// How many units are waited for.
    waiting: AtomicU64,
}

/// A verdict, and when it was made, by the store's clock.
pub(crate) type Taken = (Verdict, Time);

/// Whether a limit has chunks.
fn has_chunks(limit: &Limit) -> bool {
    match limit.engine() {
        Engine::Meter(meter) => meter.as_plain().is_some(),
        Engine::FixedWindow(window) => !window.counts_denied(),
        _ => false,
    }
}

/// Somebody waits for so many units.
struct Waiting<'a>(&'a AtomicU64, u64);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicU64, units: u64) -> Waiting<'a> {
        waiting.fetch_add(units, Ordering::Relaxed);
        Waiting(waiting, units)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl<T: Truth> Leases<T> {
    pub(crate) fn new(truth: Arc<T>, nodes: Arc<AtomicU64>) -> Leases<T> {
        Leases { truth, table: Shards::new(MOST), nodes }
    }

    /// The lease of a check; none if it has to be decided at the store.
    pub(crate) fn open(&self, check: &Check<'_>) -> Option<Arc<Lease>> {
        // What must be left, only the store can tell.
        let is_spent_here = has_chunks(check.limit) && check.reserve.is_none();
        if !is_spent_here || check.cost == 0 || check.cost > check.limit.capacity() {
            return None;
        }
        let name = Name::of(check)?;
        let mut shard = self.table.of(&name);
        match shard.get(&name) {
            Some(lease) if *lease.limit == *check.limit => return Some(lease.clone()),
            None if !self.table.has_room(&shard) => return None,
            // What is held under another limit comes back by itself.
            _ => {}
        }
        let lease = Arc::new(Lease {
            name: name.clone(),
            limit: Arc::new(check.limit.clone()),
            purse: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            waiting: AtomicU64::new(0),
        });
        shard.insert(name, lease.clone());
        Some(lease)
    }

    fn decide(&self, lease: &Lease, check: &Check<'_>, max_wait: Span) -> Option<Taken> {
        let now = Moment::of(&*self.truth, check)?;
        let patience = self.truth.patience();
        let verdict = lease.purse.lock().decide(check, max_wait, now, patience)?;
        Some((verdict, now.store))
    }

    /// Takes what a check asks for, from here or, with a chunk, from the store.
    pub(crate) async fn take(
        &self,
        lease: &Lease,
        check: &Check<'_>,
        max_wait: Span,
    ) -> Result<Taken, StoreError> {
        if let Some(taken) = self.decide(lease, check, max_wait) {
            return Ok(taken);
        }
        let failures = lease.purse.lock().failures();
        let _waiting = Waiting::new(&lease.waiting, check.cost);
        let _asking = lease.asking.lock().await;
        if let Some(taken) = self.decide(lease, check, max_wait) {
            return Ok(taken);
        }
        // Who waited for somebody else's question shares its fate.
        if let Some(error) = lease.purse.lock().failed_since(failures) {
            return Err(error);
        }
        let asked = self.ask(lease, check, max_wait).await;
        asked.inspect_err(|error| lease.purse.lock().fail(error))
    }

    async fn ask(
        &self,
        lease: &Lease,
        check: &Check<'_>,
        max_wait: Span,
    ) -> Result<Taken, StoreError> {
        let truth = &*self.truth;
        let plan = {
            let (waiting, nodes) =
                (lease.waiting.load(Ordering::Relaxed), self.nodes.load(Ordering::Relaxed));
            let now = Moment::of(truth, check);
            lease.purse.lock().plan(check, waiting, nodes, now, truth.patience())
        };
        if plan.back > 0 {
            let back = Check { cost: plan.back, ..*check };
            truth.run(Call { action: Action::Refund, checks: &[back] }).await?;
        }
        let mut size = plan.size;
        loop {
            let asked_at = truth.clock().now();
            let max_wait = if size == check.cost { max_wait } else { Span::ZERO };
            let chunk = Check { cost: size, ..*check };
            let call = Call { action: Action::Take { max_wait }, checks: &[chunk] };
            let outcome = truth.run(call).await?;
            // Others were quicker: there may still be enough for this one.
            if !outcome.verdicts[0].allowed && size > check.cost {
                size = check.cost;
                continue;
            }
            let (at, here) = (outcome.now, truth.clock().now());
            let verdict = lease.purse.lock().receive(check, size, outcome, asked_at, here);
            return Ok((verdict, at));
        }
    }

    /// Puts back what was taken for a request that another check refused; false if that is up to
    /// the store.
    pub(crate) fn give_back(&self, lease: &Lease, check: &Check<'_>) -> bool {
        let now = Moment::of(&*self.truth, check);
        now.is_some_and(|now| lease.purse.lock().give_back(check.limit, check.cost, now))
    }

    /// Something was given back at the store.
    pub(crate) fn refunded(
        &self,
        lease: &Lease,
        check: &Check<'_>,
        state: Option<State>,
        now: Time,
    ) {
        lease.purse.lock().refunded(check.limit, check.cost, state, now);
    }

    /// How a counter stands, what is held here counted as left.
    pub(crate) fn stands(&self, lease: &Lease, check: &Check<'_>) -> Option<Verdict> {
        let now = self.truth.latest(check)?;
        Some(lease.purse.lock().allowed(check.limit, now))
    }

    /// The state of a counter, given that at the store, what is held here counted as left.
    pub(crate) fn with_ours(
        &self,
        lease: &Lease,
        check: &Check<'_>,
        state: &Option<State>,
        now: Time,
    ) -> Option<State> {
        let now = Moment { store: now, here: self.truth.clock().now() };
        lease.purse.lock().with_ours(check.limit, state, now)
    }

    /// Everything was reset.
    pub(crate) fn clear(&self, check: &Check<'_>) {
        let Some(name) = Name::of(check) else { return };
        if let Some(lease) = self.table.of(&name).get(&name) {
            lease.purse.lock().clear();
        }
    }

    /// Brings back what is left of chunks that have aged, or of all, and forgets idle counters.
    pub(crate) async fn tidy(&self, all: bool) {
        let truth = &*self.truth;
        let (here, patience) = (truth.clock().now(), truth.patience());
        let mut back = Vec::new();
        for mut shard in self.table.each() {
            shard.retain(|_, lease| {
                let mut purse = lease.purse.lock();
                if !purse.has_aged(here) && !all {
                    return !purse.is_idle(here) || Arc::strong_count(lease) > 1;
                }
                let latest = truth.latest(&lease.name.check(&lease.limit, 0));
                let units = latest.map_or(0, |store| {
                    purse.bring_back(&lease.limit, Moment { store, here }, patience)
                });
                if units > 0 {
                    let (name, limit) = (lease.name.clone(), lease.limit.clone());
                    back.push(Item { name, limit, cost: units });
                }
                true
            });
        }
        for (_, outcome) in run_all(truth, Action::Refund, back).await {
            if let Err(error) = outcome {
                tracing::debug!(%error, "chunks that were not used come back by themselves only");
            }
        }
    }
}
