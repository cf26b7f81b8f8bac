//! Decisions before everything about a request is known: rules that read what is missing are left out.

use crate::compile::domain::CompiledDomain;
use crate::compile::policy::Then;
use crate::matching::matcher::Hits;
use crate::matching::request_facts::RequestFacts;

/// Leaves out the rules that read a pending attribute; returns whether the others can decide.
///
/// They cannot if a rule that is left out may allow the request, because such a rule takes precedence.
#[cold]
pub(super) fn leave_out(
    compiled: &CompiledDomain,
    facts: &RequestFacts<'_>,
    hits: &mut Hits,
) -> bool {
    let pending = compiled.reads.rules_below(facts.pending);
    let may_allow = |rule: &u32| {
        compiled.rules[*rule as usize].then == Then::Allow
            && compiled.matcher.has_route_for(*rule, facts)
    };
    if pending.iter().any(may_allow) {
        return false;
    }
    hits.retain(|hit| pending.binary_search(&hit.rule).is_err());
    true
}

#[cfg(test)]
mod tests {
    use crate::{Reason, Request, RuleLimiter};

    const RULES: &str = "
rules:
  - { name: calls, route: POST /chat, limit: 1/h }
  - { name: tokens, limit: 5 tokens/h, cost: body.tokens }
  - { name: model, route: POST /model, when: 'body.model == \"small\"', then: allow }
  - { name: all, route: POST /model, limit: 1/h }
";

    fn decide(limiter: &RuleLimiter, path: &str, names: &[&str]) -> (bool, Reason, Option<String>) {
        let decision = limiter.decide_now(&Request::new("POST", path).pending(names).dry_run());
        (decision.allowed, decision.reason, decision.rule().map(str::to_owned))
    }

    #[test]
    fn rules_that_need_what_is_missing_do_not_refuse() {
        let limiter = RuleLimiter::new(RULES.parse().unwrap());
        let spend = Request::new("POST", "/other").attribute("body.tokens", 5);
        assert!(limiter.decide_now(&spend).allowed);
        assert!(!decide(&limiter, "/other", &[]).0, "the rule itself refuses");
        assert_eq!(decide(&limiter, "/other", &["body"]), (true, Reason::Unmatched, None));
        assert!(decide(&limiter, "/chat", &["body"]).0);
        assert!(!decide(&limiter, "/chat", &["bod", "body.tokens.x"]).0, "other names are known");
    }

    #[test]
    fn rules_that_need_nothing_more_refuse() {
        let limiter = RuleLimiter::new(RULES.parse().unwrap());
        let chat = Request::new("POST", "/chat").attribute("body.tokens", 1);
        assert!(limiter.decide_now(&chat).allowed);
        let refused = (false, Reason::OverLimit, Some("calls".to_owned()));
        assert_eq!(decide(&limiter, "/chat", &["body"]), refused);
    }

    #[test]
    fn a_rule_that_may_allow_leaves_the_decision_open() {
        let limiter = RuleLimiter::new(RULES.parse().unwrap());
        let other = Request::new("POST", "/model").attribute("body.model", "large");
        assert!(limiter.decide_now(&other.clone().attribute("body.tokens", 1)).allowed);
        assert!(!limiter.decide_now(&other.dry_run()).allowed);
        assert_eq!(decide(&limiter, "/model", &["body"]), (true, Reason::Unmatched, None));
    }
}
