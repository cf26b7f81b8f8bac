//! Compiles the definitions of a file into a domain.

mod data;
mod key;
mod limits;
mod lint;
mod reserve;
mod rule;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::compile::attribute::Attribute;
use crate::compile::attributes_read::AttributesRead;
use crate::compile::domain::{CompiledDomain, CompiledRule, Domain, Plans};
use crate::compile::expr::{Expr, Scope, UndeclaredNames};
use crate::compile::lists::{List, Lists};
use crate::matching::address::TrustedProxies;
use crate::matching::matcher::Matcher;
use crate::matching::request_facts::RequestReading;
use crate::read::definition::{AttributeDefinition, Document};
use crate::read::diagnostic::{Diagnostic, Diagnostics};
use crate::read::suggest::{closest, listed};

pub(crate) use data::{AppliedData, apply_data};
pub(crate) use limits::bind;

/// The domain of a file that names none.
pub(crate) const DEFAULT_DOMAIN: &str = "default";

/// The number of domains compiled in this process.
static COMPILED: AtomicU64 = AtomicU64::new(0);

/// Compiles one file. Errors go to `diagnostics`; valid parts are compiled all the same, so that one
/// reading finds every error.
pub(crate) fn compile(
    document: &Document,
    undeclared: &UndeclaredNames,
    diagnostics: &mut Diagnostics,
) -> Domain {
    let name = document.domain.as_ref().map_or(DEFAULT_DOMAIN, |name| name.as_str());
    let scope = scope(document, undeclared, diagnostics);
    let plans = plans(document, &scope, diagnostics);
    let compiler = rule::RuleCompiler { document, domain: name, scope: &scope };
    let (matches, rules): (Vec<_>, Vec<_>) =
        document.rules.iter().filter_map(|rule| compiler.rule(rule, diagnostics)).unzip();
    limits::check_shared_buckets(&rules, document, diagnostics);
    let trust =
        TrustedProxies { networks: document.trusted_proxies.iter().map(|net| net.value).collect() };
    let compiled = CompiledDomain {
        number: COMPILED.fetch_add(1, Ordering::Relaxed),
        domain: name.into(),
        reading: RequestReading { trust, path: document.defaults.path },
        unmatched: document.defaults.unmatched,
        reads: AttributesRead::new(&matches, &rules, &plans),
        matcher: Matcher::new(matches),
        by_name: rules.iter().zip(0..).map(|(rule, number)| (rule.name.clone(), number)).collect(),
        has_secrets: rules.iter().any(CompiledRule::has_secrets),
        rules,
        timezone: document.defaults.timezone.as_ref().map(|zone| zone.value.clone()),
        plans,
        scope,
    };
    // Where a part could not be read, most warnings would be wrong.
    if !diagnostics.has_errors() {
        lint::check(document, &compiled, diagnostics);
    }
    let overrides = Arc::new(data::compile_overrides(document, name, &compiled, diagnostics));
    Domain {
        name: name.into(),
        lists: Arc::new(compiled.scope.lists.clone()),
        compiled: Arc::new(compiled),
        file_overrides: overrides.clone(),
        overrides,
        bans: Arc::default(),
        given_bans: Arc::default(),
        modes: Arc::default(),
        hasher: Arc::default(),
    }
}

/// Compiles the lists and attributes that expressions can name.
fn scope(
    document: &Document,
    undeclared: &UndeclaredNames,
    diagnostics: &mut Diagnostics,
) -> Scope {
    let mut scope = Scope {
        lists: lists(document, diagnostics),
        joins_descriptors: document.defaults.joins_descriptors,
        undeclared: undeclared.clone(),
        ..Scope::default()
    };
    for AttributeDefinition { name, value, secret } in &document.attributes {
        let Some(value) = value else {
            match name.strip_suffix(".*") {
                Some(group) => scope.groups.push(group.into()),
                None => {
                    let sent = Expr::of_attribute(Attribute::Named(name.as_str().into()));
                    let is_secret = secret.unwrap_or_else(|| sent.is_secret());
                    scope.attributes.push((name.as_str().into(), sent.with_secrecy(is_secret)));
                }
            }
            continue;
        };
        match Expr::compile(value, &scope) {
            Ok(expr) => {
                let is_secret = secret.unwrap_or_else(|| expr.is_secret());
                scope.attributes.push((name.as_str().into(), expr.with_secrecy(is_secret)));
            }
            Err(fault) => diagnostics.push(fault.into_diagnostic("expression", value.span)),
        }
    }
    scope
}

fn lists(document: &Document, diagnostics: &mut Diagnostics) -> Lists {
    let mut lists = Lists::default();
    for list in &document.lists {
        let entries = list.entries.iter().map(|entry| entry.value.as_str());
        let read = List::new(entries).unwrap_or_else(|(index, fault)| {
            diagnostics.push(fault.into_diagnostic("list-entry", list.entries[index].span));
            List::default()
        });
        lists.add(&list.name, read);
    }
    lists
}

fn plans(document: &Document, scope: &Scope, diagnostics: &mut Diagnostics) -> Plans {
    let names: Vec<Box<str>> =
        document.plans.iter().map(|plan| plan.name.as_str().into()).collect();
    // `plan` is a name like any other: the request's attribute, or an expression of the file.
    let selector = Expr::compile("plan", scope).ok();
    let numbered = names.iter().cloned().zip(0..);
    let mut plans = Plans { by_name: numbered.collect(), names, selector, default: None };
    plans.default = plans.named("default");
    if let Some(name) = &document.defaults.plan {
        plans.default = plans.named(name);
        if plans.default.is_none() {
            let known = plans.names.iter().map(|name| &**name);
            diagnostics.push(unknown("unknown-plan", "plan", name, known, name.span));
        }
    }
    plans
}

/// Makes a diagnostic of a name that does not exist.
pub(crate) fn unknown<'k>(
    code: &'static str,
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'k str>,
    span: crate::read::source::SourceSpan,
) -> Diagnostic {
    let known: Vec<&str> = known.collect();
    let diagnostics = Diagnostic::error(code, span, format!("there is no {what} {name:?}"));
    match (closest(name, known.iter().copied()), &known[..]) {
        (Some(meant), _) => diagnostics.help(format!("did you mean `{meant}`?")).fix(meant),
        (None, []) => diagnostics.help(format!("this file has no {what}s")),
        (None, known) => diagnostics.help(format!("there are {}", listed(known.iter().copied()))),
    }
}
