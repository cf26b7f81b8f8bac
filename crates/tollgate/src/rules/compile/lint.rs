//! What is allowed but probably not meant.

mod binds;

use std::collections::HashMap;

use super::super::attribute::{Attribute, BUILT_IN};
use super::super::compiled::{Compiled, CostOf, KeyPart, PriorityOf, Rule, RuleLimit};
use super::super::diagnostic::{Diagnostic, Diagnostics};
use super::super::policy::{Mode, Then};
use super::super::written::{self, Document};

/// With more names than this, near misses are left to their writers: comparing takes time.
const MAX_COMPARED: usize = 200;

/// Warns of what is risky in rules that are otherwise in order.
pub(super) fn check(document: &Document, compiled: &Compiled, found: &mut Diagnostics) {
    let written: HashMap<&str, &written::Rule> =
        document.rules.iter().map(|rule| (rule.name.as_str(), rule)).collect();
    let both = |rule: &'_ Rule| written.get(&*rule.name).copied();
    let all: Vec<(&written::Rule, &Rule)> =
        compiled.rules.iter().filter_map(|rule| Some((both(rule)?, rule))).collect();
    let declared = document.attributes.iter().map(|(name, _)| name.as_str());
    let known: Vec<&str> = declared.chain(BUILT_IN).collect();
    shadowed(&all, found);
    let guarded = all.iter().any(|(written, rule)| is_everyone(written) && is_by_address(rule));
    for (written, rule) in &all {
        if !guarded {
            client_keys(written, rule, found);
        }
        plans(written, rule, compiled, found);
        if known.len() <= MAX_COMPARED {
            names(written, rule, &known, found);
        }
        binds::check(written, found);
    }
}

/// Whether a rule is about every request.
fn is_everyone(rule: &written::Rule) -> bool {
    rule.routes.is_empty() && rule.when.is_none() && rule.during.is_none()
}

fn is_by_address(rule: &Rule) -> bool {
    !rule.limits.is_empty() && rule.per.iter().all(|part| matches!(part, KeyPart::Ip { .. }))
}

/// A rule about everything that allows or refuses outright leaves nothing to the others.
fn shadowed(all: &[(&written::Rule, &Rule)], found: &mut Diagnostics) {
    let outright = |rule: &Rule| rule.limits.is_empty() && rule.mode == Mode::Enforce;
    let allows = |rule: &Rule| rule.then == Then::Allow && rule.mode != Mode::Off;
    let allows = all.iter().find(|(written, rule)| is_everyone(written) && allows(rule));
    let denies = all.iter().find(|(written, rule)| is_everyone(written) && outright(rule));
    let Some((ruler, first)) = allows.or(denies) else { return };
    let does = if first.then == Then::Allow { "allows" } else { "refuses" };
    for (written, rule) in all.iter().filter(|(_, rule)| rule.name != first.name) {
        if does == "refuses" && rule.then == Then::Allow {
            continue; // allow goes before deny
        }
        let message = format!("the rule {:?} never decides anything", rule.name);
        found.push(
            Diagnostic::warning("never-matches", written.name.place, message)
                .related(ruler.name.place, format!("this rule {does} every request"))
                .help("give that rule a `route` or a `when`, or remove one of them"),
        );
    }
}

/// Who can choose the key can choose a new one for every request.
fn client_keys(written: &written::Rule, rule: &Rule, found: &mut Diagnostics) {
    let chosen = |part: &KeyPart| match part {
        KeyPart::Ip { .. } => None,
        KeyPart::Endpoint if written.routes.is_empty() => Some("the path".to_owned()),
        KeyPart::Endpoint => None,
        KeyPart::Value(expr) => {
            let controlled = |attribute: &Attribute| {
                attribute.is_client_controlled()
                    || (*attribute == Attribute::Path && written.routes.is_empty())
            };
            expr.attribute().filter(|attribute| controlled(attribute)).map(ToString::to_string)
        }
    };
    let names: Vec<String> = rule.per.iter().filter_map(chosen).collect();
    let limits = !rule.limits.is_empty() && rule.then != Then::Allow;
    let is_safe = names.is_empty() || names.len() < rule.per.len();
    let Some(place) = written.per.first().map(|part| part.place).filter(|_| limits && !is_safe)
    else {
        return;
    };
    let message = format!(
        "clients choose {}: with another value they have another budget",
        names.join(" and ")
    );
    found.push(
        Diagnostic::warning("client-key", place, message)
            .label("under the client's control")
            .help("also limit every client by address, for example `{ name: edge, per: ip, limit: 100/s }`"),
    );
}

/// Clients whose plan is unknown should not be without limits.
fn plans(written: &written::Rule, rule: &Rule, compiled: &Compiled, found: &mut Diagnostics) {
    for (limit, at) in rule.limits.iter().zip(&written.limits) {
        let RuleLimit::Plan { name, by_plan } = limit else { continue };
        let default = compiled.plans.default;
        let covered = default.and_then(|plan| by_plan.get(plan as usize));
        if covered.is_some() {
            continue;
        }
        let message = format!(
            "clients without a known plan have no limit here: nothing says `plan.{name}` for them"
        );
        found.push(
            Diagnostic::warning("no-default-plan", at.place, message)
                .help("add a plan called `default`, or name one by `defaults: { plan: … }`"),
        );
    }
}

/// A name that is nearly one the file has is probably misspelled.
fn names(written: &written::Rule, rule: &Rule, known: &[&str], found: &mut Diagnostics) {
    let mut used: Vec<&Attribute> = Vec::new();
    for part in &rule.per {
        if let KeyPart::Value(expr) = part {
            used.extend(expr.attributes());
        }
    }
    let cost = rule.cost.as_ref().map(|cost| &cost.reserve);
    if let Some(CostOf::Value(expr)) = cost {
        used.extend(expr.attributes());
    }
    if let PriorityOf::Value(expr) = &rule.priority {
        used.extend(expr.attributes());
    }
    if let Some(KeyPart::Value(expr)) = &rule.fair {
        used.extend(expr.attributes());
    }
    for attribute in used {
        let Attribute::Named(name) = attribute else { continue };
        if name.contains('.') || known.contains(&&**name) {
            continue;
        }
        // One slip of the finger: `user` is not a misspelled `peer`.
        let is_slip =
            |known: &&&str| strsim::damerau_levenshtein(name, known) == 1 && name.len() > 3;
        let Some(meant) = known.iter().find(is_slip) else { continue };
        let place = written.per.iter().find(|part| *part.value == **name);
        let place = place.map_or(written.name.place, |part| part.place);
        let message =
            format!("nothing here declares `{name}`; requests must bring it as an attribute");
        found.push(
            Diagnostic::warning("undeclared-name", place, message)
                .help(format!("did you mean `{meant}`?"))
                .fix(*meant),
        );
    }
}
