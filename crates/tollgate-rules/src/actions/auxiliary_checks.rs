//! Checks that are decided together with the limits but not reported to clients: bans and dedupe
//! ids.

use tollgate_core::{Span, Verdict};

use crate::decide::decide_request::{Charging, MatchedRequest};
use crate::decide::decision::Decision;
use crate::decide::limiter::LimiterState;
use crate::matching::rule_checks::{LimitCheckKind, RuleChecks};
use tollgate::{Action, Store};

impl<S: Store> MatchedRequest<'_, '_, S> {
    /// Writes a decision from the verdicts of limits and auxiliary checks.
    #[cold]
    pub(crate) fn write_with_auxiliary<'v>(
        &self,
        lease: u64,
        verdicts: impl Iterator<Item = (usize, &'v Verdict)> + Clone,
        decision: &mut Decision,
    ) {
        let limit_check = |index: usize| &self.checks.limit_checks[index];
        let limits = verdicts.clone().filter(|(index, _)| !limit_check(*index).kind.is_auxiliary());
        self.write_limits(lease, limits, decision);
        // An id is held with its charges: if they are refunded, the id is forgotten too.
        if let Some(held) = &mut decision.held {
            let ids = verdicts
                .clone()
                .filter(|(index, _)| limit_check(*index).kind == LimitCheckKind::Dedupe);
            held.charges
                .extend(ids.map(|(index, _)| self.held_charge(limit_check(index), Span::ZERO)));
        }
        let bans = verdicts.filter(|(index, verdict)| {
            limit_check(*index).kind == LimitCheckKind::Ban && !verdict.allowed
        });
        let remaining = |verdict: &Verdict| verdict.retry_after().unwrap_or(Span::ZERO);
        if let Some((index, verdict)) = bans.max_by_key(|(_, verdict)| remaining(verdict)) {
            let rule_check = &self.checks.rule_checks[limit_check(index).rule_check];
            self.note_ban(rule_check, remaining(verdict));
            self.write_ban(decision, rule_check, remaining(verdict));
        }
    }

    /// Returns the verdicts of the auxiliary checks without charging; empty if the store does not
    /// answer.
    pub(crate) async fn auxiliary_verdicts(&self) -> Vec<(usize, Verdict)> {
        let indices = self.indices_where(|limit_check| limit_check.kind.is_auxiliary());
        if indices.is_empty() {
            return Vec::new();
        }
        let action = Action::Try { max_wait: Span::ZERO };
        match self.run(action, &indices, 0).await {
            Ok(Some(verdicts)) => indices.iter().copied().zip(verdicts).collect(),
            _ => Vec::new(),
        }
    }

    /// Applies the consequences of a final refusal, once for each request.
    pub(crate) async fn refused(&self, limiter: &LimiterState<S>, decision: &mut Decision) {
        let RuleChecks { attempt, patience, .. } = *self.checks;
        let is_final = attempt.is_final(decision, &self.domain.compiled, patience);
        if self.charging == Charging::Real && is_final {
            self.apply_ladder(limiter, decision).await;
        }
    }
}
