//! From what each limit said to one decision.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Retry, Span, Verdict};

use super::compiled::Compiled;
use super::decide::{Answers, Asked};
use super::decision::{Decision, LimitState, Reason};
use super::demand::{Line, LineKind};
use super::held::{Held, HeldLine, is_place};
use super::policy::{Priority, Then};
use super::request::Follow;
use crate::denied::refusal;
use crate::store::Store;

impl Decision {
    /// Nothing is decided yet, and nothing is in the way.
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
        rules: Option<Arc<Compiled>>,
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
            without_store: None,
            starts_ban: false,
            shed: None,
            tenant: None,
        }
    }
}

impl<S: Store> Asked<'_, '_, S> {
    /// One decision of all that was said, in whatever order.
    pub(super) fn decision_of(&self, lease: u64, answers: &mut Answers) -> Decision {
        answers.sort_unstable_by_key(|(line, _)| *line);
        self.decision(lease, answers.iter().map(|(line, verdict)| (*line, verdict)))
    }

    /// One decision of what each line said, in their order.
    pub(super) fn decision<'v>(
        &self,
        lease: u64,
        said: impl Iterator<Item = (usize, &'v Verdict)> + Clone,
    ) -> Decision {
        let mut decision = Decision::none();
        self.write_decision(lease, said, &mut decision);
        decision
    }

    /// The same, in place of none.
    #[inline]
    pub(super) fn write_decision<'v>(
        &self,
        lease: u64,
        said: impl Iterator<Item = (usize, &'v Verdict)> + Clone,
        decision: &mut Decision,
    ) {
        match self.demands.has_asides {
            false => self.write_limits(lease, said, decision),
            true => self.write_with_asides(lease, said, decision),
        }
    }

    /// The same, where every line is a limit.
    pub(super) fn write_limits<'v>(
        &self,
        lease: u64,
        said: impl Iterator<Item = (usize, &'v Verdict)> + Clone,
        decision: &mut Decision,
    ) {
        let state = |(line, verdict): (usize, &Verdict)| {
            let line = &self.demands.lines[line];
            let demand = &self.demands.demands[line.demand];
            LimitState {
                rule: demand.rule,
                quota: line.bound.limit.quota(),
                verdict: *verdict,
                mode: demand.mode,
                enforced: demand.enforced,
                cost: line.cost,
                reserve: line.reserve,
            }
        };
        let compiled = &self.domain.compiled;
        decision.reason = Reason::WithinLimits;
        decision.rules = Some(compiled.clone());
        decision.limits.extend(said.clone().map(state));
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
                decision.held = self.held(lease, said, !decision.wait.is_zero());
            }
        }
        let demand = self.demands.demands.iter().find(|demand| Some(demand.rule) == decision.rule);
        decision.key = demand.map(|demand| self.demands.keys[demand.key.clone()].into());
    }

    /// The priority of a request that a rule sheds.
    fn shed(&self, rule: u32) -> Option<Priority> {
        let sheds = matches!(self.domain.compiled.rules[rule as usize].then, Then::Shed(_));
        let mut demands = self.demands.demands.iter().filter(|_| sheds);
        demands.find(|demand| demand.rule == rule).map(|demand| demand.priority)
    }

    /// What is kept of what a line was charged.
    pub(super) fn held_line(&self, line: &Line<'_>) -> HeldLine {
        let demand = &self.demands.demands[line.demand];
        HeldLine {
            rule: demand.rule,
            bound: line.bound.clone(),
            key: self.demands.keys[line.key.clone()].into(),
            cost: line.cost,
            charged: demand.charged,
            kind: line.kind,
        }
    }

    /// What is kept of what these lines were charged: nothing, if it can no longer change.
    fn held<'v>(
        &self,
        lease: u64,
        said: impl Iterator<Item = (usize, &'v Verdict)> + Clone,
        waits: bool,
    ) -> Option<Box<Held>> {
        let rules = &self.domain.compiled.rules;
        let matters = |(line, _): (usize, &Verdict)| {
            let line = &self.demands.lines[line];
            let rule = self.demands.demands[line.demand].rule;
            is_place(line.bound) || rules[rule as usize].has_outcome()
        };
        let open = match self.demands.follow {
            Follow::Always(within) => within,
            _ if !waits && !said.clone().any(matters) => return None,
            _ => None,
        };
        let mut lines = Vec::new();
        for (index, _) in said.clone() {
            let line = &self.demands.lines[index];
            // A rule in shadow that refuses with one limit has charged none of them.
            let refuses = |(other, verdict): (usize, &Verdict)| {
                !verdict.allowed && self.demands.lines[other].demand == line.demand
            };
            if said.clone().any(refuses) {
                continue;
            }
            if line.kind == LineKind::CountOf {
                // The value that was seen stands before it.
                lines.push(self.held_line(&self.demands.lines[index - 1]));
            }
            lines.push(self.held_line(line));
        }
        Some(Box::new(Held::new(lease, lines, self.now, open, !self.shares.is_empty())))
    }
}
