//! Builds one decision from the verdicts of all limits.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Retry, Span, Verdict};

use crate::compile::domain::CompiledDomain;
use crate::compile::policy::{Priority, Then};
use crate::decide::decide_request::{CheckVerdicts, MatchedRequest};
use crate::decide::decision::{Decision, LimitState, Reason};
use crate::decide::held_charges::{HeldCharge, HeldCharges, holds_permits};
use crate::matching::request::OutcomeTracking;
use crate::matching::rule_checks::{LimitCheck, LimitCheckKind};
use tollgate::Store;
use tollgate::state::refusal;

impl Decision {
    /// Returns the decision of a request that no rule matches.
    #[inline]
    pub(crate) fn none() -> Decision {
        Decision::plain(true, Reason::Unmatched, 200, None, None)
    }

    #[inline]
    pub(crate) fn plain(
        allowed: bool,
        reason: Reason,
        code: u16,
        rule: Option<u32>,
        rules: Option<Arc<CompiledDomain>>,
    ) -> Decision {
        Decision {
            allowed,
            reason,
            code,
            wait: Default::default(),
            retry_after: None,
            rule,
            key: None,
            limits: SmallVec::new(),
            rules,
            named: None,
            held: None,
            admission: None,
            without_store: None,
            starts_ban: false,
            shed: None,
            shadow_denials: None,
            incomplete_keys: None,
            tenant: None,
        }
    }
}

impl<S: Store> MatchedRequest<'_, '_, S> {
    /// Builds a decision from verdicts in any order.
    pub(crate) fn decision_from(&self, lease: u64, results: &mut CheckVerdicts) -> Decision {
        results.sort_unstable_by_key(|(index, _)| *index);
        self.decision(lease, results.iter().map(|(index, verdict)| (*index, verdict)))
    }

    /// Builds a decision from verdicts in the order of the checks.
    pub(crate) fn decision<'v>(
        &self,
        lease: u64,
        verdicts: impl Iterator<Item = (usize, &'v Verdict)> + Clone,
    ) -> Decision {
        let mut decision = Decision::none();
        self.write_decision(lease, verdicts, &mut decision);
        decision
    }

    /// Writes the decision from verdicts in the order of the checks into `decision`.
    #[inline]
    pub(crate) fn write_decision<'v>(
        &self,
        lease: u64,
        verdicts: impl Iterator<Item = (usize, &'v Verdict)> + Clone,
        decision: &mut Decision,
    ) {
        match self.checks.has_auxiliary {
            false => self.write_limits(lease, verdicts, decision),
            true => self.write_with_auxiliary(lease, verdicts, decision),
        }
    }

    /// Writes the decision where every check is a limit.
    pub(crate) fn write_limits<'v>(
        &self,
        lease: u64,
        verdicts: impl Iterator<Item = (usize, &'v Verdict)> + Clone,
        decision: &mut Decision,
    ) {
        let state = |(index, verdict): (usize, &Verdict)| {
            let limit_check = &self.checks.limit_checks[index];
            let rule_check = &self.checks.rule_checks[limit_check.rule_check];
            LimitState {
                rule: rule_check.rule,
                quota: limit_check.bound.limit.summary(),
                verdict: *verdict,
                mode: rule_check.mode,
                enforced: rule_check.enforced,
                cost: limit_check.cost,
                reserve: limit_check.reserve,
            }
        };
        let compiled = &self.domain.compiled;
        decision.reason = Reason::WithinLimits;
        decision.rules = Some(compiled.clone());
        decision.limits.extend(verdicts.clone().map(state));
        if decision.limits.iter().any(LimitState::is_shadow_refusal) {
            decision.shadow_denials = Some(self.shadow_refusals(&decision.limits));
        }
        if !self.checks.incomplete_keys.is_empty() {
            decision.incomplete_keys = Some(self.checks.incomplete_keys[..].into());
        }
        let enforced = || decision.limits.iter().filter(|limit| limit.enforced);
        match refusal(enforced().map(|limit| &limit.verdict)) {
            Some((index, retry)) => {
                let rule = enforced().nth(index).map_or(0, |limit| limit.rule);
                decision.allowed = false;
                decision.rule = Some(rule);
                decision.code = compiled.rules[rule as usize].then.status();
                decision.shed = self.shed(rule);
                (decision.reason, decision.retry_after) = match retry {
                    Retry::Never => (Reason::NeverFits, None),
                    Retry::After(span) => (Reason::OverLimit, Some(span.into())),
                    Retry::Now => (Reason::OverLimit, Some(Default::default())),
                };
            }
            None => {
                let wait = enforced().map(|limit| limit.verdict.wait).max();
                let tightest = enforced().min_by_key(|limit| limit.verdict.remaining);
                decision.rule = tightest.map(|limit| limit.rule);
                decision.wait = wait.unwrap_or(Span::ZERO).into();
                decision.held = self.held(lease, verdicts, !decision.wait.is_zero());
            }
        }
        let rule_check = self
            .checks
            .rule_checks
            .iter()
            .find(|rule_check| Some(rule_check.rule) == decision.rule);
        decision.key = rule_check.map(|rule_check| self.checks.keys[rule_check.key.clone()].into());
    }

