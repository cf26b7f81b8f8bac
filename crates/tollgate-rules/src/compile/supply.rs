//! Which attributes of rules a door cannot supply, and what happens there instead.

use crate::Rules;
use crate::compile::attribute::Attribute;
use crate::compile::attribute_catalogue::{PLAN, UPSTREAM};
use crate::compile::domain::{
    CompiledRule, CostSource, Domain, KeyPart, PrioritySource, RuleLimit,
};
use crate::compile::door::Door;
use crate::compile::expr::{Condition, Expr};
use crate::compile::policy::MissingKey;
use crate::read::diagnostic::{Diagnostic, Diagnostics};

/// The code of the warning.
pub(crate) const NOT_SUPPLIED: &str = "not-supplied";

/// The part of a rule that reads an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RulePart {
    When,
    Per,
    Cost,
    Count,
    Settle,
    Priority,
    Fair,
    Dedupe,
    Distinct,
    Plan,
}

impl RulePart {
    /// Returns the field, and what happens where the attribute is missing.
    fn effect(self, missing_key: MissingKey) -> (&'static str, &'static str) {
        match self {
            RulePart::When => ("when", "the condition sees no value"),
            RulePart::Per => (
                "per",
                match missing_key {
                    MissingKey::Shared => "all clients share one counter",
                    MissingKey::Skip => "the rule does not apply",
                    MissingKey::Deny => "every request is refused",
                },
            ),
            RulePart::Cost => ("cost", "every request costs the same"),
            RulePart::Count => ("count", "the condition sees no value"),
            RulePart::Settle => ("cost.settle", "what was reserved stays charged"),
            RulePart::Priority => ("priority", "every request has the priority normal"),
            RulePart::Fair => ("fair", "all clients are one tenant"),
            RulePart::Dedupe => ("dedupe", "every retry is charged"),
            RulePart::Distinct => ("limit", "all requests have one value"),
            RulePart::Plan => ("limit", "every client has the default plan"),
        }
    }
}

/// An attribute that a rule reads, and where.
struct AttributeUse<'r> {
    part: RulePart,
    attribute: &'r Attribute,
}

/// Adds a warning for every attribute of a rule that a door cannot supply.
pub(crate) fn warn(
    domain: &Domain,
    number: u32,
    door: Door,
    also_supplied: &[&str],
    into: &mut Diagnostics,
) {
    let rule = &domain.compiled.rules[number as usize];
    let mut told: Vec<(RulePart, &Attribute)> = Vec::new();
    for AttributeUse { part, attribute } in uses(domain, number) {
        let is_given = matches!(attribute, Attribute::Named(name) if is_named(name, also_supplied));
        if is_given || door.supplies(attribute) || told.contains(&(part, attribute)) {
            continue;
        }
        told.push((part, attribute));
        let (field, effect) = part.effect(rule.missing_key);
        let message = format!(
            "the door {} does not supply `{attribute}`, which `{field}` of {:?} reads",
            door.as_str(),
            rule.name
        );
        let problem = Diagnostic::warning(NOT_SUPPLIED, rule.span, message);
        into.push(problem.help(format!("there, {effect}; {}", advice(attribute, door))));
    }
}

/// Returns what to do about an attribute that a door does not supply.
fn advice(attribute: &Attribute, door: Door) -> String {
    let name = match attribute {
        Attribute::Named(name) if &**name == UPSTREAM => {
            return "only the gateway knows the upstream, unless callers send it".to_owned();
        }
        Attribute::Named(name) if &**name == PLAN => {
            return "give clients plans by `overrides`, or define `plan` under `attributes:`"
                .to_owned();
        }
        Attribute::Named(name) => &**name,
        _ => return "count by something else".to_owned(),
    };
    match door {
        Door::Layer => format!("set it with `.attribute(\"{name}\", …)`, or count by `ip`"),
        _ => {
            let plain = name.replace('.', "_");
            let header = name.rsplit('.').next().unwrap_or(name).replace('_', "-");
            format!(
                "take it from the request, as in `attributes: {{ {plain}: 'header[\"x-{header}\"]' \
                 }}`, or count by `ip`"
            )
        }
    }
}

