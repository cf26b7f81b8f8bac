//! What the outcome of a request changes: visits that do not count after all, costs known only now.
//!
//! A decision remembers what it charged ([`held`](super::held)). Once the truth is known, `count` and
//! `cost.settle` of just those rules are evaluated, by the rules the decision was made under, and the
//! difference is charged to just those counters or given back, at most one call each.

use smallvec::SmallVec;
use tollgate_core::{Span, Time};

use super::Request;
use super::compiled::{Bound, Compiled, CostOf, Rule};
use super::decision::Decision;
use super::demand::LineKind;
use super::expr::On;
use super::facts::Facts;
use super::held::{Held, HeldLine};
use super::limiter::Shared;
use super::lists::Lists;
use super::overruns::forgotten;
use super::settled::SettledAs;
use crate::store::{Action, Call, Store};
use crate::store_error::StoreError;
use crate::{Check, Key};

/// What is known of a request that was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    /// Its outcome, as attributes.
    Outcome,
    /// What it cost in the end.
    Spent(u64),
    /// That it never got to where it would have cost anything.
    NotSent,
}

/// Charges what the truth says, of a request that was decided before it was known.
pub(crate) async fn report<S: Store>(
    limiter: &Shared<S>,
    decision: &Decision,
    request: &Request<'_>,
    truth: Truth,
) -> Result<(), StoreError> {
    let (Some(held), Some(rules)) = (&decision.held, &decision.rules) else { return Ok(()) };
    if !held.settle_once() {
        return Ok(());
    }
    let now = limiter.clock.now();
    let settling = {
        let installed = limiter.current.load();
        let domain = installed.rules.domain(&rules.domain);
        // Lists change without the rules; a list's number is only known to its own rules.
        let lists = domain.filter(|domain| domain.compiled.number == rules.number);
        let lists = lists.map_or(&rules.scope.lists, |domain| &domain.lists);
        Settling::new(held, rules, lists, request, truth, now)
    };
    // What was not yet charged first: in between, a limit looks fuller rather than emptier.
    let spent = settling.spend(limiter, decision, held, rules, now).await;
    let refunded = match &spent {
        Ok(_) => run(limiter, held, rules, Action::Refund, &settling.refund, now).await,
        Err(_) => Ok(()),
    };
    for (rule, settled) in &settling.rules {
        let settled = match (*settled, &spent) {
            (SettledAs::Overrun, Ok(as_what)) => *as_what,
            (SettledAs::Overrun | SettledAs::Refunded, Err(_)) => SettledAs::Kept,
            (SettledAs::Refunded, _) if refunded.is_err() => SettledAs::Kept,
            (settled, _) => settled,
        };
        limiter.settled.tell(&rules.domain, &rules.rules[*rule as usize].name, settled);
    }
    spent.and(refunded)
}

/// What is charged to a line, or given back to it.
#[derive(Clone, Copy, Debug)]
struct Change {
    line: usize,
    amount: u64,
}

type Changes = SmallVec<[Change; 4]>;

/// What becomes of everything a request was charged.
#[derive(Debug, Default)]
struct Settling {
    rules: SmallVec<[(u32, SettledAs); 2]>,
    spend: Changes,
    refund: Changes,
}

impl Settling {
    fn new(
        held: &Held,
        rules: &Compiled,
        lists: &Lists,
        request: &Request<'_>,
        truth: Truth,
        now: Time,
    ) -> Settling {
        let request = match truth {
            Truth::Spent(spent) => &request.clone().cost(spent),
            _ => request,
        };
        let facts = Facts::new(request, &rules.trust);
        let mut settling = Settling::default();
        for (index, line) in held.lines.iter().enumerate() {
            let rule = &rules.rules[line.rule as usize];
            if line.is_place() || !rule.has_outcome() && !matches!(truth, Truth::Spent(_)) {
                continue;
            }
            let route = rules.matcher.route_of(line.rule, &facts);
            let on = On { facts: &facts, route, lists };
            let charged = if line.charged { line.cost } else { 0 };
            let settled = match actual(rule, line, on, truth) {
                None => SettledAs::Kept,
                Some(actual) if actual > charged => {
                    settling.spend.push(Change { line: index, amount: actual - charged });
                    SettledAs::Overrun
                }
                Some(actual) if actual == charged => SettledAs::Exact,
                Some(actual) => match is_open(held, line, rule, now) {
                    true => {
                        settling.refund.push(Change { line: index, amount: charged - actual });
                        SettledAs::Refunded
                    }
                    false => SettledAs::Expired,
                },
            };
            settling.note(line.rule, settled);
        }
        settling
    }

