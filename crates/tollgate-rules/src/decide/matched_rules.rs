//! The rules that match a request, found without the store.

use tollgate_core::Time;

use crate::compile::policy::Then;
use crate::matching::request_facts::RequestFacts;
use crate::matching::rule_checks;
use crate::{Request, Rules};

/// A rule whose limits count a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MatchedRule<'r> {
    /// The domain of the rule.
    pub domain: &'r str,
    /// The name of the rule.
    pub name: &'r str,
    /// The values of the rule's `per`, as in [`Decision::key`](crate::Decision::key).
    pub key: String,
    /// The action of the rule over its limit.
    pub then: &'r Then,
    /// Whether a refusal is enforced.
    pub enforced: bool,
}

impl Rules {
    /// Returns the rules whose limits count a request at a time, in order. Uses no store.
    ///
    /// ```
    /// use tollgate::Clock;
    /// use tollgate_rules::{Request, Rules, Then};
    ///
    /// let rules: Rules = "
    /// attributes: [org]
    /// rules:
    ///   - { name: edge, per: ip, limit: 10/s }
    ///   - { name: report, route: POST /report, per: org, limit: 1/min, then: defer }
    /// ".parse()?;
    /// let report = Request::new("POST", "/report").attribute("org", "acme");
    /// let matched = rules.matched(&report, Clock::system().now());
    /// let defers = matched.iter().find(|rule| *rule.then == Then::Defer).unwrap();
    /// assert_eq!((defers.name, &*defers.key), ("report", "acme"));
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn matched(&self, request: &Request<'_>, date: Time) -> Vec<MatchedRule<'_>> {
        let Some(domain) = self.domain_of(request) else { return Vec::new() };
        let facts = RequestFacts::new(request, &domain.compiled.reading);
        let Some(request_checks) = rule_checks::of_limits(domain, &facts, date) else {
            return Vec::new();
        };
        let matched = request_checks.rule_checks.iter().map(|rule_check| {
            let rule = &domain.compiled.rules[rule_check.rule as usize];
            MatchedRule {
                domain: &domain.name,
                name: &rule.name,
                key: request_checks.key(rule_check).to_owned(),
                then: &rule.then,
                enforced: rule_check.enforced,
            }
        });
        matched.collect()
    }
}
