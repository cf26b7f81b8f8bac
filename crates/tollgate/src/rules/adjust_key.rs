//! Reading and changing the counters of one key, when only its name is known.

use std::collections::HashSet;

use smallvec::SmallVec;

use super::Request;
use super::compiled::{Bound, Domain, RuleLimit};
use super::decision::{Decision, LimitState, Reason};
use super::installed::Installed;
use super::limiter::RuleLimiter;
use super::policy::Mode;
use crate::store::{Action, Call, Store};
use crate::store_error::StoreError;
use crate::{Check, Key, Reserve};

/// What is done to the counters of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyAdjustment {
    /// Nothing: they are only read.
    Peek,
    /// So much is given back, never above full.
    TopUp(u64),
    /// All is forgotten.
    Reset,
}

impl KeyAdjustment {
    fn parts(self) -> (Action, u64) {
        match self {
            KeyAdjustment::Peek => (Action::Peek, 0),
            KeyAdjustment::TopUp(amount) => (Action::Refund, amount),
            KeyAdjustment::Reset => (Action::Reset, 0),
        }
    }
}

impl<S: Store> RuleLimiter<S> {
    /// Reads or changes the counters of one key of one rule, both as a [`Decision`] names them.
    /// None if there is no such rule. Domains written for Envoy are not known by rules.
    ///
    /// A key alone does not say which plan or override its requests have: what is done is done to
    /// all of them. Told about are the limits that the rule itself has, and of the others those of
    /// which something is spent.
    ///
    /// ```
    /// use tollgate::{Limiter, Request, rules::KeyAdjustment};
    ///
    /// # futures_lite(async {
    /// let limiter = Limiter::from_rules("rules: [{ name: api, per: user, limit: 1/h }]".parse().unwrap());
    /// let ann = Request::empty().attribute("user", "ann");
    /// assert!(limiter.decide(&ann).allowed);
    /// assert!(!limiter.decide(&ann).allowed);
    /// limiter.adjust_key(None, "api", "ann", KeyAdjustment::Reset).await.unwrap();
    /// assert!(limiter.decide(&ann).allowed);
    /// # });
    /// # fn futures_lite(future: impl Future<Output = ()>) {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
    /// # }
    /// ```
    pub async fn adjust_key(
        &self,
        domain: Option<&str>,
        rule: &str,
        key: &str,
        adjustment: KeyAdjustment,
    ) -> Result<Option<Decision>, StoreError> {
        loop {
            let installed = self.0.current.load_full();
            let request = Request { domain, ..Request::empty() };
            let Some(domain) = installed.rules.domain_of(&request) else { return Ok(None) };
            let Some(&number) = domain.compiled.by_name.get(rule) else { return Ok(None) };
            let parts = adjustment.parts();
            if let Some(limits) = self.each_of(&installed, domain, number, key, parts).await? {
                let rules = Some(domain.compiled.clone());
                let plain = Decision::plain(true, Reason::WithinLimits, 200, Some(number), rules);
                return Ok(Some(Decision { limits, key: Some(key.as_bytes().into()), ..plain }));
            }
        }
    }

    /// Does something to every counter of a key; how each stands then. None if the rules were
    /// replaced meanwhile. One at a time: there may be many, and they need not change together.
    async fn each_of(
        &self,
        installed: &Installed,
        domain: &Domain,
        number: u32,
        key: &str,
        (action, amount): (Action, u64),
    ) -> Result<Option<SmallVec<[LimitState; 4]>>, StoreError> {
        let now = self.0.clock.now();
        let current = || self.0.current.load().generation == installed.generation;
        let mode = domain.mode_of(number, now);
        let enforced = matches!(mode, Mode::Enforce | Mode::Share(_));
        let mut limits = SmallVec::new();
        for (bound, own) in bounds_of(domain, number) {
            let check = Check::new(bound.bucket, Key::Bytes(key.as_bytes()), &bound.limit, amount);
            let checks = [Check { former: installed.former(bound.bucket, now), ..check }];
            let ran = self.0.store.run_while(Call { action, checks: &checks }, current).await?;
            let Some(verdicts) = ran else { return Ok(None) };
            let verdict = verdicts[0];
            if action == Action::Reset {
                self.0.forgive(bound, key.as_bytes());
            }
            if own || verdict.remaining < verdict.limit {
                let quota = bound.limit.quota();
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
}

/// Every limit that counts keys of a rule, and whether the rule itself has it.
fn bounds_of(domain: &Domain, number: u32) -> Vec<(&Bound, bool)> {
    let mut bounds: Vec<(&Bound, bool)> = Vec::new();
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
    // Plans and overrides often say the same.
    let mut known = HashSet::new();
    bounds.retain(|(bound, _)| known.insert(bound.bucket.number()));
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limiter;
    use crate::counters::ready;

    /// A key does not say its plan: whichever it has, its counters are found.
    #[test]
    fn a_key_is_found_under_every_plan_and_override() {
        let limiter = Limiter::from_rules(
            "
plans: { free: { api: 2/h }, pro: { api: 5/h } }
overrides: [{ match: { user: eve }, rule: api, limit: 3/h }]
rules: [{ name: api, per: user, limit: [plan.api, 50/h] }]
"
            .parse()
            .unwrap(),
        );
        let ask = |user: &str, plan: &str| {
            let request = Request::empty().attribute("user", user).attribute("plan", plan);
            limiter.decide(&request).allowed
        };
        let adjust = |key: &str, adjustment| -> Vec<u64> {
            let found = ready(limiter.adjust_key(None, "api", key, adjustment)).unwrap().unwrap();
            found.limits().map(|limit| limit.verdict.remaining).collect()
        };
        assert!(ask("ann", "pro") && ask("eve", "free"));
        assert_eq!(adjust("ann", KeyAdjustment::Peek), [4, 49]);
        assert_eq!(adjust("eve", KeyAdjustment::Peek), [50, 2], "an override is instead of all");
        assert!(ask("bob", "free") && ask("bob", "free") && !ask("bob", "free"));
        assert_eq!(adjust("bob", KeyAdjustment::TopUp(1)), [1, 49]);
        assert!(ask("bob", "free") && !ask("bob", "free"));
        assert_eq!(adjust("bob", KeyAdjustment::Reset), [50]);
        assert!(ask("bob", "free"));
        let nothing = ready(limiter.adjust_key(None, "none", "bob", KeyAdjustment::Reset)).unwrap();
        assert!(nothing.is_none());
    }
}