    /// Returns the priority of a request that a rule sheds.
    fn shed(&self, rule: u32) -> Option<Priority> {
        let sheds = matches!(self.domain.compiled.rules[rule as usize].then, Then::Shed(_));
        let mut rule_checks = self.checks.rule_checks.iter().filter(|_| sheds);
        rule_checks.find(|rule_check| rule_check.rule == rule).map(|rule_check| rule_check.priority)
    }

    /// Returns the charge of a check, to be settled or refunded later.
    pub(crate) fn held_charge(
        &self,
        limit_check: &LimitCheck<'_>,
        reset_after: Span,
    ) -> HeldCharge {
        let rule_check = &self.checks.rule_checks[limit_check.rule_check];
        HeldCharge {
            rule: rule_check.rule,
            bound: limit_check.bound.clone(),
            key: self.checks.keys[limit_check.key.clone()].into(),
            cost: limit_check.cost,
            charged: rule_check.charged,
            kind: limit_check.kind,
            reset_after,
        }
    }

    /// Returns the charges that may still change; none if there are no such charges.
    fn held<'v>(
        &self,
        lease: u64,
        verdicts: impl Iterator<Item = (usize, &'v Verdict)> + Clone,
        waits: bool,
    ) -> Option<Box<HeldCharges>> {
        let rules = &self.domain.compiled.rules;
        let matters = |(index, _): (usize, &Verdict)| {
            let limit_check = &self.checks.limit_checks[index];
            let rule = self.checks.rule_checks[limit_check.rule_check].rule;
            holds_permits(limit_check.bound) || rules[rule as usize].has_outcome()
        };
        let tracking = self.checks.tracking;
        if !matches!(tracking, OutcomeTracking::Always(_))
            && !waits
            && !verdicts.clone().any(matters)
        {
            return None;
        }
        let mut charges = Vec::new();
        for (index, verdict) in verdicts.clone() {
            let limit_check = &self.checks.limit_checks[index];
            // A shadow rule that refuses with one limit has charged none of its limits.
            let refuses = |(other, verdict): (usize, &Verdict)| {
                !verdict.allowed
                    && self.checks.limit_checks[other].rule_check == limit_check.rule_check
            };
            if verdicts.clone().any(refuses) {
                continue;
            }
            if limit_check.kind == LimitCheckKind::DistinctCount {
                // The check of the distinct value precedes its count.
                charges.push(self.held_charge(&self.checks.limit_checks[index - 1], Span::ZERO));
            }
            charges.push(self.held_charge(limit_check, verdict.reset_after));
        }
        let (rules, is_local) = (self.domain.compiled.clone(), !self.shares.is_empty());
        Some(Box::new(HeldCharges::new(lease, rules, charges, self.now, tracking, is_local)))
    }
}
