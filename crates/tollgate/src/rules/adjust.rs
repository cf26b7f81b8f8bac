//! Reading and changing counters without deciding anything: what operators and refunds need.

use super::decide::{Answers, Asked, Charging};
use super::decision::{Decision, Reason};
use super::demand::{self, LineKind, Matched};
use super::facts::Facts;
use super::limiter::{RuleLimiter, Shared};
use super::{Request, ask_envoy};
use crate::store::{Action, Store, StoreError};

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