    /// Of several limits of a rule, what moved most says how it went.
    fn note(&mut self, rule: u32, settled: SettledAs) {
        match self.rules.iter_mut().find(|(known, _)| *known == rule) {
            Some((_, known)) => *known = (*known).max(settled),
            None => self.rules.push((rule, settled)),
        }
    }

    /// Charges what was used beyond what had been charged, or remembers it for when the store is back.
    async fn spend<S: Store>(
        &self,
        limiter: &Shared<S>,
        decision: &Decision,
        held: &Held,
        rules: &Compiled,
        now: Time,
    ) -> Result<SettledAs, StoreError> {
        let ran = run(limiter, held, rules, Action::Spend, &self.spend, now).await;
        match ran {
            Ok(()) if !held.is_local => return Ok(SettledAs::Overrun),
            Err(error) if !error.kind().did_nothing() => return Err(error),
            _ => {}
        }
        let installed = limiter.current.load();
        for Change { line, amount } in &self.spend {
            let line = &held.lines[*line];
            let local = limiter.local();
            // What was charged in this process is owed on the limit of which that was a share.
            let share = local.share_of(line.bound.bucket).filter(|_| held.is_local);
            let whole = share.as_ref().map_or(&line.bound, |share| &share.whole);
            let bound = installed.successor(whole.bucket).unwrap_or(whole);
            let quota = line.bound.limit.quota();
            let reports = decision.limits.iter();
            let mut reports = reports.filter(|it| it.rule == line.rule && it.quota == quota);
            let full = reports.next().map_or(Span::ZERO, |it| it.verdict.reset_after);
            local.overruns.add(bound, &line.key, *amount, held.since + full, now);
        }
        Ok(SettledAs::Owed)
    }
}

/// What a rule makes of the truth; none if that cannot be said, and what was charged stays.
fn actual(rule: &Rule, line: &HeldLine, on: On<'_, '_>, truth: Truth) -> Option<u64> {
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
    // A value counts as one, whatever the request costs.
    if line.kind != LineKind::Limit {
        return Some(line.cost);
    }
    let number = |number: i64| u64::try_from(number).ok();
    match (rule.settle(), truth) {
        (Some(settle), Truth::Outcome) => number(settle.value(on)?.number()?),
        (Some(_), Truth::Spent(spent)) => Some(spent),
        (None, Truth::Spent(spent)) => match rule.cost.as_ref().map(|cost| &cost.reserve) {
            None => Some(spent),
            Some(CostOf::Fixed(_)) => Some(line.cost),
            Some(CostOf::Value(cost)) => number(cost.value(on)?.number()?),
        },
        _ => Some(line.cost),
    }
}

/// Whether what is not needed may go back: in time, and before the limit forgot the charge by
/// itself, or it would be given back twice.
fn is_open(held: &Held, line: &HeldLine, rule: &Rule, now: Time) -> bool {
    let forgotten = forgotten(&line.bound.limit, held.since);
    forgotten.is_none_or(|forgotten| now < forgotten)
        && now < held.since + held.open.unwrap_or(rule.expire()).into()
}

/// Runs one call, on the counters that were charged or on those that took their place since.
async fn run<S: Store>(
    limiter: &Shared<S>,
    held: &Held,
    rules: &Compiled,
    action: Action,
    changes: &[Change],
    now: Time,
) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    loop {
        let installed = limiter.current.load_full();
        let check = |change: &Change| {
            let line = &held.lines[change.line];
            let successor = installed.successor(line.bound.bucket).filter(|_| !held.is_local);
            let Bound { bucket, limit } = successor.unwrap_or(&line.bound);
            let former = installed.former(*bucket, now).filter(|_| !held.is_local);
            let consistency = rules.rules[line.rule as usize].consistency;
            let check = Check::new(*bucket, Key::Bytes(&line.key), limit, change.amount);
            Check { former, consistency, ..check }
        };
        let checks: SmallVec<[Check<'_>; 4]> = changes.iter().map(check).collect();
        let call = Call { action, checks: &checks };
        if let Some(local) = limiter.local.get().filter(|_| held.is_local) {
            return local.store.run(call).await.map(drop);
        }
        let current = || limiter.current.load().generation == installed.generation;
        if limiter.store.run_while(call, current).await?.is_some() {
            return Ok(());
        }
    }
}
