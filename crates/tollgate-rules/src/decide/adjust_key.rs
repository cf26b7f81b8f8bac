//! Reads and changes the counters of one key of one rule.

use std::collections::HashSet;

use smallvec::SmallVec;

use crate::Request;
use crate::compile::domain::{BoundLimit, Domain, RuleLimit};
use crate::compile::policy::Mode;
use crate::decide::active_rules::ActiveRules;
use crate::decide::decision::{Decision, LimitState, Reason};
use crate::decide::limiter::LimiterState;
use tollgate::StoreError;
use tollgate::{Action, Store, StoreCall};
use tollgate::{Check, Key, Reserve};

/// Reads or changes the counters of one key of one rule; the decision names no rule if it does not
/// exist.
pub(crate) async fn adjust_key<S: Store>(
    limiter: &LimiterState<S>,
    domain: Option<&str>,
    rule: &str,
    key: &str,
    change: (Action, u64),
) -> Result<Decision, StoreError> {
    loop {
        let active = limiter.current.load_full();
        let request = Request { domain, ..Request::empty() };
        let Some(domain) = active.rules.domain_of(&request) else {
            return Ok(Decision::none());
        };
        let rules = Some(domain.compiled.clone());
        let Some(&number) = domain.compiled.by_name.get(rule) else {
            return Ok(Decision::plain(true, Reason::Unmatched, 200, None, rules));
        };
        let key = &*domain.stored_key(number, key);
        if let Some(limits) = each_of(limiter, &active, domain, number, key, change).await? {
            let plain = Decision::plain(true, Reason::WithinLimits, 200, Some(number), rules);
            return Ok(Decision { limits, key: Some(key.as_bytes().into()), ..plain });
        }
    }
}

/// Changes every counter of a key and returns their states; none if the rules were replaced
/// meanwhile. The counters change one at a time: there may be many, and they are independent.
async fn each_of<S: Store>(
    limiter: &LimiterState<S>,
    active: &ActiveRules,
    domain: &Domain,
    number: u32,
    key: &str,
    (action, amount): (Action, u64),
) -> Result<Option<SmallVec<[LimitState; 4]>>, StoreError> {
    let now = limiter.clock.now();
    let current = || limiter.current.load().generation == active.generation;
    let mode = domain.mode_of(number, limiter.clock.date(now));
    let enforced = matches!(mode, Mode::Enforce | Mode::Share(_));
    let mut limits = SmallVec::new();
    for (bound, own) in bounds_of(domain, number) {
        let check = Check::new(bound.counter, Key::Bytes(key.as_bytes()), &bound.limit, amount);
        let checks = [Check { previous: active.previous(bound.counter, now), ..check }];
        let ran = limiter.store.run_while(StoreCall { action, checks: &checks }, current).await?;
        let Some(verdicts) = ran else { return Ok(None) };
        let verdict = verdicts[0];
        if action == Action::Reset {
            limiter.forgive(bound, key.as_bytes());
        }
        if own || verdict.remaining < verdict.limit {
            let quota = bound.limit.summary();
            let reserve = Reserve::None;
            limits.push(LimitState {
                rule: number,
                quota,
                verdict,
                mode,
                enforced,
                cost: amount,
                reserve,
            });
        }
    }
    Ok(Some(limits))
}

/// Returns every limit that counts keys of a rule, and whether it belongs to the rule itself.
fn bounds_of(domain: &Domain, number: u32) -> Vec<(&BoundLimit, bool)> {
    let mut bounds: Vec<(&BoundLimit, bool)> = Vec::new();
    for limit in &domain.compiled.rules[number as usize].limits {
        match limit {
            RuleLimit::Fixed(bound) => bounds.push((bound, true)),
            RuleLimit::Distinct(distinct) => bounds.push((&distinct.count, true)),
            RuleLimit::Plan { by_plan, .. } => {
                bounds.extend(by_plan.iter().flatten().map(|bound| (bound, false)));
            }
        }
    }
    bounds.extend(domain.overrides.limits_of(number).map(|bound| (bound, false)));
    // Plans and overrides often have equal limits.
    let mut known = HashSet::new();
    bounds.retain(|(bound, _)| known.insert(bound.counter.number()));
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::ready::ready;
    use crate::{AdjustTarget, Adjustment, RuleLimiter};

    /// A key does not determine its plan, so the counters of all plans are found.
    #[test]
    fn a_key_is_found_under_every_plan_and_override() {
        let limiter = RuleLimiter::new(
            "
plans: { free: { api: 2/h }, pro: { api: 5/h } }
overrides: [{ match: { user: eve }, rule: api, limit: 3/h }]
attributes: [user]
rules: [{ name: api, per: user, limit: [plan.api, 50/h] }]
"
            .parse()
            .unwrap(),
        );
        let ask = |user: &str, plan: &str| {
            let request = Request::empty().attribute("user", user).attribute("plan", plan);
            limiter.decide_now(&request).allowed
        };
        let adjust = |key: &str, adjustment| -> Vec<u64> {
            let target = AdjustTarget::Key { domain: None, rule: "api", key };
            let found = ready(limiter.adjust(target, adjustment)).unwrap();
            assert_eq!(found.rule(), Some("api"));
            found.limits().map(|limit| limit.verdict.remaining).collect()
        };
        assert!(ask("ann", "pro") && ask("eve", "free"));
        assert_eq!(adjust("ann", Adjustment::Peek), [4, 49]);
        assert_eq!(adjust("eve", Adjustment::Peek), [50, 2], "an override is instead of all");
        assert!(ask("bob", "free") && ask("bob", "free") && !ask("bob", "free"));
        assert_eq!(adjust("bob", Adjustment::Refund(1)), [1, 49]);
        assert!(ask("bob", "free") && !ask("bob", "free"));
        assert_eq!(adjust("bob", Adjustment::Reset), [50]);
        assert!(ask("bob", "free"));
        let target = AdjustTarget::Key { domain: None, rule: "none", key: "bob" };
        assert_eq!(ready(limiter.adjust(target, Adjustment::Reset)).unwrap().rule(), None);
    }
}
