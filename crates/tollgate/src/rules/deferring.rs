//! Which rules defer what is over their limit, and in which lines a request would stand.

use super::decision::{Decision, Reason};
use super::demand;
use super::facts::Facts;
use super::limiter::RuleLimiter;
use super::policy::Then;
use super::{Request, Rules};

/// The line of a rule and a key: what is deferred there is replayed first in, first out.
///
/// ```
/// use tollgate::{Limiter, Request};
///
/// let limiter = Limiter::from_rules("
/// rules:
///   - { name: edge, per: ip, limit: 10/s }
///   - { name: report, route: POST /report, per: org, limit: 1/min, then: defer }
/// ".parse()?);
/// let report = Request::new("POST", "/report").attribute("org", "acme");
/// let lines = limiter.deferring(&report);
/// assert_eq!((lines.len(), &*lines[0].rule, &*lines[0].key), (1, "report", "acme"));
///
/// assert!(!limiter.decide(&report).is_deferrable());
/// let second = limiter.decide(&report);
/// assert!(second.is_deferrable());
/// assert_eq!((second.rule(), second.key()), (Some("report"), Some("acme")));
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeferLine {
    /// The domain of the rule.
    pub domain: String,
    /// The rule.
    pub rule: String,
    /// The values of its `per`, as [`Decision::key`] has them.
    pub key: String,
}

impl Decision {
    /// Whether it is refused for now only, and by nothing but rules that say `then: defer`.
    pub fn is_deferrable(&self) -> bool {
        let Some(rules) = &self.rules else { return false };
        let defers =
            |rule: u32| rules.rules.get(rule as usize).is_some_and(|rule| rule.then == Then::Defer);
        let mut refusing = self.limits.iter().filter(|it| it.enforced && !it.verdict.allowed);
        !self.allowed
            && self.reason == Reason::OverLimit
            && self.rule.is_some_and(defers)
            && refusing.all(|limit| defers(limit.rule))
    }

    /// The line in which a request that is [deferrable](Decision::is_deferrable) stands.
    pub fn defer_line(&self) -> Option<DeferLine> {
        if !self.is_deferrable() {
            return None;
        }
        let [domain, rule, key] = [self.domain()?, self.rule()?, self.key()?].map(str::to_owned);
        Some(DeferLine { domain, rule, key })
    }
}

impl Rules {
    /// Whether any rule defers.
    pub fn defer(&self) -> bool {
        let mut rules = self.domains().iter().flat_map(|domain| &domain.compiled.rules);
        rules.any(|rule| rule.then == Then::Defer)
    }
}

impl<S> RuleLimiter<S> {
    /// The lines in which a request would stand if it were over the limit, in the order of the
    /// rules. Asks no store.
    pub fn deferring(&self, request: &Request<'_>) -> Vec<DeferLine> {
        let installed = self.0.current.load_full();
        let Some(domain) = installed.rules.domain_of(request) else { return Vec::new() };
        let facts = Facts::new(request, &domain.compiled.trust);
        let Some(demands) = demand::of(domain, &facts, self.0.clock.now()) else {
            return Vec::new();
        };
        let rule_of = |demand: &demand::Demand| &domain.compiled.rules[demand.rule as usize];
        let lines =
            demands.demands.iter().filter(|it| it.enforced && rule_of(it).then == Then::Defer);
        lines
            .map(|demand| DeferLine {
                domain: domain.name.to_string(),
                rule: rule_of(demand).name.to_string(),
                key: demands.key(demand).to_owned(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Limiter, Request};

    #[test]
    fn another_rules_refusal_is_a_refusal() {
        let rules = "
rules:
  - { name: slow, limit: 1/min, then: defer }
  - { name: hard, limit: 1/h }
  - { name: huge, when: 'cost > 5', limit: 5/min, then: defer }
";
        let limiter = Limiter::from_rules(rules.parse().unwrap());
        let any = Request::new("GET", "/");
        assert!(limiter.decide(&any).allowed);
        assert!(!limiter.decide(&any).is_deferrable(), "`hard` refuses too");
        let huge = limiter.decide(&any.clone().cost(6));
        assert!(!huge.is_deferrable(), "it never fits");
        assert_eq!(limiter.deferring(&any.cost(6)).len(), 2);
    }

    #[test]
    fn rules_in_shadow_defer_nobody() {
        let rules = "rules: [{ name: slow, limit: 1/min, then: defer, mode: shadow }]";
        let limiter = Limiter::from_rules(rules.parse().unwrap());
        let any = Request::new("GET", "/");
        assert!(limiter.deferring(&any).is_empty());
        assert!((0..3).all(|_| limiter.decide(&any).allowed));
    }
}
