//! Reading and changing counters without deciding anything: what operators and refunds need.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::decide::{Asked, Charging};
use super::decision::{Decision, Reason};
use super::demand::{self, LineKind};
use super::facts::Facts;
use super::limiter::{RuleLimiter, Shared};
use super::{Request, ask_envoy};
use crate::store::{Action, Store};
use crate::store_error::StoreError;

/// What is done to the counters of a request.
///
/// ```
/// use tollgate::{Limiter, Request, rules::Adjustment};
///
/// # futures_lite(async {
/// let limiter = Limiter::from_rules("rules: [{ name: api, per: user, limit: 10/h }]".parse().unwrap());
/// let ann = Request::empty().attribute("user", "ann");
/// limiter.adjust(&ann, Adjustment::Spend(4)).await.unwrap();
/// let left = limiter.adjust(&ann, Adjustment::Refund(1)).await.unwrap();
/// assert_eq!(left.tightest().unwrap().verdict.remaining, 7);
/// # });
/// # fn futures_lite(future: impl Future<Output = ()>) {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjustment {
    /// Nothing: they are only read.
    Peek,
    /// Charged without asking: what was spent was spent, and may become debt.
    Spend(u64),
    /// Given back, never above full.
    Refund(u64),
    /// All is forgotten.
    Reset,
    /// A request that was charged as one of cost `held` turns out to be one of cost `spent`: each
    /// rule gives back or charges the difference by its own reckoning of costs.
    Settle {
        /// The cost it was decided with.
        held: u64,
        /// The cost it should have been decided with.
        spent: u64,
    },
    /// A request of this cost never was: every rule gives back what it charged.
    Cancel(u64),
}

/// What an adjustment does to the counters.
enum Change {
    /// The same to all.
    All(Action, u64),
    /// To each what its rule makes of one cost instead of another; of none at all.
    Difference { held: u64, spent: Option<u64> },
}

impl Adjustment {
    fn change(self) -> Change {
        match self {
            Adjustment::Peek => Change::All(Action::Peek, 0),
            Adjustment::Spend(amount) => Change::All(Action::Spend, amount),
            Adjustment::Refund(amount) => Change::All(Action::Refund, amount),
            Adjustment::Reset => Change::All(Action::Reset, 0),
            Adjustment::Settle { held, spent } => Change::Difference { held, spent: Some(spent) },
            Adjustment::Cancel(held) => Change::Difference { held, spent: None },
        }
    }
}

impl<S: Store> RuleLimiter<S> {
    /// Reads or changes every counter a request is counted by, whatever their rules say of its
    /// cost. The decision says how each stands now, and is no permission.
    pub async fn adjust(
        &self,
        request: &Request<'_>,
        adjustment: Adjustment,
    ) -> Result<Decision, StoreError> {
        adjust(&self.0, request, adjustment).await
    }
}

async fn adjust<S: Store>(
    limiter: &Shared<S>,
    request: &Request<'_>,
    adjustment: Adjustment,
) -> Result<Decision, StoreError> {
    match adjustment.change() {
        Change::All(action, amount) => all(limiter, request, action, amount).await,
        Change::Difference { held, spent } => {
            difference(limiter, request, held, spent).await?;
            all(limiter, request, Action::Peek, 0).await
        }
    }
}

async fn all<S: Store>(
    limiter: &Shared<S>,
    request: &Request<'_>,
    action: Action,
    amount: u64,
) -> Result<Decision, StoreError> {
    loop {
        let installed = limiter.current.load_full();
        if let Some(tree) = installed.rules.tree_of(request) {
            return ask_envoy::adjust(limiter, tree, request, action, amount).await;
        }
        let unmatched = |rules| Decision::plain(true, Reason::Unmatched, 200, None, rules);
        let Some(domain) = installed.rules.domain_of(request) else { return Ok(unmatched(None)) };
        let now = limiter.clock.now();
        let demands = {
            let facts = Facts::new(request, &domain.compiled.trust);
            demand::of(domain, &facts, now)
        };
        let Some(mut demands) = demands else {
            return Ok(unmatched(Some(domain.compiled.clone())));
        };
        demands.lines.iter_mut().for_each(|line| line.cost = amount);
        let asked = Asked::new(limiter, &installed, domain, &demands, now, Charging::Real);
        let lines = asked.lines(|line| line.kind == LineKind::Limit);
        if let Some(verdicts) = asked.run(action, &lines, 0).await? {
            if action == Action::Reset {
                for line in lines.iter().map(|line| &demands.lines[*line]) {
                    limiter.forgive(line.bound, &demands.keys[line.key.clone()]);
                }
            }
            let said = lines.iter().copied().zip(&verdicts);
            return Ok(Decision { held: None, ..asked.decision(0, said) });
        }
    }
}

