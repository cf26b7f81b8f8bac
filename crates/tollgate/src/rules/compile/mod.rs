//! From what was written to rules that can be applied.

mod kept;
mod key;
mod limits;
mod lint;
mod overrides;
mod rule;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::address::Trust;
use super::body_fields;
use super::compiled::{Compiled, Domain, Plans};
use super::diagnostic::{Diagnostic, Diagnostics};
use super::expr::{Expr, Scope};
use super::lists::{List, Lists};
use super::matcher::Matcher;
use super::suggest::{closest, listed};
use super::written::Document;

pub(crate) use limits::bind;
pub(crate) use overrides::{WithData, data};

/// The domain of a file that names none.
pub(crate) const DEFAULT_DOMAIN: &str = "default";

/// How many domains were compiled in this process.
static COMPILED: AtomicU64 = AtomicU64::new(0);

/// Compiles one file. What is wrong goes to `found`; what can be used is, so that one reading
/// finds everything.
pub(crate) fn domain(document: &Document, found: &mut Diagnostics) -> Domain {
    let name = document.domain.as_ref().map_or(DEFAULT_DOMAIN, |name| name.as_str());
    let scope = scope(document, found);
    let plans = plans(document, &scope, found);
    let compiler = rule::Compiler { document, domain: name, scope: &scope };
    let (matches, rules): (Vec<_>, Vec<_>) =
        document.rules.iter().filter_map(|rule| compiler.rule(rule, found)).unzip();
    limits::check_shared_buckets(&rules, document, found);
    let trust = Trust { proxies: document.trusted_proxies.iter().map(|net| net.value).collect() };
    let compiled = Compiled {
        number: COMPILED.fetch_add(1, Ordering::Relaxed),
        domain: name.into(),
        trust,
        unmatched: document.defaults.unmatched,
        bodies: body_fields::of_rules(&matches, &rules, &plans),
        matcher: Matcher::new(matches),
        by_name: rules.iter().zip(0..).map(|(rule, number)| (rule.name.clone(), number)).collect(),
        per_upstream: rules.iter().any(|rule| rule.counts_by_upstream()),
        rules,
        timezone: document.defaults.timezone.as_ref().map(|zone| zone.value.clone()),
        plans,
        scope,
    };
    // What is doubtful about rules of which a part could not be read is mostly not so.
    if !found.has_errors() {
        lint::check(document, &compiled, found);
    }
    let overrides = Arc::new(overrides::of_file(document, name, &compiled, found));
    Domain {
        name: name.into(),
        lists: Arc::new(compiled.scope.lists.clone()),
        compiled: Arc::new(compiled),
        file_overrides: overrides.clone(),
        overrides,
        bans: Arc::default(),
        modes: Arc::default(),
    }
}

/// The lists and attributes that expressions can name.
fn scope(document: &Document, found: &mut Diagnostics) -> Scope {
    let mut scope = Scope { lists: lists(document, found), ..Scope::default() };
    for (name, text) in &document.attributes {
        match Expr::compile(text, &scope) {
            Ok(expr) => scope.attributes.push((name.value.as_str().into(), expr)),
            Err(fault) => found.push(fault.at("expression", text.place)),
        }
    }
    scope
}

fn lists(document: &Document, found: &mut Diagnostics) -> Lists {
    let mut lists = Lists::default();
    for list in &document.lists {
        let entries = list.entries.iter().map(|entry| entry.value.as_str());
        let read = List::new(entries).unwrap_or_else(|(index, fault)| {
            found.push(fault.at("list-entry", list.entries[index].place));
            List::default()
        });
        lists.add(&list.name, read);
    }
    lists
}

fn plans(document: &Document, scope: &Scope, found: &mut Diagnostics) -> Plans {
    let names: Vec<Box<str>> =
        document.plans.iter().map(|plan| plan.name.as_str().into()).collect();
    // `plan` is a name like any other: the request's attribute, or an expression of the file.
    let of = Expr::compile("plan", scope).ok();
    let numbered = names.iter().cloned().zip(0..);
    let mut plans = Plans { by_name: numbered.collect(), names, of, default: None };
    plans.default = plans.named("default");
    if let Some(name) = &document.defaults.plan {
        plans.default = plans.named(name);
        if plans.default.is_none() {
            let known = plans.names.iter().map(|name| &**name);
            found.push(unknown("unknown-plan", "plan", name, known, name.place));
        }
    }
    plans
}

/// A name that nothing has.
pub(crate) fn unknown<'k>(
    code: &'static str,
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'k str>,
    place: super::source::Place,
) -> Diagnostic {
    let known: Vec<&str> = known.collect();
    let found = Diagnostic::error(code, place, format!("there is no {what} {name:?}"));
    match (closest(name, known.iter().copied()), &known[..]) {
        (Some(meant), _) => found.help(format!("did you mean `{meant}`?")).fix(meant),
        (None, []) => found.help(format!("this file has no {what}s")),
        (None, known) => found.help(format!("there are {}", listed(known.iter().copied()))),
    }
}
