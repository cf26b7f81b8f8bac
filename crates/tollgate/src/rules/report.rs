//! What the outcome of a request changes: rules that count outcomes, costs known only now.

use smallvec::SmallVec;
use tollgate_core::{Span, Time};

use super::Request;
use super::compiled::Domain;
use super::demand::{self, Demands, Line, LineKind};
use super::expr::On;
use super::facts::Facts;
use super::installed::Installed;
use super::limiter::Shared;
use crate::store::{Action, Call, Store};
use crate::store_error::StoreError;
use crate::{Check, Verdicts};

/// Charges what the outcome says, of a request that was decided before it was known.
pub(crate) async fn report<S: Store>(
    limiter: &Shared<S>,
    request: &Request<'_>,
) -> Result<(), StoreError> {
    loop {
        let installed = limiter.current.load_full();
        let Some(domain) = installed.rules.domain_of(request) else { return Ok(()) };
        let now = limiter.clock.now();
        let (demands, changes) = {
            let facts = Facts::new(request, &domain.compiled.trust);
            let Some(demands) = demand::of(domain, &facts, now) else { return Ok(()) };
            let changes = changes(domain, &demands, &facts);
            (demands, changes)
        };
        let outcome = Outcome { limiter, installed: &installed, domain, demands, now };
        if outcome.apply(&changes).await? {
            return Ok(());
        }
    }
}

/// What is charged to a demand, or given back to it.
#[derive(Clone, Copy, Debug)]
struct Change {
    demand: usize,
    action: Action,
    amount: u64,
}

fn changes(domain: &Domain, demands: &Demands<'_>, facts: &Facts<'_>) -> SmallVec<[Change; 2]> {
    let mut changes = SmallVec::new();
    for (index, demand) in demands.demands.iter().enumerate() {
        let rule = &domain.compiled.rules[demand.rule as usize];
        let settle = rule.cost.as_ref().and_then(|cost| cost.settle.as_ref());
        let settled = settle.and_then(|settle| {
            let on = On { facts, route: None, lists: &domain.lists };
            u64::try_from(settle.value(on)?.number()?).ok()
        });
        let change = |action, amount| Change { demand: index, action, amount };
        match (rule.count.is_some(), settled) {
            (true, actual) if demand.charged => {
                changes.push(change(Action::Spend, actual.unwrap_or(demand.cost)));
            }
            (false, Some(actual)) if actual > demand.cost => {
                changes.push(change(Action::Spend, actual - demand.cost));
            }
            (false, Some(actual)) if actual < demand.cost => {
                changes.push(change(Action::Refund, demand.cost - actual));
            }
            _ => {}
        }
    }
    changes
}

struct Outcome<'a, S> {
    limiter: &'a Shared<S>,
    installed: &'a Installed,
    domain: &'a Domain,
    demands: Demands<'a>,
    now: Time,
}

impl<S: Store> Outcome<'_, S> {
    /// Whether the rules were still the same; if not, nothing was changed.
    async fn apply(&self, changes: &[Change]) -> Result<bool, StoreError> {
        for change in changes {
            match self.is_first(change).await? {
                None => return Ok(false),
                Some(false) => continue,
                Some(true) => {}
            }
            if self.run(change).await?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether an outcome that counts is the first under its id; it is remembered. None if the rules
    /// were replaced.
    async fn is_first(&self, change: &Change) -> Result<Option<bool>, StoreError> {
        let rules = &self.domain.compiled.rules;
        let rule = &rules[self.demands.demands[change.demand].rule as usize];
        let is_its = |line: &&Line<'_>| line.demand == change.demand && line.kind == LineKind::Once;
        let Some(line) = self.demands.lines.iter().find(is_its).filter(|_| rule.count.is_some())
        else {
            return Ok(Some(true));
        };
        let checks = [self.demands.check(line, rules, 0, None)];
        let action = Action::Take { max_wait: Span::ZERO };
        let generation = self.installed.generation;
        let current = || self.limiter.current.load().generation == generation;
        let ran = self.limiter.store.run_while(Call { action, checks: &checks }, current).await?;
        Ok(ran.map(|verdicts| verdicts[0].allowed))
    }

    async fn run(&self, change: &Change) -> Result<Option<Verdicts>, StoreError> {
        let rules = &self.domain.compiled.rules;
        let checks: SmallVec<[Check<'_>; 4]> = self
            .demands
            .lines
            .iter()
            .filter(|line| line.demand == change.demand && line.kind == LineKind::Limit)
            .map(|line| {
                let former = self.installed.former(line.bound.bucket, self.now);
                Check { cost: change.amount, ..self.demands.check(line, rules, 0, former) }
            })
            .collect();
        let generation = self.installed.generation;
        let current = || self.limiter.current.load().generation == generation;
        self.limiter.store.run_while(Call { action: change.action, checks: &checks }, current).await
    }
}