/// Charges or gives back what a cost of `spent` differs from one of `held` under each rule.
async fn difference<S: Store>(
    limiter: &Shared<S>,
    request: &Request<'_>,
    held: u64,
    spent: Option<u64>,
) -> Result<(), StoreError> {
    loop {
        let installed = limiter.current.load_full();
        if let Some(tree) = installed.rules.tree_of(request) {
            let spent = spent.unwrap_or(0);
            let (action, amount) = match spent > held {
                true => (Action::Spend, spent - held),
                false => (Action::Refund, held - spent),
            };
            return ask_envoy::adjust(limiter, tree, request, action, amount).await.map(drop);
        }
        let Some(domain) = installed.rules.domain_of(request) else { return Ok(()) };
        let now = limiter.clock.now();
        let demands_of = |cost| {
            let request = request.clone().cost(cost);
            let facts = Facts::new(&request, &domain.compiled.trust);
            demand::of(domain, &facts, now)
        };
        let Some(mut demands) = demands_of(held) else { return Ok(()) };
        let actual = spent.and_then(demands_of);
        let mut changes = [(Action::Spend, SmallVec::new()), (Action::Refund, SmallVec::new())];
        for (index, line) in demands.lines.iter_mut().enumerate() {
            if line.kind != LineKind::Limit || !demands.demands[line.demand].charged {
                continue;
            }
            let key = &demands.keys[line.key.clone()];
            let same = |other: &&demand::Line<'_>, keys: &[u8]| {
                other.bound.bucket == line.bound.bucket && keys[other.key.clone()] == *key
            };
            let after = match (spent, &actual) {
                (None, _) => 0,
                // A rule that is not about the request at its true cost keeps what it charged.
                (Some(_), None) => line.cost,
                (Some(_), Some(actual)) => {
                    let mut lines = actual.lines.iter();
                    let found = lines.find(|other| same(other, &actual.keys));
                    found.map_or(line.cost, |other| other.cost)
                }
            };
            let (before, [more, less]) = (line.cost, &mut changes);
            line.cost = before.abs_diff(after);
            match before.cmp(&after) {
                Ordering::Less => more.1.push(index),
                Ordering::Greater => less.1.push(index),
                Ordering::Equal => {}
            }
        }
        let asked = Asked::new(limiter, &installed, domain, &demands, now, Charging::Real);
        if carry_out(&asked, changes).await? {
            return Ok(());
        }
    }
}

/// Whether it was done: not if the rules were replaced before anything was.
async fn carry_out<S: Store>(
    asked: &Asked<'_, '_, S>,
    changes: [(Action, SmallVec<[usize; 6]>); 2],
) -> Result<bool, StoreError> {
    let mut begun = false;
    for (action, lines) in changes.iter().filter(|(_, lines)| !lines.is_empty()) {
        if asked.run(*action, lines, 0).await?.is_none() {
            // What was done once is not done again under the new rules.
            return Ok(begun);
        }
        begun = true;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limiter;
    use crate::counters::ready;

    #[test]
    fn each_rule_settles_by_its_own_reckoning_of_costs() {
        let limiter = Limiter::from_rules(
            "
rules:
  - { name: calls, per: user, limit: 10/h, cost: 1 }
  - { name: tokens, per: user, limit: 1000/h }
  - { name: double, per: user, limit: 5000/h, cost: cost * 2 }
"
            .parse()
            .unwrap(),
        );
        let ann = Request::empty().attribute("user", "ann");
        let left = |decision: Decision| -> Vec<u64> {
            decision.limits().map(|limit| limit.verdict.remaining).collect()
        };
        let take = || assert!(limiter.decide(&ann.clone().cost(400)).allowed);
        let adjust = |adjustment| left(ready(limiter.adjust(&ann, adjustment)).unwrap());
        take();
        assert_eq!(adjust(Adjustment::Settle { held: 400, spent: 100 }), [9, 900, 4800]);
        take();
        assert_eq!(adjust(Adjustment::Settle { held: 400, spent: 500 }), [8, 400, 3800]);
        take();
        assert_eq!(adjust(Adjustment::Cancel(400)), [8, 400, 3800]);
    }
}
