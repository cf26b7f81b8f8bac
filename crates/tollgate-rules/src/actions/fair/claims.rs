//! The fair shares that one request has claimed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use tollgate_core::Time;
use tollgate_core::fair::Claim;

use super::share_table::ShareTable;
use crate::decide::decision::Decision;

/// The shares a request was charged to. Dropping it before [`confirm`](Claims::confirm) cancels the
/// claims.
#[derive(Debug)]
pub(crate) struct Claims {
    claims: SmallVec<[(Arc<ShareTable>, u32, Claim); 1]>,
    nodes: u64,
    confirmed: bool,
    /// Whether the claims were released or cancelled.
    is_over: AtomicBool,
}

impl Claims {
    pub(super) fn new(nodes: u64) -> Claims {
        Claims { claims: SmallVec::new(), nodes, confirmed: false, is_over: AtomicBool::new(false) }
    }

    pub(super) fn add(&mut self, table: Arc<ShareTable>, rule: u32, claim: Claim) {
        self.claims.push((table, rule, claim));
    }

    /// Confirms the claims of an allowed request, except those on shadow limits that refused it.
    pub(super) fn confirm(&mut self, decision: &Decision, now: Time) {
        let mut position = 0;
        let mut last = None;
        self.claims.retain(|(table, rule, claim)| {
            // Claims and limits have the same order.
            position = if last == Some(*rule) { position + 1 } else { 0 };
            last = Some(*rule);
            let mut limits = decision.limits.iter().filter(|limit| limit.rule == *rule);
            match limits.nth(position).map(|limit| limit.verdict) {
                Some(verdict) if verdict.allowed => {
                    table.confirm(claim, now, verdict.limit, verdict.remaining, self.nodes);
                    true
                }
                _ => {
                    table.cancel(claim);
                    false
                }
            }
        });
        self.confirmed = true;
    }

    /// Releases the permits of a request that ended.
    pub(crate) fn release(&self) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            self.claims.iter().for_each(|(table, _, claim)| table.release(claim));
        }
    }

    /// Cancels the claims of a request that never proceeded.
    pub(crate) fn cancel(&self) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            self.claims.iter().for_each(|(table, _, claim)| table.cancel(claim));
        }
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        if !self.confirmed {
            self.cancel();
        }
    }
}
