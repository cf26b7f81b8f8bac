//! Several inline limits of one key, which are decided together: all or none.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::state::refusal;
use tollgate::{
    Action, Check, LimitSummary, Span, Store, StoreCall, StoreError, Verdict, Verdicts,
};

use super::{DecisionService, InlineLimit, InlineLimitError};
use crate::telemetry::DoorName;

/// The inline limits of one call: at least one, and no two that share a counter.
#[derive(Clone, Debug)]
pub(crate) struct InlineLimitList(SmallVec<[Arc<InlineLimit>; 1]>);

/// The reason why texts are not a list of inline limits.
#[derive(Clone, Debug)]
pub(crate) struct InlineLimitListError {
    /// The position of the text that is wrong.
    pub(crate) index: usize,
    pub(crate) reason: String,
}

impl InlineLimitList {
    /// The maximum number of limits of one call.
    pub(crate) const MAX_LIMITS: usize = 8;

    /// Creates a list from limits that were read before; `None` without any.
    pub(super) fn from_saved(limits: impl Iterator<Item = InlineLimit>) -> Option<InlineLimitList> {
        let limits: SmallVec<[_; 1]> = limits.map(Arc::new).collect();
        (!limits.is_empty()).then_some(InlineLimitList(limits))
    }

    /// Returns the limits whose charges can be corrected: a permit is returned, not refunded.
    pub(super) fn without_permits(&self) -> Option<InlineLimitList> {
        let limits = self.0.iter().filter(|inline| !inline.has_permits());
        let limits: SmallVec<[_; 1]> = limits.cloned().collect();
        (!limits.is_empty()).then_some(InlineLimitList(limits))
    }

    /// Returns the limits in the order of the call.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &InlineLimit> {
        self.0.iter().map(|inline| &**inline)
    }

    /// Returns each limit with its verdict.
    pub(crate) fn with_verdicts<'v>(
        &self,
        verdicts: &'v [Verdict],
    ) -> impl Iterator<Item = (LimitSummary, &'v Verdict)> {
        self.iter().map(|inline| inline.limit.summary()).zip(verdicts)
    }

    /// Returns the verdict that decides: the refusal with the longest wait, or the one with the least
    /// left.
    pub(crate) fn deciding(verdicts: &[Verdict]) -> Option<&Verdict> {
        match refusal(verdicts.iter()) {
            Some((index, _)) => verdicts.get(index),
            None => verdicts.iter().min_by_key(|verdict| verdict.remaining),
        }
    }

    /// Returns the checks of a key, for the holder of a permit.
    fn checks<'c>(&'c self, key: &'c [u8], cost: u64, lease: u64) -> SmallVec<[Check<'c>; 1]> {
        self.iter().map(|inline| Check { lease, ..inline.check(key, cost) }).collect()
    }
}

impl DecisionService {
    /// Returns the inline limits of texts.
    pub(crate) fn inline_limits(
        &self,
        texts: &[impl AsRef<str>],
    ) -> Result<InlineLimitList, InlineLimitListError> {
        let mut limits: SmallVec<[Arc<InlineLimit>; 1]> = SmallVec::new();
        for (index, text) in texts.iter().enumerate() {
            let read = self.inline_limit(text.as_ref());
            let inline = read.map_err(|error: InlineLimitError| InlineLimitListError {
                index,
                reason: error.to_string(),
            })?;
            if limits.iter().any(|earlier| earlier.counter == inline.counter) {
                let reason = format!("the limit {} is there twice", inline.limit);
                return Err(InlineLimitListError { index, reason });
            }
            limits.push(inline);
        }
        Ok(InlineLimitList(limits))
    }

    /// Decides by inline limits, all or none.
    pub(crate) async fn check_inline_limits(
        &self,
        door: DoorName,
        key: &[u8],
        limits: &InlineLimitList,
        cost: u64,
    ) -> Result<Verdicts, StoreError> {
        let lease = limits.iter().map(InlineLimit::lease).find(|lease| *lease != 0);
        self.check_inline_limits_as(door, key, limits, cost, lease.unwrap_or(0)).await
    }

    /// Decides by inline limits, for the holder of a permit.
    pub(super) async fn check_inline_limits_as(
        &self,
        door: DoorName,
        key: &[u8],
        limits: &InlineLimitList,
        cost: u64,
        lease: u64,
    ) -> Result<Verdicts, StoreError> {
        let before = self.clock().now();
        let action = Action::Take { max_wait: Span::ZERO };
        let verdicts = self.adjust_inline_limits_as(action, key, limits, cost, lease).await?;
        if let Some(verdict) = InlineLimitList::deciding(&verdicts) {
            self.record_inline_limit(door, key, verdict, cost, before);
        }
        Ok(verdicts)
    }

    /// Runs an action on the counters of inline limits.
    pub(crate) async fn adjust_inline_limits(
        &self,
        action: Action,
        key: &[u8],
        limits: &InlineLimitList,
        cost: u64,
    ) -> Result<Verdicts, StoreError> {
        self.adjust_inline_limits_as(action, key, limits, cost, 0).await
    }

    /// Runs an action on the counters of inline limits, for the holder of a permit.
    pub(super) async fn adjust_inline_limits_as(
        &self,
        action: Action,
        key: &[u8],
        limits: &InlineLimitList,
        cost: u64,
        lease: u64,
    ) -> Result<Verdicts, StoreError> {
        let checks = limits.checks(key, cost, lease);
        self.store().run(StoreCall { action, checks: &checks }).await
    }
}
