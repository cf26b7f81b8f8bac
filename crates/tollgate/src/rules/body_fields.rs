//! Which fields of a request's body rules look at, so that a door reads bodies only for them.

use super::attribute::Attribute;
use super::compiled::{Compiled, CostOf, KeyPart, Plans, PriorityOf, Rule, RuleLimit};
use super::expr::{Condition, Expr};
use super::facts::Facts;
use super::matcher::Match;
use super::{Request, RuleLimiter};

/// What stands before the name of a field.
const BODY: &str = "body.";

/// A rule and the fields it looks at.
#[derive(Clone, Debug)]
pub(crate) struct BodyFields {
    rule: u32,
    names: Box<[Box<str>]>,
}

/// The rules of a domain that look at bodies: mostly none.
pub(crate) fn of_rules(matches: &[Match], rules: &[Rule], plans: &Plans) -> Box<[BodyFields]> {
    let fields = |((one, rule), number)| {
        let mut names: Vec<Box<str>> = attributes(one, rule, plans)
            .into_iter()
            .filter_map(|attribute| match attribute {
                Attribute::Named(name) if name.starts_with(BODY) => Some(name.clone()),
                _ => None,
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        (!names.is_empty()).then(|| BodyFields { rule: number, names: names.into() })
    };
    matches.iter().zip(rules).zip(0..).filter_map(fields).collect()
}

/// Everything a rule looks at.
fn attributes<'r>(one: &'r Match, rule: &'r Rule, plans: &'r Plans) -> Vec<&'r Attribute> {
    let mut all: Vec<&Attribute> = Vec::new();
    all.extend(one.when.iter().flat_map(Condition::attributes));
    all.extend(rule.count.iter().flat_map(Condition::attributes));
    all.extend(rule.dedupe.iter().flat_map(|dedupe| dedupe.of.attributes()));
    all.extend(rule.settle().into_iter().flat_map(Expr::attributes));
    if let PriorityOf::Value(expr) = &rule.priority {
        all.extend(expr.attributes());
    }
    for part in rule.per.iter().chain(&rule.fair) {
        match part {
            KeyPart::Value(expr) => all.extend(expr.attributes()),
            KeyPart::Ip { of, .. } => all.push(of),
            KeyPart::Endpoint => {}
        }
    }
    if let Some(CostOf::Value(expr)) = rule.cost.as_ref().map(|cost| &cost.reserve) {
        all.extend(expr.attributes());
    }
    for limit in &rule.limits {
        match limit {
            RuleLimit::Fixed(_) => {}
            RuleLimit::Plan { .. } => all.extend(plans.of.iter().flat_map(Expr::attributes)),
            RuleLimit::Distinct(distinct) => all.extend(distinct.of.attributes()),
        }
    }
    all
}

impl Compiled {
    fn body_fields(&self, request: &Request<'_>) -> Vec<String> {
        let facts = Facts::new(request, &self.trust);
        let about = |fields: &&BodyFields| self.matcher.has_route_for(fields.rule, &facts);
        let names = self.bodies.iter().filter(about).flat_map(|fields| &fields.names);
        let mut names: Vec<String> = names.map(|name| name.to_string()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl<S> RuleLimiter<S> {
    /// The fields of its body that rules about the route of a request look at, such as
    /// `body.max_tokens`: whoever has the body tells them as attributes. Mostly there are none.
    ///
    /// ```
    /// use tollgate::{Limiter, Request};
    /// let limiter = Limiter::from_rules("
    /// rules:
    ///   - { name: edge, limit: 100/s }
    ///   - { name: chat, route: POST /v1/chat, per: body.model, limit: 10/s }
    /// ".parse()?);
    /// assert_eq!(limiter.body_fields(&Request::new("POST", "/v1/chat")), ["body.model"]);
    /// assert!(limiter.body_fields(&Request::new("POST", "/v1/files")).is_empty());
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn body_fields(&self, request: &Request<'_>) -> Vec<String> {
        let installed = self.0.current.load();
        match installed.rules.domain_of(request) {
            Some(domain) if !domain.compiled.bodies.is_empty() => {
                domain.compiled.body_fields(request)
            }
            _ => Vec::new(),
        }
    }
}
