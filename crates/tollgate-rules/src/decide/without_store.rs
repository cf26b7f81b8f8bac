//! Decides while the store does not answer (`on_error`). What is spent meanwhile is charged to the
//! store before it decides on the same counter again, so that no client gets a fresh budget.

use smallvec::SmallVec;

use crate::compile::domain::BoundLimit;
use crate::compile::policy::OnError;
use crate::decide::decide_request::{Charging, CheckVerdicts, MatchedRequest};
use crate::decide::decision::{Decision, Reason};
use crate::decide::held_charges::holds_permits;
use crate::decide::limiter::LimiterState;
use crate::decide::local_shares::{LocalShare, LocalShares};
use crate::matching::rule_checks::{LimitCheck, LimitCheckKind, RuleChecks};
use tollgate::Check;
use tollgate::StoreError;
use tollgate::{Action, Store};

impl<S> LimiterState<S> {
    /// Returns the local shares, which decide without the store.
    pub(crate) fn local(&self) -> &LocalShares {
        self.local.get_or_init(|| LocalShares::new(self.clock.clone()))
    }

    /// Returns the local shares if they have debts to the store.
    #[inline]
    pub(crate) fn local_debts(&self) -> Option<&LocalShares> {
        self.local.get().filter(|local| !local.debts.is_empty() || !local.overruns.is_empty())
    }

    /// Forgives the debts of a counter that was reset.
    pub(crate) fn forgive(&self, bound: &BoundLimit, key: &[u8]) {
        if let Some(local) = self.local_debts() {
            let now = self.clock.now();
            local.debts.take(bound.counter, key, now);
            local.overruns.take(bound, key, now);
        }
    }
}

