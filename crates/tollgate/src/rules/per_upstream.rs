//! Rules that count per upstream: whoever sends requests on must know where to before it asks.

use super::attribute::Attribute;
use super::compiled::{KeyPart, Rule, RuleLimit};
use super::decision::Decision;
use super::held::is_place;
use super::limiter::RuleLimiter;
use super::{Request, Rules};

/// The attribute that names where a request is sent on to.
pub(crate) const UPSTREAM: &str = "upstream";

impl Rule {
    /// Whether its key names the upstream.
    pub(crate) fn counts_by_upstream(&self) -> bool {
        let names = |attribute: &&Attribute| matches!(attribute, Attribute::Named(name) if **name == *UPSTREAM);
        self.per.iter().any(|part| match part {
            KeyPart::Value(expr) => expr.attributes().iter().any(names),
            KeyPart::Ip { .. } | KeyPart::Endpoint => false,
        })
    }

    /// Whether it holds places for each upstream, and for nothing else besides.
    pub(crate) fn holds_places_per_upstream(&self) -> bool {
        let places =
            |limit: &RuleLimit| matches!(limit, RuleLimit::Fixed(bound) if is_place(bound));
        self.per.len() == 1 && self.counts_by_upstream() && self.limits.iter().any(places)
    }
}

impl Rules {
    /// Whether rules of a domain count by the attribute `upstream`: who sends requests on chooses
    /// where to first, and asks then.
    ///
    /// ```
    /// use tollgate::Rules;
    /// let rules: Rules = "rules: [{ name: up, per: upstream, limit: adaptive 2..99 concurrent }]".parse()?;
    /// assert!(rules.count_by_upstream(None));
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn count_by_upstream(&self, domain: Option<&str>) -> bool {
        let domain = self.domain_of(&Request { domain, ..Request::empty() });
        domain.is_some_and(|domain| domain.compiled.per_upstream)
    }

    /// The rules that hold places for each upstream by itself, each with its domain.
    ///
    /// ```
    /// use tollgate::Rules;
    /// let rules: Rules = "
    /// domain: shop
    /// rules:
    ///   - { name: up, per: upstream, limit: adaptive 2..99 concurrent }
    ///   - { name: edge, per: ip, limit: 10/s }
    /// ".parse()?;
    /// assert_eq!(rules.places_per_upstream().collect::<Vec<_>>(), [("shop", "up")]);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn places_per_upstream(&self) -> impl Iterator<Item = (&str, &str)> {
        let domains = self.domains().iter().filter(|domain| domain.compiled.per_upstream);
        domains.flat_map(|domain| {
            let rules = domain.compiled.rules.iter();
            let rules = rules.filter(|rule| rule.holds_places_per_upstream());
            rules.map(|rule| (&*domain.name, &*rule.name))
        })
    }
}

impl<S> RuleLimiter<S> {
    /// Whether the rules in force [count by upstream](Rules::count_by_upstream).
    pub fn counts_by_upstream(&self, domain: Option<&str>) -> bool {
        self.0.current.load().rules.count_by_upstream(domain)
    }
}

impl Decision {
    /// Whether the rule that decided counts by upstream: at another one the answer may be another.
    pub fn is_about_upstream(&self) -> bool {
        let rule = self.rule.zip(self.rules.as_ref());
        let rule = rule.and_then(|(number, rules)| rules.rules.get(number as usize));
        rule.is_some_and(Rule::counts_by_upstream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limiter;
    use crate::rules::Door;

    const RULES: &str = "
rules:
  - { name: edge, limit: 100/s }
  - { name: up, per: upstream, limit: 1 concurrent }
  - { name: pair, per: [upstream, ip], limit: 9 concurrent }
";

    #[test]
    fn a_refusal_says_whether_another_upstream_might_help() {
        let limiter = Limiter::from_rules(RULES.parse().unwrap());
        let to = |upstream: &'static str| {
            limiter.decide(&Request::new("GET", "/").attribute(UPSTREAM, upstream))
        };
        let one = to("http://a");
        assert!(one.allowed && !to("http://a").allowed && to("http://a").is_about_upstream());
        assert!(to("http://b").allowed);
        assert!(limiter.counts_by_upstream(None) && !limiter.counts_by_upstream(Some("other")));
        let others: Rules = "rules: [{ name: edge, per: ip, limit: 1/h }]".parse().unwrap();
        assert!(!others.count_by_upstream(None));
        let limiter = Limiter::from_rules(others);
        let ask = || limiter.decide(&Request::new("GET", "/"));
        assert!(ask().allowed && !ask().allowed && !ask().is_about_upstream());
    }

    #[test]
    fn only_who_sends_requests_on_knows_where_to() {
        let rules: Rules = RULES.parse().unwrap();
        assert!(rules.unsupported(Door::Gateway).is_empty());
        assert_eq!(rules.unsupported(Door::Grpc).len(), 2);
        assert_eq!(rules.places_per_upstream().collect::<Vec<_>>(), [("default", "up")]);
    }
}
