//! What happens while the store does not answer, as the rules say (`on_error`), and how that ends:
//! what was spent without the store is charged to it before it decides on the same counter again,
//! so that nobody gets a budget anew.

use smallvec::SmallVec;

use super::compiled::Bound;
use super::decide::{Answers, Asked, Charging};
use super::decision::{Decision, Reason};
use super::demand::{Demands, Line, LineKind};
use super::held::is_place;
use super::limiter::Shared;
use super::local::{Local, Share};
use super::policy::OnError;
use crate::Check;
use crate::store::{Action, Store};
use crate::store_error::StoreError;

impl<S> Shared<S> {
    /// What decides without the store.
    pub(super) fn local(&self) -> &Local {
        self.local.get_or_init(|| Local::new(self.clock.clone()))
    }

    /// The same, if it owes something to the store.
    #[inline]
    pub(super) fn owing(&self) -> Option<&Local> {
        self.local.get().filter(|local| !local.owed.is_empty() || !local.overruns.is_empty())
    }

    /// Nothing is owed on a counter that was reset.
    pub(super) fn forgive(&self, bound: &Bound, key: &[u8]) {
        if let Some(local) = self.owing() {
            let now = self.clock.now();
            local.owed.take(bound.bucket, key, now);
            local.overruns.take(bound, key, now);
        }
    }
}

impl<S: Store> Asked<'_, '_, S> {
    /// What the rules say for a store that does not answer. `None` if they were replaced meanwhile.
    pub(super) async fn without_store(&self, limiter: &Shared<S>, lease: u64) -> Option<Decision> {
        let rules = &self.domain.compiled.rules;
        let on_error = |line: &Line<'_>| {
            let demand = &self.demands.demands[line.demand];
            demand.enforced.then(|| rules[demand.rule as usize].on_error)
        };
        let plain = |allowed, code, rule, mode| {
            let compiled = Some(self.domain.compiled.clone());
            let decision = Decision::plain(allowed, Reason::StoreFailed, code, rule, compiled);
            Some(Decision { without_store: Some(mode), ..decision })
        };
        let mut lines = self.demands.lines.iter();
        if let Some(line) = lines.find(|line| on_error(line) == Some(OnError::Deny)) {
            let rule = self.demands.demands[line.demand].rule;
            return plain(false, 503, Some(rule), OnError::Deny);
        }
        let wanted =
            self.lines(|line| !line.kind.is_aside() && on_error(line) == Some(OnError::Local));
        if wanted.is_empty() {
            return plain(true, 200, None, OnError::Allow);
        }
        self.by_shares(limiter.local(), &wanted, lease).await
    }

    /// Decides by this node's shares of the limits of some lines.
    async fn by_shares(&self, local: &Local, wanted: &[usize], lease: u64) -> Option<Decision> {
        let nodes = self.store.nodes();
        let whole = |line: &usize| &self.demands.lines[*line];
        let shares: SmallVec<[_; 6]> =
            wanted.iter().map(|line| local.share(whole(line).bound, nodes, self.now)).collect();
        let lines = wanted.iter().zip(&shares);
        let demands = Demands {
            keys: self.demands.keys.clone(),
            demands: self.demands.demands.clone(),
            lines: lines
                .map(|(line, share)| {
                    let reserve = whole(line).reserve.shared_by(nodes);
                    Line { bound: &share.bound, reserve, ..whole(line).clone() }
                })
                .collect(),
            is_simple: wanted.iter().map(whole).all(|line| {
                self.demands.demands[line.demand].charged && line.kind == LineKind::Limit
            }),
            has_asides: false,
            is_fair: false,
            patience: self.demands.patience,
            follow: self.demands.follow,
            turn: self.demands.turn,
        };
        let asked = Asked {
            store: &local.store,
            current: self.current,
            installed: self.installed,
            domain: self.domain,
            demands: &demands,
            shares: &shares,
            now: self.now,
            charging: self.charging,
        };
        let mut answers = Answers::new();
        if let Ok(false) = asked.ask(lease, &mut answers).await {
            return None;
        }
        let decision = asked.decision_of(lease, &mut answers);
        if decision.allowed && self.charging == Charging::Real {
            for (index, verdict) in &answers {
                let line = whole(&wanted[*index]);
                if !self.demands.demands[line.demand].charged || is_place(line.bound) {
                    continue;
                }
                let until = self.now + verdict.reset_after;
                let owe = |line: &Line<'_>| {
                    let key = &self.demands.keys[line.key.clone()];
                    local.owed.add(line.bound.bucket, key, line.cost, until, self.now);
                };
                owe(line);
                if line.kind == LineKind::CountOf {
                    owe(whole(&wanted[index - 1])); // The value that was seen stands before it.
                }
            }
        }
        Some(Decision { without_store: Some(OnError::Local), ..decision })
    }

    /// Charges to the store what was spent without it on the counters of this request. Whether the
    /// rules are still the same.
    pub(super) async fn hand_back(&self, local: &Local) -> Result<bool, StoreError> {
        let nodes = self.store.nodes();
        let mut checks = SmallVec::<[Check<'_>; 2]>::new();
        let mut taken = SmallVec::<[_; 2]>::new();
        for (index, line) in self.demands.lines.iter().enumerate() {
            let key = &self.demands.keys[line.key.clone()];
            let spent = local.owed.take(line.bound.bucket, key, self.now);
            let overrun = local.overruns.take(line.bound, key, self.now);
            let mut cost = overrun.map_or(0, |(amount, _)| amount);
            if let Some((amount, _)) = spent {
                // Not what time has given back since.
                let share: &Share = &local.share(line.bound, nodes, self.now);
                cost = cost.saturating_add(amount.min(local.spent(share, key).await));
            }
            taken.push((line, spent, overrun));
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
            // It may have been charged and only the answer was lost: nobody pays twice.
            Err(error) => error.kind().did_nothing(),
        };
        if was_not_run {
            for (line, spent, overrun) in taken {
                let key = &self.demands.keys[line.key.clone()];
                if let Some((amount, until)) = spent {
                    local.owed.add(line.bound.bucket, key, amount, until, self.now);
                }
                if let Some(owed) = overrun {
                    local.overruns.put_back(line.bound, key, owed, self.now);
                }
            }
        }
        ran.map(|verdicts| verdicts.is_some())
    }
}
