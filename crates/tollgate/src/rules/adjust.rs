//! Reading and changing counters without deciding anything: what operators and refunds need.

use std::collections::HashSet;

use smallvec::SmallVec;

use super::compiled::{Bound, Domain, RuleLimit};
use super::decide::{Answers, Asked, Charging};
use super::decision::{Decision, LimitState, Reason};
use super::demand::{self, LineKind, Matched};
use super::facts::Facts;
use super::installed::Installed;
use super::limiter::{RuleLimiter, Shared};
use super::policy::Mode;
use super::{Request, ask_envoy};
use crate::store::{Action, Call, Store, StoreError};
use crate::{Check, Key};

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
}

impl Adjustment {
    fn parts(self) -> (Action, u64) {
        match self {
            Adjustment::Peek => (Action::Peek, 0),
            Adjustment::Spend(amount) => (Action::Spend, amount),
            Adjustment::Refund(amount) => (Action::Refund, amount),
            Adjustment::Reset => (Action::Reset, 0),
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

    /// Reads or changes the counters of one key of one rule, both as a [`Decision`] names them.
    /// None if there is no such rule. Domains written for Envoy are not known by rules.
    ///
    /// A key alone does not say which plan or override its requests have: what is done is done to
    /// all of them. Told about are the limits that the rule itself has, and of the others those of
    /// which something is spent.
    ///
    /// ```
    /// use tollgate::{Limiter, Request, rules::Adjustment};
    ///
    /// # futures_lite(async {
    /// let limiter = Limiter::from_rules("rules: [{ name: api, per: user, limit: 1/h }]".parse().unwrap());
    /// let ann = Request::empty().attribute("user", "ann");
    /// assert!(limiter.decide(&ann).allowed);
    /// assert!(!limiter.decide(&ann).allowed);
    /// limiter.adjust_key(None, "api", "ann", Adjustment::Reset).await.unwrap();
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
        adjustment: Adjustment,
    ) -> Result<Option<Decision>, StoreError> {
        let (action, amount) = adjustment.parts();
        loop {
            let installed = self.0.current.load_full();
            let request = Request { domain, ..Request::empty() };
            let Some(domain) = installed.rules.domain_of(&request) else { return Ok(None) };
            let Some(&number) = domain.compiled.by_name.get(rule) else { return Ok(None) };
            if let Some(limits) =
                self.each_of(&installed, domain, number, key, (action, amount)).await?
            {
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
        let enforced = domain.compiled.rules[number as usize].mode != Mode::Shadow;
        let mut limits = SmallVec::new();
        for (bound, own) in bounds_of(domain, number) {
            let check = Check::new(bound.bucket, Key::Bytes(key.as_bytes()), &bound.limit, amount);
            let checks = [Check { former: installed.former(bound.bucket, now), ..check }];
            let ran = self.0.store.run_while(Call { action, checks: &checks }, current).await?;
            let Some(verdicts) = ran else { return Ok(None) };
            let verdict = verdicts[0];
            if own || verdict.remaining < verdict.limit {
                let quota = bound.limit.quota();
                limits.push(LimitState { rule: number, quota, verdict, enforced, cost: amount });
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

async fn adjust<S: Store>(
    limiter: &Shared<S>,
    request: &Request<'_>,
    adjustment: Adjustment,
) -> Result<Decision, StoreError> {
    let (action, amount) = adjustment.parts();
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
        let Matched::Limited(mut demands) = demands else {
            return Ok(unmatched(Some(domain.compiled.clone())));
        };
        demands.lines.iter_mut().for_each(|line| line.cost = amount);
        let charging = Charging::Real;
        let asked = Asked { limiter, installed: &installed, domain, demands, now, charging };
        let lines = asked.lines(|line| line.kind == LineKind::Limit);
        if let Some(verdicts) = asked.run(action, &lines, 0).await? {
            let answers: Answers = lines.iter().copied().zip(verdicts).collect();
            return Ok(Decision { held: None, ..asked.decision(0, answers) });
        }
    }
}
