//! Warnings about rules that are valid but probably not intended.

mod never_binds;

use std::collections::HashMap;

use crate::compile::attribute::Attribute;
use crate::compile::domain::{CompiledDomain, CompiledRule, KeyPart, RuleLimit};
use crate::compile::policy::{Mode, Then};
use crate::read::definition::{Document, RuleDefinition};
use crate::read::diagnostic::{Diagnostic, Diagnostics};

/// Warns about risky rules.
pub(super) fn check(document: &Document, compiled: &CompiledDomain, diagnostics: &mut Diagnostics) {
    let definitions: HashMap<&str, &RuleDefinition> =
        document.rules.iter().map(|rule| (rule.name.as_str(), rule)).collect();
    let definition_of = |rule: &'_ CompiledRule| definitions.get(&*rule.name).copied();
    let all: Vec<(&RuleDefinition, &CompiledRule)> =
        compiled.rules.iter().filter_map(|rule| Some((definition_of(rule)?, rule))).collect();
    shadowed(&all, diagnostics);
    let guarded = all
        .iter()
        .any(|(definition, rule)| matches_all_requests(definition) && limits_by_address(rule));
    for (definition, rule) in &all {
        if !guarded {
            client_keys(definition, rule, diagnostics);
        }
        plans(definition, rule, compiled, diagnostics);
        never_binds::check(definition, diagnostics);
    }
}

/// Whether a rule matches every request.
fn matches_all_requests(rule: &RuleDefinition) -> bool {
    rule.routes.is_empty() && rule.when.is_none() && rule.during.is_none()
}

fn limits_by_address(rule: &CompiledRule) -> bool {
    !rule.limits.is_empty() && rule.per.iter().all(|part| matches!(part, KeyPart::Ip { .. }))
}

/// Warns about rules that never decide, because another one allows or refuses every request.
fn shadowed(all: &[(&RuleDefinition, &CompiledRule)], diagnostics: &mut Diagnostics) {
    let outright = |rule: &CompiledRule| rule.limits.is_empty() && rule.mode == Mode::Enforce;
    let allows = |rule: &CompiledRule| rule.then == Then::Allow && rule.mode != Mode::Off;
    let allows =
        all.iter().find(|(definition, rule)| matches_all_requests(definition) && allows(rule));
    let denies =
        all.iter().find(|(definition, rule)| matches_all_requests(definition) && outright(rule));
    let Some((first_definition, first)) = allows.or(denies) else { return };
    let verb = if first.then == Then::Allow { "allows" } else { "refuses" };
    for (definition, rule) in all.iter().filter(|(_, rule)| rule.name != first.name) {
        if verb == "refuses" && rule.then == Then::Allow {
            continue; // allow goes before deny
        }
        let message = format!("the rule {:?} never decides anything", rule.name);
        diagnostics.push(
            Diagnostic::warning("never-matches", definition.name.span, message)
                .related(first_definition.name.span, format!("this rule {verb} every request"))
                .help("give that rule a `route` or a `when`, or remove one of them"),
        );
    }
}

/// Warns about keys that clients choose: they can choose a new one for every request.
fn client_keys(definition: &RuleDefinition, rule: &CompiledRule, diagnostics: &mut Diagnostics) {
    let chosen = |part: &KeyPart| match part {
        KeyPart::Ip { .. } => None,
        KeyPart::Endpoint if definition.routes.is_empty() => Some("the path".to_owned()),
        KeyPart::Endpoint => None,
        KeyPart::Value(expr) => {
            let controlled = |attribute: &Attribute| {
                attribute.is_client_controlled()
                    || (*attribute == Attribute::Path && definition.routes.is_empty())
            };
            expr.attribute().filter(|attribute| controlled(attribute)).map(ToString::to_string)
        }
    };
    let names: Vec<String> = rule.per.iter().filter_map(chosen).collect();
    let limits = !rule.limits.is_empty() && rule.then != Then::Allow;
    let is_safe = names.is_empty() || names.len() < rule.per.len();
    let Some(span) = definition.per.first().map(|part| part.span).filter(|_| limits && !is_safe)
    else {
        return;
    };
    let message = format!(
        "clients choose {}: with another value they have another budget",
        names.join(" and ")
    );
    diagnostics.push(
        Diagnostic::warning("client-key", span, message)
            .label("under the client's control")
            .help("also limit every client by address, for example `{ name: edge, per: ip, limit: 100/s }`"),
    );
}

/// Warns about limits that clients without a known plan do not have.
fn plans(
    definition: &RuleDefinition,
    rule: &CompiledRule,
    compiled: &CompiledDomain,
    diagnostics: &mut Diagnostics,
) {
    for (limit, at) in rule.limits.iter().zip(&definition.limits) {
        let RuleLimit::Plan { name, by_plan } = limit else { continue };
        let default = compiled.plans.default;
        let covered = default.and_then(|plan| by_plan.get(plan as usize));
        if covered.is_some() {
            continue;
        }
        let message = format!(
            "clients without a known plan have no limit here: no default plan has `{name}`"
        );
        diagnostics.push(
            Diagnostic::warning("no-default-plan", at.span, message)
                .help("add a plan called `default`, or name one by `defaults: { plan: … }`"),
        );
    }
}
