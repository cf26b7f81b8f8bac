//! The deferred queue that a request belongs to, and which refusals are deferred.

use tollgate_rules::{Decision, MatchedRule, Reason, Rules, Then};

/// The name of a deferred queue: a rule and a key, whose requests are replayed first in, first out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeferredQueueKey {
    /// The domain of the rule.
    pub(crate) domain: String,
    /// The name of the rule.
    pub(crate) rule: String,
    /// The values of the rule's `per`, encoded as in [`Decision::key`].
    pub(crate) key: String,
}

impl DeferredQueueKey {
    /// Returns the queue of a refused request; `None` if it is not [deferrable](is_deferrable).
    pub(crate) fn from_decision(decision: &Decision) -> Option<DeferredQueueKey> {
        if !is_deferrable(decision) {
            return None;
        }
        let names = [decision.domain()?, decision.rule()?, decision.key()?];
        let [domain, rule, key] = names.map(str::to_owned);
        Some(DeferredQueueKey { domain, rule, key })
    }

    /// Returns the queue of requests over a rule's limit; `None` if the rule does not defer.
    pub(crate) fn from_rule(rule: MatchedRule<'_>) -> Option<DeferredQueueKey> {
        let defers = rule.enforced && *rule.then == Then::Defer;
        let (domain, name) = (rule.domain.to_owned(), rule.name.to_owned());
        defers.then_some(DeferredQueueKey { domain, rule: name, key: rule.key })
    }
}

/// Returns whether a request is over its limit, and all refusing rules have `then: defer`.
pub(crate) fn is_deferrable(decision: &Decision) -> bool {
    let mut refusing = decision.limits().filter(|limit| limit.enforced && !limit.verdict.allowed);
    !decision.allowed
        && decision.reason == Reason::OverLimit
        && decision.then() == Some(&Then::Defer)
        && refusing.all(|limit| limit.then == Some(&Then::Defer))
}

/// Returns whether any rule defers.
pub(crate) fn any_defers(rules: &Rules) -> bool {
    rules.iter().any(|rule| *rule.then == Then::Defer)
}

#[cfg(test)]
mod tests {
    use tollgate_rules::{Request, RuleLimiter};

    use super::*;

    fn queues(limiter: &RuleLimiter, request: &Request<'_>) -> usize {
        let rules = limiter.rules();
        let matched = rules.matched(request, limiter.clock().date(limiter.clock().now()));
        matched.into_iter().filter_map(DeferredQueueKey::from_rule).count()
    }

    #[test]
    fn another_rules_refusal_is_a_refusal() {
        let rules = "
rules:
  - { name: slow, limit: 1/min, then: defer }
  - { name: hard, limit: 1/h }
  - { name: huge, when: 'cost > 5', limit: 5/min, then: defer }
";
        let limiter = RuleLimiter::new(rules.parse().unwrap());
        let any = Request::new("GET", "/");
        assert!(limiter.decide_now(&any).allowed);
        assert!(!is_deferrable(&limiter.decide_now(&any)), "`hard` refuses too");
        let huge = limiter.decide_now(&any.clone().cost(6));
        assert!(!is_deferrable(&huge), "it never fits");
        assert_eq!(queues(&limiter, &any.cost(6)), 2);
    }

    #[test]
    fn rules_in_shadow_mode_defer_no_request() {
        let rules = "rules: [{ name: slow, limit: 1/min, then: defer, mode: shadow }]";
        let limiter = RuleLimiter::new(rules.parse().unwrap());
        let any = Request::new("GET", "/");
        assert_eq!(queues(&limiter, &any), 0);
        assert!((0..3).all(|_| limiter.decide_now(&any).allowed));
    }

    #[test]
    fn a_refusal_by_a_deferring_rule_names_its_queue() {
        let rules =
            "attributes: [org]\nrules: [{ name: report, per: org, limit: 1/min, then: defer }]";
        let limiter = RuleLimiter::new(rules.parse().unwrap());
        let report = Request::empty().attribute("org", "acme");
        assert_eq!(DeferredQueueKey::from_decision(&limiter.decide_now(&report)), None);
        let queue = DeferredQueueKey::from_decision(&limiter.decide_now(&report)).unwrap();
        assert_eq!((&*queue.rule, &*queue.key), ("report", "acme"));
    }
}
