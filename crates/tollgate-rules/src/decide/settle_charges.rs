//! Settles charges by the outcome of a request.
//!
//! A decision keeps its [charges](crate::decide::held_charges). Once the outcome is known, `count`
//! and `cost.settle` of the charged rules are evaluated, as they were at the decision, and the
//! difference is charged to the same counters or refunded, in at most one call each.

use smallvec::SmallVec;
use tollgate_core::Time;

use crate::Request;
use crate::compile::domain::{BoundLimit, CompiledDomain, CompiledRule, CostSource};
use crate::compile::expr::Activation;
use crate::compile::lists::Lists;
use crate::decide::held_charges::{HeldCharge, HeldCharges};
use crate::decide::limiter::LimiterState;
use crate::decide::outcome::Truth;
use crate::decide::overruns::forgotten;
use crate::decide::settlement::SettledAs;
use crate::decide::settlement_progress::SettlementStep;
use crate::matching::request_facts::RequestFacts;
use crate::matching::rule_checks::LimitCheckKind;
use tollgate::StoreError;
use tollgate::{Action, Store, StoreCall};
use tollgate::{Check, Key};

/// Settles the charges of a decided request by its outcome.
pub(crate) async fn settle_charges<S: Store>(
    limiter: &LimiterState<S>,
    held: &HeldCharges,
    request: &Request<'_>,
    truth: Truth,
) -> Result<(), StoreError> {
    let step = held.progress.begin();
    if step == SettlementStep::Nothing {
        return Ok(());
    }
    let is_repeated = held.progress.attempted().is_some();
    let rules = &held.rules;
    let now = limiter.clock.now();
    let mut plan = {
        let active = limiter.current.load();
        let domain = active.rules.domain(&rules.domain);
        // Lists change independently of rules, and list numbers are valid only for their own rules.
        let lists = domain.filter(|domain| domain.compiled.number == rules.number);
        let lists = lists.map_or(&rules.scope.lists, |domain| &domain.lists);
        SettlementPlan::new(held, rules, lists, request, truth, now)
    };
    if step == SettlementStep::Refunds {
        plan.spend.clear();
        plan.rules.retain(|(_, settled)| *settled == SettledAs::Refunded);
    }
    // Overruns are charged first, so that a limit looks fuller rather than emptier in between.
    let spent = plan.spend(limiter, held, rules, now).await;
    let refunded = match &spent {
        Ok(_) => run(limiter, held, rules, Action::Refund, &plan.refund, now).await,
        Err(_) => Ok(()),
    };
    // An overrun whose reply was lost may have been charged; the refunds were not tried.
    let rest = match (&spent, &refunded) {
        (Err(_), _) => Some(SettlementStep::Refunds),
        (_, Err(error)) if !error.kind().did_nothing() => None,
        (_, Err(_)) if step == SettlementStep::All && plan.spend.is_empty() => Some(step),
        (_, Err(_)) => Some(SettlementStep::Refunds),
        _ => None,
    };
    if let Some(rest) = rest {
        held.progress.reopen(rest, now);
    }
    if is_repeated {
        // The first attempt reported the rules whose charges stay as they are.
        let changed = [SettledAs::Refunded, SettledAs::Overrun];
        plan.rules.retain(|(_, settled)| changed.contains(settled));
    }
    for (rule, settled) in &plan.rules {
        let settled = match (*settled, &spent) {
            (SettledAs::Overrun, Ok(outcome)) => *outcome,
            (SettledAs::Overrun | SettledAs::Refunded, Err(_)) => SettledAs::Kept,
            (SettledAs::Refunded, _) if refunded.is_err() => SettledAs::Kept,
            (settled, _) => settled,
        };
        limiter.listeners.settled.notify(&rules.domain, &rules.rules[*rule as usize].name, settled);
    }
    spent.and(refunded)
}

/// An amount that is charged or refunded to a counter.
#[derive(Clone, Copy, Debug)]
struct CounterChange {
    charge: usize,
    amount: u64,
}

type CounterChanges = SmallVec<[CounterChange; 4]>;

/// The changes that settle all charges of a request.
#[derive(Debug, Default)]
struct SettlementPlan {
    rules: SmallVec<[(u32, SettledAs); 2]>,
    spend: CounterChanges,
    refund: CounterChanges,
}

impl SettlementPlan {
    fn new(
        held: &HeldCharges,
        rules: &CompiledDomain,
        lists: &Lists,
        request: &Request<'_>,
        truth: Truth,
        now: Time,
    ) -> SettlementPlan {
        let request = match truth {
            Truth::Spent(spent) => &request.clone().cost(spent),
            _ => request,
        };
        let facts = RequestFacts::new(request, &rules.reading);
        let mut plan = SettlementPlan::default();
        for (index, charge) in held.charges.iter().enumerate() {
            let rule = &rules.rules[charge.rule as usize];
            if charge.is_permit() || !rule.has_outcome() && !matches!(truth, Truth::Spent(_)) {
                continue;
            }
            let route = rules.matcher.route_of(charge.rule, &facts);
            let on = Activation { facts: &facts, route, lists };
            let charged = if charge.charged { charge.cost } else { 0 };
            let settled = match actual(rule, charge, on, truth) {
                None => SettledAs::Kept,
                Some(actual) if actual > charged => {
                    plan.spend.push(CounterChange { charge: index, amount: actual - charged });
                    SettledAs::Overrun
                }
                Some(actual) if actual == charged => SettledAs::Exact,
                Some(actual) => match is_open(held, charge, rule, now) {
                    true => {
                        plan.refund.push(CounterChange { charge: index, amount: charged - actual });
                        SettledAs::Refunded
                    }
                    false => SettledAs::Expired,
                },
            };
            plan.record(charge.rule, settled);
        }
        plan
    }

