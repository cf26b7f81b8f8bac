//! Reads and changes counters without a decision, for operators and refunds.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::Request;
use crate::decide::adjust_key::adjust_key;
#[cfg(feature = "envoy")]
use crate::decide::ask_envoy;
use crate::decide::decide_request::{Charging, MatchedRequest};
use crate::decide::decision::{Decision, Reason};
use crate::decide::limiter::{LimiterState, RuleLimiter};
use crate::matching::request_facts::RequestFacts;
use crate::matching::rule_checks::{self, LimitCheckKind};
use tollgate::StoreError;
use tollgate::{Action, Store};

/// A change of counters.
///
/// ```
/// use tollgate_rules::{Adjustment, Request, RuleLimiter};
///
/// # futures_lite(async {
/// let limiter = RuleLimiter::new("attributes: [user]\nrules: [{ name: api, per: user, limit: 10/h }]".parse().unwrap());
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
    /// Reads the counters without a change.
    Peek,
    /// Charges an amount without a check; it may become debt.
    Spend(u64),
    /// Refunds an amount, up to the capacity.
    Refund(u64),
    /// Resets the counters.
    Reset,
    /// Corrects the cost of a decided request from `held` to `spent`. Each rule charges or refunds
    /// the difference by its own cost expression.
    Settle {
        /// The cost of the decision.
        held: u64,
        /// The actual cost.
        spent: u64,
    },
    /// Cancels a request of this cost: every rule refunds its charge.
    Cancel(u64),
}

/// The effect of an adjustment on the counters.
enum CounterAdjustment {
    /// One action and amount for all counters.
    All(Action, u64),
    /// The difference between two costs under each rule; without `spent`, the whole charge.
    Difference { held: u64, spent: Option<u64> },
}

impl Adjustment {
    /// Returns the action and amount for a single counter.
    fn on_key(self) -> (Action, u64) {
        match self.plan() {
            CounterAdjustment::All(action, amount) => (action, amount),
            CounterAdjustment::Difference { held, spent } => match spent.unwrap_or(0) {
                spent if spent > held => (Action::Spend, spent - held),
                spent => (Action::Refund, held - spent),
            },
        }
    }

    fn plan(self) -> CounterAdjustment {
        match self {
            Adjustment::Peek => CounterAdjustment::All(Action::Peek, 0),
            Adjustment::Spend(amount) => CounterAdjustment::All(Action::Spend, amount),
            Adjustment::Refund(amount) => CounterAdjustment::All(Action::Refund, amount),
            Adjustment::Reset => CounterAdjustment::All(Action::Reset, 0),
            Adjustment::Settle { held, spent } => {
                CounterAdjustment::Difference { held, spent: Some(spent) }
            }
            Adjustment::Cancel(held) => CounterAdjustment::Difference { held, spent: None },
        }
    }
}

/// The counters that an [adjustment](RuleLimiter::adjust) changes.
#[derive(Clone, Copy, Debug)]
pub enum AdjustTarget<'t, 'r> {
    /// All counters of a request.
    Request(&'t Request<'r>),
    /// The counters of one key of one rule, both named as in a [`Decision`].
    Key {
        /// The domain of the rule; none if there is only one.
        domain: Option<&'t str>,
        /// The name of the rule.
        rule: &'t str,
        /// The values of its `per`, as [one text](crate::encode_key).
        key: &'t str,
    },
}

impl<'t, 'r> From<&'t Request<'r>> for AdjustTarget<'t, 'r> {
    fn from(request: &'t Request<'r>) -> AdjustTarget<'t, 'r> {
        AdjustTarget::Request(request)
    }
}

