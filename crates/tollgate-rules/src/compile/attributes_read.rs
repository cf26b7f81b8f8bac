//! Which attributes rules read and count by, so that doors provide only what some rule needs.

use crate::compile::attribute::Attribute;
use crate::compile::domain::{
    CompiledDomain, CompiledRule, CostSource, KeyPart, Plans, PrioritySource, RuleLimit,
};
use crate::compile::expr::{Condition, Expr};
use crate::decide::decision::Decision;
use crate::decide::held_charges::holds_permits;
use crate::matching::matcher::MatchCriteria;
use crate::matching::request_facts::{RequestFacts, is_below};
use crate::{Request, Rules};

/// Attribute names, sorted.
type AttributeNames = Box<[Box<str>]>;

/// The named attributes that the rules of a domain read.
#[derive(Clone, Debug)]
pub(crate) struct AttributesRead {
    /// Names in keys, sorted.
    in_keys: AttributeNames,
    /// All names, sorted.
    all: AttributeNames,
    /// Rules that read any, with their names.
    by_rule: Box<[(u32, AttributeNames)]>,
}

impl AttributesRead {
    pub(crate) fn new(
        matches: &[MatchCriteria],
        rules: &[CompiledRule],
        plans: &Plans,
    ) -> AttributesRead {
        let by_rule: Box<[(u32, AttributeNames)]> = matches
            .iter()
            .zip(rules)
            .zip(0..)
            .map(|((one, rule), number)| (number, names(attributes_of(one, rule, plans))))
            .filter(|(_, names)| !names.is_empty())
            .collect();
        let mut all: Vec<Box<str>> =
            by_rule.iter().flat_map(|(_, names)| names.iter().cloned()).collect();
        all.sort_unstable();
        all.dedup();
        let in_keys = rules.iter().flat_map(CompiledRule::key_attributes).collect();
        AttributesRead { in_keys: names(in_keys), all: all.into(), by_rule }
    }

    /// Returns the rules, in order, that read one of some names or a name below one.
    pub(crate) fn rules_below(&self, names: &[&str]) -> Vec<u32> {
        let reads = |read: &AttributeNames| read.iter().any(|name| is_below(name, names));
        self.by_rule.iter().filter(|(_, read)| reads(read)).map(|(rule, _)| *rule).collect()
    }

    /// Whether any name begins with a prefix.
    fn has(&self, prefix: &str) -> bool {
        let first = self.all.partition_point(|name| **name < *prefix);
        self.all.get(first).is_some_and(|name| name.starts_with(prefix))
    }
}

/// The names of attributes that have one, sorted.
fn names(attributes: Vec<&Attribute>) -> Box<[Box<str>]> {
    let named = attributes.into_iter().filter_map(|attribute| match attribute {
        Attribute::Named(name) => Some(name.clone()),
        _ => None,
    });
    let mut names: Vec<Box<str>> = named.collect();
    names.sort_unstable();
    names.dedup();
    names.into()
}

/// Returns every attribute that a rule reads.
fn attributes_of<'r>(
    one: &'r MatchCriteria,
    rule: &'r CompiledRule,
    plans: &'r Plans,
) -> Vec<&'r Attribute> {
    let mut all: Vec<&Attribute> = Vec::new();
    all.extend(one.when.iter().flat_map(Condition::attributes));
    all.extend(rule.count.iter().flat_map(Condition::attributes));
    all.extend(rule.dedupe.iter().flat_map(|dedupe| dedupe.id.attributes()));
    all.extend(rule.settle().into_iter().flat_map(Expr::attributes));
    if let PrioritySource::Value(expr) = &rule.priority {
        all.extend(expr.attributes());
    }
    for part in rule.per.iter().chain(&rule.fair) {
        match part {
            KeyPart::Value(expr) => all.extend(expr.attributes()),
            KeyPart::Ip { attribute, .. } => all.push(attribute),
            KeyPart::Endpoint => {}
        }
    }
    if let Some(CostSource::Value(expr)) = rule.cost.as_ref().map(|cost| &cost.reserve) {
        all.extend(expr.attributes());
    }
    for limit in &rule.limits {
        match limit {
            RuleLimit::Fixed(_) => {}
            RuleLimit::Plan { .. } => all.extend(plans.selector.iter().flat_map(Expr::attributes)),
            RuleLimit::Distinct(distinct) => all.extend(distinct.value.attributes()),
        }
    }
    all
}

impl CompiledRule {
    fn key_attributes(&self) -> Vec<&Attribute> {
        let parts = self.per.iter().filter_map(|part| match part {
            KeyPart::Value(expr) => Some(expr.attributes()),
            KeyPart::Ip { .. } | KeyPart::Endpoint => None,
        });
        parts.flatten().collect()
    }

    /// Whether its key depends on an attribute.
    pub(crate) fn counts_by(&self, attribute: &str) -> bool {
        let mut read = self.key_attributes().into_iter();
        read.any(|it| matches!(it, Attribute::Named(name) if **name == *attribute))
    }

    /// Whether it holds permits for each value of an attribute, and for nothing else besides.
    pub(crate) fn holds_permits_by(&self, attribute: &str) -> bool {
        let permits =
            |limit: &RuleLimit| matches!(limit, RuleLimit::Fixed(bound) if holds_permits(bound));
        self.per.len() == 1 && self.counts_by(attribute) && self.limits.iter().any(permits)
    }
}