    /// Records the settlement of a rule; of several limits, the largest change counts.
    fn record(&mut self, rule: u32, settled: SettledAs) {
        match self.rules.iter_mut().find(|(known, _)| *known == rule) {
            Some((_, known)) => *known = (*known).max(settled),
            None => self.rules.push((rule, settled)),
        }
    }

    /// Charges overruns, or records them for when the store answers again.
    async fn spend<S: Store>(
        &self,
        limiter: &LimiterState<S>,
        held: &HeldCharges,
        rules: &CompiledDomain,
        now: Time,
    ) -> Result<SettledAs, StoreError> {
        let ran = run(limiter, held, rules, Action::Spend, &self.spend, now).await;
        match ran {
            Ok(()) if !held.is_local => return Ok(SettledAs::Overrun),
            Err(error) if !error.kind().did_nothing() => return Err(error),
            _ => {}
        }
        let active = limiter.current.load();
        for CounterChange { charge, amount } in &self.spend {
            let charge = &held.charges[*charge];
            let local = limiter.local();
            // An overrun of a local share is owed on the whole limit.
            let share = local.share_of(charge.bound.counter).filter(|_| held.is_local);
            let whole = share.as_ref().map_or(&charge.bound, |share| &share.whole);
            let bound = active.successor(whole.counter).unwrap_or(whole);
            let from = held.since + charge.reset_after;
            local.overruns.add(bound, &charge.key, *amount, from, now);
        }
        Ok(SettledAs::Owed)
    }
}

/// Returns the actual cost under a rule; none if it is unknown and the charge stays.
fn actual(
    rule: &CompiledRule,
    charge: &HeldCharge,
    on: Activation<'_, '_>,
    truth: Truth,
) -> Option<u64> {
    if truth == Truth::NotSent {
        return Some(0);
    }
    if let Some(count) = &rule.count {
        let is_unknown = || count.attributes().into_iter().any(|of| on.facts.is_unknown(of));
        match count.truth(on) {
            Some(true) => {}
            Some(false) => return Some(0),
            None if matches!(truth, Truth::Spent(_)) => {}
            None if is_unknown() => return None,
            None => return Some(0),
        }
    }
    // A distinct value counts as one, whatever the request costs.
    if charge.kind != LimitCheckKind::Limit {
        return Some(charge.cost);
    }
    let number = |number: i64| u64::try_from(number).ok();
    match (rule.settle(), truth) {
        (Some(settle), Truth::Outcome) => number(settle.value(on)?.number()?),
        (Some(_), Truth::Spent(spent)) => Some(spent),
        (None, Truth::Spent(spent)) => match rule.cost.as_ref().map(|cost| &cost.reserve) {
            None => Some(spent),
            Some(CostSource::Fixed(_)) => Some(charge.cost),
            Some(CostSource::Value(cost)) => number(cost.value(on)?.number()?),
        },
        _ => Some(charge.cost),
    }
}

/// Whether a refund is possible: in time, and before the limit forgets the charge itself, which
/// would refund it twice. A repeated attempt is in time if the first one was.
fn is_open(held: &HeldCharges, charge: &HeldCharge, rule: &CompiledRule, now: Time) -> bool {
    let forgotten = forgotten(&charge.bound.limit, held.since);
    let attempted = held.progress.attempted().unwrap_or(now);
    forgotten.is_none_or(|forgotten| now < forgotten)
        && attempted < held.since + held.open.unwrap_or(rule.expire()).into()
}

/// Runs one call on the charged counters, or on those that replaced them.
async fn run<S: Store>(
    limiter: &LimiterState<S>,
    held: &HeldCharges,
    rules: &CompiledDomain,
    action: Action,
    changes: &[CounterChange],
    now: Time,
) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    loop {
        let active = limiter.current.load_full();
        let check = |change: &CounterChange| {
            let charge = &held.charges[change.charge];
            let successor = active.successor(charge.bound.counter).filter(|_| !held.is_local);
            let BoundLimit { counter, limit } = successor.unwrap_or(&charge.bound);
            let previous = active.previous(*counter, now).filter(|_| !held.is_local);
            let consistency = rules.rules[charge.rule as usize].consistency;
            let check = Check::new(*counter, Key::Bytes(&charge.key), limit, change.amount);
            Check { previous, consistency, ..check }
        };
        let checks: SmallVec<[Check<'_>; 4]> = changes.iter().map(check).collect();
        let call = StoreCall { action, checks: &checks };
        if let Some(local) = limiter.local.get().filter(|_| held.is_local) {
            return local.store.run(call).await.map(drop);
        }
        let current = || limiter.current.load().generation == active.generation;
        if limiter.store.run_while(call, current).await?.is_some() {
            return Ok(());
        }
    }
}