impl<S: Store> RuleLimiter<S> {
    /// Reads or changes counters without a decision. The returned decision reports the state of
    /// each counter and permits nothing.
    ///
    /// The amount applies to all counters of a request, whatever cost their rules compute. A key
    /// alone does not determine a plan or override, so all counters of the key are changed. The
    /// result contains the limits of the rule itself, and those of plans and overrides of which
    /// something is spent. Envoy domains have no rules to name. If the rule does not exist, the
    /// decision names none.
    ///
    /// ```
    /// use tollgate_rules::{AdjustTarget, Adjustment, Request, RuleLimiter};
    ///
    /// # futures_lite(async {
    /// let limiter = RuleLimiter::new("attributes: [user]\nrules: [{ name: api, per: user, limit: 1/h }]".parse().unwrap());
    /// let ann = Request::empty().attribute("user", "ann");
    /// assert!(limiter.decide(&ann).await.allowed);
    /// assert!(!limiter.decide(&ann).await.allowed);
    /// let target = AdjustTarget::Key { domain: None, rule: "api", key: "ann" };
    /// limiter.adjust(target, Adjustment::Reset).await.unwrap();
    /// assert!(limiter.decide(&ann).await.allowed);
    /// # });
    /// # fn futures_lite(future: impl Future<Output = ()>) {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
    /// # }
    /// ```
    pub async fn adjust<'t, 'r: 't>(
        &self,
        target: impl Into<AdjustTarget<'t, 'r>>,
        adjustment: Adjustment,
    ) -> Result<Decision, StoreError> {
        match target.into() {
            AdjustTarget::Request(request) => adjust(&self.0, request, adjustment).await,
            AdjustTarget::Key { domain, rule, key } => {
                adjust_key(&self.0, domain, rule, key, adjustment.on_key()).await
            }
        }
    }
}

async fn adjust<S: Store>(
    limiter: &LimiterState<S>,
    request: &Request<'_>,
    adjustment: Adjustment,
) -> Result<Decision, StoreError> {
    match adjustment.plan() {
        CounterAdjustment::All(action, amount) => all(limiter, request, action, amount).await,
        CounterAdjustment::Difference { held, spent } => {
            difference(limiter, request, held, spent).await?;
            all(limiter, request, Action::Peek, 0).await
        }
    }
}

async fn all<S: Store>(
    limiter: &LimiterState<S>,
    request: &Request<'_>,
    action: Action,
    amount: u64,
) -> Result<Decision, StoreError> {
    loop {
        let active = limiter.current.load_full();
        #[cfg(feature = "envoy")]
        if let Some(tree) = active.rules.tree_of(request) {
            return ask_envoy::adjust(limiter, (tree, &active.hasher), request, action, amount)
                .await;
        }
        let unmatched = |rules| Decision::plain(true, Reason::Unmatched, 200, None, rules);
        let Some(domain) = active.rules.domain_of(request) else { return Ok(unmatched(None)) };
        let now = limiter.clock.now();
        let request_checks = {
            let facts = RequestFacts::new(request, &domain.compiled.reading);
            rule_checks::of_limits(domain, &facts, limiter.clock.date(now))
        };
        let Some(mut request_checks) = request_checks else {
            return Ok(unmatched(Some(domain.compiled.clone())));
        };
        request_checks.limit_checks.iter_mut().for_each(|limit_check| limit_check.cost = amount);
        let matched =
            MatchedRequest::new(limiter, &active, domain, &request_checks, now, Charging::Real);
        let indices =
            matched.indices_where(|limit_check| limit_check.kind == LimitCheckKind::Limit);
        if let Some(verdicts) = matched.run(action, &indices, 0).await? {
            if action == Action::Reset {
                for limit_check in
                    indices.iter().map(|limit_check| &request_checks.limit_checks[*limit_check])
                {
                    limiter
                        .forgive(limit_check.bound, &request_checks.keys[limit_check.key.clone()]);
                }
            }
            let verdicts = indices.iter().copied().zip(&verdicts);
            return Ok(Decision { held: None, ..matched.decision(0, verdicts) });
        }
    }
}

