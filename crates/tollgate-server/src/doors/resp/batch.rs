//! Batches of the decisions of a pipeline.
//!
//! A client that sends many commands at once waits for all replies anyway. Decided together, they
//! read the clock once and their memory accesses overlap.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::{Check, MemoryStore, Verdict};

use super::decision_reply;
use super::parser::ArgumentSpan;
use super::reply_buffer::ReplyBuffer;
use crate::decisions::{DecisionService, InlineLimit};
use crate::store::{AnyStore, SharedStore};
use crate::telemetry::DoorName;

/// The maximum number of decisions in a batch.
const MAX_BATCH: usize = 64;
/// The number of inline limits that a connection caches.
const CACHED_LIMITS: usize = 8;

/// The form of the reply to a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyForm {
    /// The five integers of redis-cell.
    Throttle,
    /// The five integers of throttlecrab.
    Throttlecrab,
    /// A map of named fields.
    Fields,
}

/// The decisions that wait for the end of a pipeline, and the cached limits they use.
#[derive(Debug, Default)]
pub(super) struct DecisionBatch {
    pending: Vec<PendingDecision>,
    limits: Vec<CachedLimit>,
    /// The index of the limit that the next new one replaces.
    oldest: usize,
}

/// A decision that waits to be made.
#[derive(Debug)]
struct PendingDecision {
    key: ArgumentSpan,
    cost: u64,
    limit: CachedLimitIndex,
}

/// An inline limit and the bytes it was parsed from.
#[derive(Debug)]
struct CachedLimit {
    form: ReplyForm,
    text: Box<[u8]>,
    limit: Arc<InlineLimit>,
}

/// The index of a cached limit, valid until the next one is [cached](DecisionBatch::cache_limit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CachedLimitIndex(u8);

impl DecisionBatch {
    /// Finds the cached limit that was parsed from `text`.
    #[inline]
    pub(super) fn find_limit(&self, form: ReplyForm, text: &[u8]) -> Option<CachedLimitIndex> {
        let matches = |cached: &CachedLimit| cached.form == form && *cached.text == *text;
        self.limits.iter().position(matches).map(|found| CachedLimitIndex(found as u8))
    }

    /// Caches a limit; no decision may be pending, because this may replace its limit.
    pub(super) fn cache_limit(&mut self, form: ReplyForm, text: &[u8], limit: Arc<InlineLimit>) {
        debug_assert!(self.pending.is_empty(), "pending decisions use the cache");
        let limit = CachedLimit { form, text: text.into(), limit };
        if self.limits.len() < CACHED_LIMITS {
            self.limits.push(limit);
            return;
        }
        self.limits[self.oldest] = limit;
        self.oldest = (self.oldest + 1) % CACHED_LIMITS;
    }

    /// Forgets the cached limits, which belong to a database; no decision may be pending.
    pub(super) fn clear_limits(&mut self) {
        debug_assert!(self.pending.is_empty(), "pending decisions use the cache");
        self.limits.clear();
        self.oldest = 0;
    }

    /// Adds a decision; returns whether the batch is full.
    #[inline]
    pub(super) fn push(&mut self, key: ArgumentSpan, limit: CachedLimitIndex, cost: u64) -> bool {
        self.pending.push(PendingDecision { key, cost, limit });
        self.pending.len() >= MAX_BATCH
    }

    /// Makes all pending decisions, in order; `received` contains their keys.
    #[inline]
    pub(super) async fn decide(
        &mut self,
        decisions: &DecisionService,
        received: &[u8],
        replies: &mut ReplyBuffer,
    ) {
        if self.pending.is_empty() {
            return;
        }
        match decisions.store() {
            AnyStore::Memory(store) => self.decide_now(decisions, store, received, replies),
            // Boxed: otherwise every connection would reserve the size of a whole batch.
            AnyStore::Redis(store) => {
                Box::pin(self.decide_remote(decisions, store, received, replies)).await;
            }
        }
        self.pending.clear();
    }

    fn decide_now(
        &self,
        decisions: &DecisionService,
        store: &MemoryStore,
        received: &[u8],
        replies: &mut ReplyBuffer,
    ) {
        // Filled in place: moving it would cost more than a decision.
        let mut checks = SmallVec::<[Check<'_>; MAX_BATCH]>::new();
        checks.extend(self.checks(received));
        let mut forms = self.forms();
        decisions.check_each_now(store, DoorName::Resp, &checks, |verdict| {
            if let Some(form) = forms.next() {
                write(form, &verdict, replies);
            }
        });
    }

    async fn decide_remote(
        &self,
        decisions: &DecisionService,
        store: &SharedStore,
        received: &[u8],
        replies: &mut ReplyBuffer,
    ) {
        let checks: Vec<Check<'_>> = self.checks(received).collect();
        let verdicts = decisions.check_each(store, DoorName::Resp, &checks).await;
        for (form, verdict) in self.forms().zip(verdicts) {
            match verdict {
                Ok(verdict) => write(form, &verdict, replies),
                Err(error) => replies.error(&format!("ERR {error}")),
            }
        }
    }

    fn checks<'c>(&'c self, received: &'c [u8]) -> impl Iterator<Item = Check<'c>> {
        self.pending.iter().map(|decision| {
            let cached = &self.limits[usize::from(decision.limit.0)];
            cached.limit.check(decision.key.slice(received), decision.cost)
        })
    }

    fn forms(&self) -> impl Iterator<Item = ReplyForm> {
        self.pending.iter().map(|decision| self.limits[usize::from(decision.limit.0)].form)
    }
}

#[inline]
fn write(form: ReplyForm, verdict: &Verdict, replies: &mut ReplyBuffer) {
    match form {
        ReplyForm::Fields => decision_reply::write_limit(verdict, replies),
        ReplyForm::Throttle => replies.throttle(verdict),
        ReplyForm::Throttlecrab => replies.throttlecrab(verdict),
    }
}
