//! What one request was promised.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use tollgate_core::Time;
use tollgate_core::fair::Claim;

use super::super::decision::Decision;
use super::table::Table;

/// The shares a request was taken from. Given back if it is dropped before the request
/// [passed](Claims::passed).
#[derive(Debug)]
pub(crate) struct Claims {
    claims: SmallVec<[(Arc<Table>, u32, Claim); 1]>,
    nodes: u64,
    passed: bool,
    /// Whether it was done, or given back.
    over: AtomicBool,
}

impl Claims {
    pub(super) fn among(nodes: u64) -> Claims {
        Claims { claims: SmallVec::new(), nodes, passed: false, over: AtomicBool::new(false) }
    }

    pub(super) fn add(&mut self, table: Arc<Table>, rule: u32, claim: Claim) {
        self.claims.push((table, rule, claim));
    }

    /// The request passed; a limit in shadow that refused it was not charged.
    pub(super) fn passed(&mut self, decision: &Decision, now: Time) {
        let mut asked = 0;
        let mut last = None;
        self.claims.retain(|(table, rule, claim)| {
            // Both are in the order of the limits.
            asked = if last == Some(*rule) { asked + 1 } else { 0 };
            last = Some(*rule);
            let mut limits = decision.limits.iter().filter(|limit| limit.rule == *rule);
            match limits.nth(asked).map(|limit| limit.verdict) {
                Some(verdict) if verdict.allowed => {
                    table.passed(claim, now, verdict.limit, verdict.remaining, self.nodes);
                    true
                }
                _ => {
                    table.refused(claim);
                    false
                }
            }
        });
        self.passed = true;
    }

    /// The request is done.
    pub(crate) fn done(&self) {
        if !self.over.swap(true, Ordering::Relaxed) {
            self.claims.iter().for_each(|(table, _, claim)| table.done(claim));
        }
    }

    /// The request never went on.
    pub(crate) fn give_back(&self) {
        if !self.over.swap(true, Ordering::Relaxed) {
            self.claims.iter().for_each(|(table, _, claim)| table.refused(claim));
        }
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        if !self.passed {
            self.give_back();
        }
    }
}