/// Charges or refunds, under each rule, the difference between the costs `spent` and `held`.
async fn difference<S: Store>(
    limiter: &LimiterState<S>,
    request: &Request<'_>,
    held: u64,
    spent: Option<u64>,
) -> Result<(), StoreError> {
    loop {
        let active = limiter.current.load_full();
        #[cfg(feature = "envoy")]
        if let Some(tree) = active.rules.tree_of(request) {
            let spent = spent.unwrap_or(0);
            let (action, amount) = match spent > held {
                true => (Action::Spend, spent - held),
                false => (Action::Refund, held - spent),
            };
            return ask_envoy::adjust(limiter, (tree, &active.hasher), request, action, amount)
                .await
                .map(drop);
        }
        let Some(domain) = active.rules.domain_of(request) else { return Ok(()) };
        let now = limiter.clock.now();
        let checks_at_cost = |cost| {
            let request = request.clone().cost(cost);
            let facts = RequestFacts::new(&request, &domain.compiled.reading);
            rule_checks::of_limits(domain, &facts, limiter.clock.date(now))
        };
        let Some(mut request_checks) = checks_at_cost(held) else { return Ok(()) };
        let actual = spent.and_then(checks_at_cost);
        let mut changes = [(Action::Spend, SmallVec::new()), (Action::Refund, SmallVec::new())];
        for (index, limit_check) in request_checks.limit_checks.iter_mut().enumerate() {
            if limit_check.kind != LimitCheckKind::Limit
                || !request_checks.rule_checks[limit_check.rule_check].charged
            {
                continue;
            }
            let key = &request_checks.keys[limit_check.key.clone()];
            let same = |other: &&rule_checks::LimitCheck<'_>, keys: &[u8]| {
                other.bound.counter == limit_check.bound.counter && keys[other.key.clone()] == *key
            };
            let after = match (spent, &actual) {
                (None, _) => 0,
                // A rule that does not match the request at its actual cost keeps its charge.
                (Some(_), None) => limit_check.cost,
                (Some(_), Some(actual)) => {
                    let mut indices = actual.limit_checks.iter();
                    let found = indices.find(|other| same(other, &actual.keys));
                    found.map_or(limit_check.cost, |other| other.cost)
                }
            };
            let (before, [more, less]) = (limit_check.cost, &mut changes);
            limit_check.cost = before.abs_diff(after);
            match before.cmp(&after) {
                Ordering::Less => more.1.push(index),
                Ordering::Greater => less.1.push(index),
                Ordering::Equal => {}
            }
        }
        let matched =
            MatchedRequest::new(limiter, &active, domain, &request_checks, now, Charging::Real);
        if carry_out(&matched, changes).await? {
            return Ok(());
        }
    }
}

/// Runs the changes; returns `false` if the rules were replaced before the first one.
async fn carry_out<S: Store>(
    matched: &MatchedRequest<'_, '_, S>,
    changes: [(Action, SmallVec<[usize; 6]>); 2],
) -> Result<bool, StoreError> {
    let mut begun = false;
    for (action, indices) in changes.iter().filter(|(_, indices)| !indices.is_empty()) {
        if matched.run(*action, indices, 0).await?.is_none() {
            // A change that was made is not repeated under the new rules.
            return Ok(begun);
        }
        begun = true;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuleLimiter;
    use crate::decide::ready::ready;

    #[test]
    fn each_rule_settles_by_its_own_cost() {
        let limiter = RuleLimiter::new(
            "
attributes: [user]
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
        let take = || assert!(limiter.decide_now(&ann.clone().cost(400)).allowed);
        let adjust = |adjustment| left(ready(limiter.adjust(&ann, adjustment)).unwrap());
        take();
        assert_eq!(adjust(Adjustment::Settle { held: 400, spent: 100 }), [9, 900, 4800]);
        take();
        assert_eq!(adjust(Adjustment::Settle { held: 400, spent: 500 }), [8, 400, 3800]);
        take();
        assert_eq!(adjust(Adjustment::Cancel(400)), [8, 400, 3800]);
    }
}