impl Decision {
    /// Whether the rule that decided counts by an attribute: with another value the answer may be
    /// another.
    pub(crate) fn is_counted_by(&self, attribute: &str) -> bool {
        let rule = self.rule.zip(self.rules.as_ref());
        let rule = rule.and_then(|(number, rules)| rules.rules.get(number as usize));
        rule.is_some_and(|rule| rule.counts_by(attribute))
    }
}

impl CompiledDomain {
    fn attributes_read(&self, request: &Request<'_>, prefix: &str) -> Vec<String> {
        let facts = RequestFacts::new(request, &self.reading);
        let rules = self.reads.by_rule.iter();
        let about = rules.filter(|(rule, _)| self.matcher.has_route_for(*rule, &facts));
        let names = about.flat_map(|(_, names)| names.iter());
        let mut names: Vec<String> =
            names.filter(|name| name.starts_with(prefix)).map(|name| name.to_string()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Rules {
    /// Returns the attributes with a prefix that rules about the route of a request read.
    ///
    /// A door that has the body of the request provides those of `body.`. Mostly there are none.
    ///
    /// ```
    /// use tollgate_rules::{Request, Rules};
    /// let rules: Rules = "
    /// rules:
    ///   - { name: edge, limit: 100/s }
    ///   - { name: chat, route: POST /v1/chat, per: body.model, limit: 10/s }
    /// ".parse()?;
    /// assert_eq!(rules.attributes_read(&Request::new("POST", "/v1/chat"), "body."), ["body.model"]);
    /// assert!(rules.attributes_read(&Request::new("POST", "/v1/files"), "body.").is_empty());
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn attributes_read(&self, request: &Request<'_>, prefix: &str) -> Vec<String> {
        match self.domain_of(request) {
            Some(domain) if domain.compiled.reads.has(prefix) => {
                domain.compiled.attributes_read(request, prefix)
            }
            _ => Vec::new(),
        }
    }

    /// Whether rules of a domain count by an attribute; of the only domain, if none is named.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    /// let rules: Rules = "attributes: [node]\nrules: [{ name: db, per: node, limit: 5 concurrent }]".parse()?;
    /// assert!(rules.count_by(None, "node") && !rules.count_by(None, "user"));
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn count_by(&self, domain: Option<&str>, attribute: &str) -> bool {
        let domain = self.domain_of(&Request { domain, ..Request::empty() });
        domain.is_some_and(|it| it.compiled.reads.in_keys.iter().any(|name| **name == *attribute))
    }

    /// The rules that hold permits for each value of an attribute by itself, with their domains.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    /// let rules: Rules = "
    /// domain: shop
    /// attributes: [node]
    /// rules:
    ///   - { name: db, per: node, limit: adaptive 2..99 concurrent }
    ///   - { name: edge, per: ip, limit: 10/s }
    /// ".parse()?;
    /// assert_eq!(rules.hold_permits_by("node").collect::<Vec<_>>(), [("shop", "db")]);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn hold_permits_by(&self, attribute: &str) -> impl Iterator<Item = (&str, &str)> {
        self.domains().iter().flat_map(move |domain| {
            let rules = domain.compiled.rules.iter();
            let rules = rules.filter(move |rule| rule.holds_permits_by(attribute));
            rules.map(|rule| (&*domain.name, &*rule.name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Door, RuleLimiter};

    const UPSTREAM: &str = "upstream";
    const RULES: &str = "
rules:
  - { name: edge, limit: 100/s }
  - { name: up, per: upstream, limit: 1 concurrent }
  - { name: pair, per: [upstream, ip], limit: 9 concurrent }
";

    #[test]
    fn a_refusal_says_whether_another_value_might_help() {
        let limiter = RuleLimiter::new(RULES.parse().unwrap());
        let to = |upstream: &'static str| {
            limiter.decide_now(&Request::new("GET", "/").attribute(UPSTREAM, upstream))
        };
        let one = to("http://a");
        assert!(one.allowed && !to("http://a").allowed && to("http://a").is_counted_by(UPSTREAM));
        assert!(to("http://b").allowed);
        let rules = limiter.rules();
        assert!(rules.count_by(None, UPSTREAM) && !rules.count_by(Some("other"), UPSTREAM));
        let others: Rules = "rules: [{ name: edge, per: ip, limit: 1/h }]".parse().unwrap();
        assert!(!others.count_by(None, UPSTREAM));
        let limiter = RuleLimiter::new(others);
        let ask = || limiter.decide_now(&Request::new("GET", "/"));
        assert!(ask().allowed && !ask().allowed && !ask().is_counted_by(UPSTREAM));
    }

    #[test]
    fn only_a_door_that_forwards_requests_knows_the_upstream() {
        let rules: Rules = RULES.parse().unwrap();
        assert!(rules.unsupported(Door::Gateway).is_empty());
        assert_eq!(rules.unsupported(Door::Grpc).len(), 2);
        assert_eq!(rules.hold_permits_by(UPSTREAM).collect::<Vec<_>>(), [("default", "up")]);
    }
}