impl<S: Store> MatchedRequest<'_, '_, S> {
    /// Decides by `on_error`. `None` if the rules were replaced meanwhile.
    pub(crate) async fn without_store(
        &self,
        limiter: &LimiterState<S>,
        lease: u64,
    ) -> Option<Decision> {
        if let Some(banned) = self.known_ban() {
            return Some(banned);
        }
        let rules = &self.domain.compiled.rules;
        let on_error = |limit_check: &LimitCheck<'_>| {
            let rule_check = &self.checks.rule_checks[limit_check.rule_check];
            rule_check.enforced.then(|| rules[rule_check.rule as usize].on_error)
        };
        let plain = |allowed, code, rule, mode| {
            let compiled = Some(self.domain.compiled.clone());
            let decision = Decision::plain(allowed, Reason::StoreFailed, code, rule, compiled);
            Some(Decision { without_store: Some(mode), ..decision })
        };
        let mut limit_checks = self.checks.limit_checks.iter();
        if let Some(limit_check) =
            limit_checks.find(|limit_check| on_error(limit_check) == Some(OnError::Deny))
        {
            let rule = self.checks.rule_checks[limit_check.rule_check].rule;
            return plain(false, 503, Some(rule), OnError::Deny);
        }
        let wanted = self.indices_where(|limit_check| {
            !limit_check.kind.is_auxiliary() && on_error(limit_check) == Some(OnError::Local)
        });
        if wanted.is_empty() {
            return plain(true, 200, None, OnError::Allow);
        }
        self.by_shares(limiter.local(), &wanted, lease).await
    }

    /// Decides by this node's shares of some limits.
    async fn by_shares(
        &self,
        local: &LocalShares,
        wanted: &[usize],
        lease: u64,
    ) -> Option<Decision> {
        let nodes = self.store.nodes();
        let whole = |index: &usize| &self.checks.limit_checks[*index];
        let shares: SmallVec<[_; 6]> = wanted
            .iter()
            .map(|limit_check| local.share(whole(limit_check).bound, nodes, self.now))
            .collect();
        let limit_checks = wanted.iter().zip(&shares);
        let request_checks = RuleChecks {
            keys: self.checks.keys.clone(),
            rule_checks: self.checks.rule_checks.clone(),
            limit_checks: limit_checks
                .map(|(limit_check, share)| {
                    let reserve = whole(limit_check).reserve.shared_by(nodes);
                    LimitCheck { bound: &share.bound, reserve, ..whole(limit_check).clone() }
                })
                .collect(),
            is_simple: wanted.iter().map(whole).all(|limit_check| {
                self.checks.rule_checks[limit_check.rule_check].charged
                    && limit_check.kind == LimitCheckKind::Limit
            }),
            has_auxiliary: false,
            is_fair: false,
            incomplete_keys: self.checks.incomplete_keys.clone(),
            patience: self.checks.patience,
            tracking: self.checks.tracking,
            attempt: self.checks.attempt,
        };
        let matched_request = MatchedRequest {
            store: &local.store,
            current: self.current,
            active: self.active,
            ban_list: self.ban_list,
            clock: self.clock,
            domain: self.domain,
            checks: &request_checks,
            shares: &shares,
            now: self.now,
            charging: self.charging,
        };
        let mut results = CheckVerdicts::new();
        if let Ok(false) = matched_request.check_in_steps(lease, &mut results).await {
            return None;
        }
        let decision = matched_request.decision_from(lease, &mut results);
        if decision.allowed && self.charging == Charging::Real {
            for (index, verdict) in &results {
                let limit_check = whole(&wanted[*index]);
                if !self.checks.rule_checks[limit_check.rule_check].charged
                    || holds_permits(limit_check.bound)
                {
                    continue;
                }
                let until = self.now + verdict.reset_after;
                let add_debt = |limit_check: &LimitCheck<'_>| {
                    let key = &self.checks.keys[limit_check.key.clone()];
                    local.debts.add(
                        limit_check.bound.counter,
                        key,
                        limit_check.cost,
                        until,
                        self.now,
                    );
                };
                add_debt(limit_check);
                if limit_check.kind == LimitCheckKind::DistinctCount {
                    add_debt(whole(&wanted[index - 1])); // The value that was seen stands before it.
                }
            }
        }
        Some(Decision { without_store: Some(OnError::Local), ..decision })
    }

    /// Charges the store with the debts on the counters of this request. Returns `false` if the
    /// rules were replaced meanwhile.
    pub(crate) async fn charge_debts(&self, local: &LocalShares) -> Result<bool, StoreError> {
        let nodes = self.store.nodes();
        let mut checks = SmallVec::<[Check<'_>; 2]>::new();
        let mut taken = SmallVec::<[_; 2]>::new();
        for (index, limit_check) in self.checks.limit_checks.iter().enumerate() {
            let key = &self.checks.keys[limit_check.key.clone()];
            let spent = local.debts.take(limit_check.bound.counter, key, self.now);
            let overrun = local.overruns.take(limit_check.bound, key, self.now);
            let mut cost = overrun.map_or(0, |(amount, _)| amount);
            if let Some((amount, _)) = spent {
                // What has refilled since is not charged.
                let share: &LocalShare = &local.share(limit_check.bound, nodes, self.now);
                cost = cost.saturating_add(amount.min(local.spent(share, key).await));
            }
            taken.push((limit_check, spent, overrun));
            if cost > 0 {
                checks.push(Check { cost, ..self.check(index, 0) });
            }
        }
        if checks.is_empty() {
            return Ok(true);
        }
        let ran = self.run_checks(Action::Spend, &checks).await;
        let was_not_run = match &ran {
            Ok(verdicts) => verdicts.is_none(),
            // If only the response was lost, the charge was made and must not be repeated.
            Err(error) => error.kind().did_nothing(),
        };
        if was_not_run {
            for (limit_check, spent, overrun) in taken {
                let key = &self.checks.keys[limit_check.key.clone()];
                if let Some((amount, until)) = spent {
                    local.debts.add(limit_check.bound.counter, key, amount, until, self.now);
                }
                if let Some(overrun) = overrun {
                    local.overruns.put_back(limit_check.bound, key, overrun, self.now);
                }
            }
        }
        ran.map(|verdicts| verdicts.is_some())
    }
}