/// Returns the attributes that a rule reads and cannot do without. What it tests with `has()` in the
/// same expression is optional.
fn uses<'d>(domain: &'d Domain, number: u32) -> Vec<AttributeUse<'d>> {
    let rule: &CompiledRule = &domain.compiled.rules[number as usize];
    let mut all = Vec::new();
    let mut add = |part: RulePart, attributes: Vec<&'d Attribute>| {
        all.extend(attributes.into_iter().map(|attribute| AttributeUse { part, attribute }));
    };
    let when = domain.compiled.matcher.condition(number);
    add(RulePart::When, when.map(Condition::required_attributes).unwrap_or_default());
    for part in &rule.per {
        add(RulePart::Per, key_attributes(part));
    }
    if let Some(cost) = &rule.cost {
        if let CostSource::Value(expr) = &cost.reserve {
            add(RulePart::Cost, expr.required_attributes());
        }
        let settle = cost.settle.as_ref().map(Expr::required_attributes);
        add(RulePart::Settle, settle.unwrap_or_default());
    }
    let count = rule.count.as_ref().map(Condition::required_attributes);
    add(RulePart::Count, count.unwrap_or_default());
    if let PrioritySource::Value(expr) = &rule.priority {
        add(RulePart::Priority, expr.required_attributes());
    }
    if let Some(part) = &rule.fair {
        add(RulePart::Fair, key_attributes(part));
    }
    if let Some(dedupe) = &rule.dedupe {
        add(RulePart::Dedupe, dedupe.id.required_attributes());
    }
    let plans = &domain.compiled.plans;
    for limit in &rule.limits {
        match limit {
            RuleLimit::Fixed(_) => {}
            RuleLimit::Distinct(distinct) => {
                add(RulePart::Distinct, distinct.value.required_attributes());
            }
            // With one plan, or plans by override, no request needs to name its plan.
            RuleLimit::Plan { .. } if plans.names.len() < 2 || domain.overrides.has_plans() => {}
            RuleLimit::Plan { .. } => {
                let selector = plans.selector.as_ref().map(Expr::required_attributes);
                add(RulePart::Plan, selector.unwrap_or_default());
            }
        }
    }
    all
}

fn key_attributes(part: &KeyPart) -> Vec<&Attribute> {
    match part {
        KeyPart::Value(expr) => expr.required_attributes(),
        KeyPart::Ip { attribute, .. } => vec![attribute],
        KeyPart::Endpoint => Vec::new(),
    }
}

/// Whether a name is among `names`, which may be groups such as `jwt.*`.
fn is_named(name: &str, names: &[&str]) -> bool {
    names.iter().any(|given| match given.strip_suffix('*') {
        Some(group) => name.starts_with(group),
        None => name == *given,
    })
}

impl Rules {
    /// Returns a warning for every attribute that rules read and a door cannot supply; attributes
    /// of the names in `also_supplied`, and of groups such as `jwt.*`, have another source.
    ///
    /// Without the attribute, all requests through that door share one counter.
    ///
    /// ```
    /// use tollgate_rules::{Door, Rules};
    ///
    /// let rules: Rules = "
    /// attributes: [user]
    /// rules: [{ name: api, per: user, limit: 10/s }]
    /// ".parse()?;
    /// assert!(rules.unsupplied(Door::Http, &[]).is_empty()); // its callers send it
    /// assert_eq!(rules.unsupplied(Door::Gateway, &[]).len(), 1);
    /// assert!(rules.unsupplied(Door::Gateway, &["user"]).is_empty());
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn unsupplied(&self, door: Door, also_supplied: &[&str]) -> Diagnostics {
        let mut diagnostics = Diagnostics::new(self.warnings().sources.clone());
        for domain in self.domains() {
            for number in 0..domain.compiled.rules.len() as u32 {
                warn(domain, number, door, also_supplied, &mut diagnostics);
            }
        }
        diagnostics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(rules: &str, door: Door) -> Vec<String> {
        let rules: Rules = rules.parse().unwrap_or_else(|found| panic!("{found}"));
        rules.unsupplied(door, &[]).iter().map(|found| found.message().to_owned()).collect()
    }

    #[test]
    fn every_part_of_a_rule_is_looked_at() {
        let rules = "
attributes: [user]
plans: { default: { api: 1/s }, pro: { api: 9/s } }
rules:
  - { name: a, when: 'user == \"x\"', limit: 1/s }
  - { name: b, per: [ip, user], limit: 1/s }
  - { name: c, cost: user, limit: 1/s }
  - { name: d, fair: { by: user }, limit: 1/s }
  - { name: e, dedupe: user, limit: 1/s }
  - { name: f, limit: 3 distinct user/h }
  - { name: g, limit: plan.api }
  - { name: h, then: shed, priority: user, limit: 1/s }
";
        let found = messages(rules, Door::Gateway);
        assert_eq!(found.len(), 8, "{found:?}");
        assert_eq!(found[1], "the door gateway does not supply `user`, which `per` of \"b\" reads");
        assert_eq!(messages(rules, Door::Auth).len(), 8);
        for door in [Door::Http, Door::Grpc, Door::Resp, Door::Library] {
            assert!(messages(rules, door).is_empty(), "{door:?}");
        }
    }

    #[test]
    fn what_is_tested_with_has_is_optional() {
        let rules = "
attributes: { user: {}, client: 'has(user) ? user : ip' }
rules:
  - { name: a, per: client, limit: 1/s }
  - { name: b, when: '!has(user)', limit: 1/s }
";
        assert!(messages(rules, Door::Gateway).is_empty());
    }

    #[test]
    fn plans_by_override_need_no_attribute() {
        let rules = "
plans: { default: { api: 1/s }, pro: { api: 9/s } }
overrides: [{ match: { ip: 192.0.2.1 }, plan: pro }]
rules: [{ name: a, per: ip, limit: plan.api }]
";
        assert!(messages(rules, Door::Gateway).is_empty());
    }
}
