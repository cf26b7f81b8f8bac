//! Compiles overrides, lists, bans and modes: those of the file, and those given as data.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::tz::TimeZone;
use tollgate_core::Time;

use super::limits::{bind, in_zone};
use super::reserve;
use super::unknown;
use crate::actions::bans::Bans;
use crate::actions::modes::{Modes, TemporaryMode};
use crate::compile::data::{BanData, Data, DataError, ListData, ModeData, OverrideData};
use crate::compile::domain::{BoundLimit, CompiledDomain, Domain, OverrideEffect, OverrideGrant};
use crate::compile::lists::{List, Lists};
use crate::compile::overrides::Overrides;
use crate::compile::policy::Mode;
use crate::read::definition::{Document, OverrideDefinition};
use crate::read::diagnostic::{Diagnostic, Diagnostics};
use crate::read::source::{SourceSpan, Spanned};
use crate::read::suggest::closest;
use crate::read::timestamp;
use tollgate::Limit;

/// Compiles the overrides of a file.
pub(super) fn compile_overrides(
    document: &Document,
    domain: &str,
    compiled: &CompiledDomain,
    diagnostics: &mut Diagnostics,
) -> Overrides {
    let mut overrides = Overrides::default();
    let written: HashSet<&str> = document.rules.iter().map(|rule| rule.name.as_str()).collect();
    for definition in &document.overrides {
        if diagnostics.is_full() {
            break;
        }
        // The errors of a rule that could not be compiled are reported already.
        let is_broken = |name: &Spanned<String>| {
            written.contains(name.as_str()) && !compiled.by_name.contains_key(name.as_str())
        };
        if definition.rule.as_ref().is_some_and(is_broken) {
            continue;
        }
        if let Err(problem) = add_override(&mut overrides, definition, domain, compiled) {
            diagnostics.push(problem);
        }
    }
    overrides
}

fn add_override(
    overrides: &mut Overrides,
    definition: &OverrideDefinition,
    domain: &str,
    compiled: &CompiledDomain,
) -> Result<(), Diagnostic> {
    let rule = match &definition.rule {
        None => None,
        Some(name) => Some(compiled.by_name.get(name.as_str()).copied().ok_or_else(|| {
            let known = compiled.rules.iter().map(|rule| &*rule.name);
            unknown("unknown-rule", "rule", name, known, name.span)
        })?),
    };
    let effect = match (&definition.plan, rule) {
        (Some(name), _) => OverrideEffect::Plan(compiled.plans.named(name).ok_or_else(|| {
            let known = compiled.plans.names.iter().map(|name| &**name);
            unknown("unknown-plan", "plan", name, known, name.span)
        })?),
        (None, Some(rule)) => {
            let rule = &compiled.rules[rule as usize];
            let bound = |limit: &Spanned<Limit>| {
                reserve::check(&limit.value, &rule.then, rule.fair.is_some(), limit.span)?;
                Ok(bind_in_domain(&limit.value, domain, &rule.bucket, compiled))
            };
            OverrideEffect::Limits(definition.limits.iter().map(bound).collect::<Result<_, _>>()?)
        }
        (None, None) => {
            let message = "an override with a limit names the rule whose limit it replaces";
            return Err(Diagnostic::error("missing-field", definition.span, message)
                .help("add `rule: NAME`, or give those it matches another `plan`"));
        }
    };
    let until = definition.until.as_ref().map(|until| Time::from_nanos(until.value));
    let added =
        overrides.add(rule, &definition.matches, OverrideGrant { effect, until }, &compiled.scope);
    added.map_err(|(span, fault)| fault.into_diagnostic("expression", span))
}

fn bind_in_domain(
    limit: &Limit,
    domain: &str,
    bucket: &str,
    compiled: &CompiledDomain,
) -> BoundLimit {
    bind(in_zone(limit.clone(), compiled.timezone.as_deref()), domain, bucket)
}

/// Parses the end of an override or a ban.
fn until(text: &str, zone: Option<&str>) -> Result<u64, String> {
    let zone = zone.and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC);
    timestamp::parse_timestamp(text, &zone)
        .ok_or_else(|| format!("{text:?} is no date: {}", timestamp::TIMESTAMP_HELP))
}

/// The data of a domain.
struct DomainData {
    lists: Lists,
    overrides: Overrides,
    bans: Bans,
    modes: Modes,
}

/// The result of applying data to domains.
pub(crate) struct AppliedData {
    pub(crate) domains: Vec<Domain>,
    /// The domains of Envoy files that are switched off.
    pub(crate) disabled_trees: HashMap<Box<str>, TemporaryMode>,
    /// An error for each element that does not fit the rules.
    pub(crate) errors: Vec<DataError>,
}

/// Applies data to domains; `trees` are the names of those of Envoy files. Lists and overrides of the
/// files remain where data do not replace them.
pub(crate) fn apply_data(domains: &[Domain], trees: &[&str], data: &Data) -> AppliedData {
    let untouched = |domain: &Domain| DomainData {
        lists: domain.compiled.scope.lists.clone(),
        overrides: (*domain.file_overrides).clone(),
        bans: Bans::default(),
        modes: Modes::default(),
    };
    let mut changed: Vec<DomainData> = domains.iter().map(untouched).collect();
    let mut errors = Vec::new();
    let mut note = |element: String, outcome: Result<(), String>| {
        errors.extend(outcome.err().map(|message| DataError { element, message }));
    };
    for (number, list) in data.lists.iter().enumerate() {
        let set = locate(domains, &list.domain)
            .and_then(|index| set_list(&mut changed[index].lists, list));
        note(format!("lists[{number}]"), set);
    }
    for (number, one) in data.overrides.iter().enumerate() {
        let added = locate(domains, &one.domain).and_then(|index| {
            let domain = &domains[index];
            let definition = override_definition(one, domain.compiled.timezone.as_deref())?;
            add_override(&mut changed[index].overrides, &definition, &domain.name, &domain.compiled)
                .map_err(one_sentence)
        });
        note(format!("overrides[{number}]"), added);
    }
    for (number, ban) in data.bans.iter().enumerate() {
        let added = locate(domains, &ban.domain)
            .and_then(|index| add_ban(&mut changed[index].bans, ban, &domains[index].compiled));
        note(format!("bans[{number}]"), added);
    }
    let mut disabled_trees = HashMap::new();
    for (number, mode) in data.modes.iter().enumerate() {
        let set = match mode.rule == "*" {
            true => set_all(&mut changed, &mut disabled_trees, mode, domains, trees),
            false => locate(domains, &mode.domain)
                .and_then(|index| set_mode(&mut changed[index].modes, mode, &domains[index])),
        };
        note(format!("modes[{number}]"), set);
    }
    let rebuilt = domains.iter().zip(changed).map(|(domain, changed)| {
        let bans = Arc::new(changed.bans);
        Domain {
            lists: Arc::new(changed.lists),
            overrides: Arc::new(changed.overrides),
            given_bans: bans.clone(),
            bans,
            modes: Arc::new(changed.modes),
            ..domain.clone()
        }
        .with_hashed_bans()
    });
    AppliedData { domains: rebuilt.collect(), disabled_trees, errors }
}

/// Joins the message and the help of a diagnostic.
fn one_sentence(problem: Diagnostic) -> String {
    match problem.help {
        Some(help) => format!("{}: {help}", problem.message),
        None => problem.message,
    }
}

fn locate(domains: &[Domain], wanted: &Option<String>) -> Result<usize, String> {
    let index = match wanted {
        Some(name) => domains.iter().position(|domain| *domain.name == **name),
        None => (domains.len() == 1).then_some(0),
    };
    index.ok_or_else(|| no_domain(domains, wanted))
}

fn add_ban(bans: &mut Bans, data: &BanData, compiled: &CompiledDomain) -> Result<(), String> {
    let rule = rule_named(&data.rule, compiled)?;
    bans.add(rule, &data.key, end(&data.until, compiled)?);
    Ok(())
}

fn rule_named(name: &str, compiled: &CompiledDomain) -> Result<u32, String> {
    compiled.by_name.get(name).copied().ok_or_else(|| {
        let known = compiled.rules.iter().map(|rule| &*rule.name);
        one_sentence(unknown("unknown-rule", "rule", name, known, SourceSpan::default()))
    })
}

/// Parses the end of a ban or a mode, if it has one.
fn end(text: &Option<String>, compiled: &CompiledDomain) -> Result<Option<Time>, String> {
    let zone = compiled.timezone.as_deref();
    let until = text.as_ref().map(|text| until(text, zone)).transpose()?;
    Ok(until.map(Time::from_nanos))
}

fn set_mode(modes: &mut Modes, data: &ModeData, domain: &Domain) -> Result<(), String> {
    let rule = rule_named(&data.rule, &domain.compiled)?;
    let set =
        TemporaryMode { mode: data.mode.parse()?, until: end(&data.until, &domain.compiled)? };
    modes.set(Some(rule), set);
    Ok(())
}

/// Sets the mode of all rules of a domain, or of all domains.
fn set_all(
    changed: &mut [DomainData],
    disabled_trees: &mut HashMap<Box<str>, TemporaryMode>,
    data: &ModeData,
    domains: &[Domain],
    trees: &[&str],
) -> Result<(), String> {
    let mode: Mode = data.mode.parse()?;
    let is_selected = |name: &str| data.domain.as_ref().is_none_or(|wanted| wanted == name);
    let selected_trees: Vec<&&str> = trees.iter().filter(|name| is_selected(name)).collect();
    let selected = domains.iter().zip(changed).filter(|(domain, _)| is_selected(&domain.name));
    let selected: Vec<_> = selected.collect();
    if selected.is_empty() && selected_trees.is_empty() {
        return Err(no_domain(domains, &data.domain));
    }
    if selected.is_empty() && mode != Mode::Off {
        return Err("a domain written for Envoy can only be switched off here; its own file has \
                    `shadow_mode`"
            .to_owned());
    }
    for (domain, changed) in selected {
        changed.modes.set(None, TemporaryMode { mode, until: end(&data.until, &domain.compiled)? });
    }
    if mode == Mode::Off {
        let until = data.until.as_ref().map(|text| until(text, None)).transpose()?;
        let set = TemporaryMode { mode, until: until.map(Time::from_nanos) };
        disabled_trees.extend(selected_trees.into_iter().map(|name| ((*name).into(), set)));
    }
    Ok(())
}

fn no_domain(domains: &[Domain], wanted: &Option<String>) -> String {
    let known: Vec<&str> = domains.iter().map(|domain| &*domain.name).collect();
    match wanted {
        None => {
            format!("`domain` is missing, and there are several: name one of {}", known.join(", "))
        }
        Some(name) => match closest(name, known.iter().copied()) {
            Some(meant) => format!("there is no domain {name:?}; did you mean {meant:?}?"),
            None => format!("there is no domain {name:?}, only: {}", known.join(", ")),
        },
    }
}

fn set_list(lists: &mut Lists, data: &ListData) -> Result<(), String> {
    let Some(id) = lists.named(&data.name) else {
        let known: Vec<&str> = lists.names().collect();
        return Err(format!(
            "the rules have no list {:?} (they have: {}); declare it under `lists:`, empty if need be",
            data.name,
            if known.is_empty() { "none".to_owned() } else { known.join(", ") },
        ));
    };
    let entries = data.entries.iter().map(String::as_str);
    let list = List::new(entries).map_err(|(index, fault)| {
        format!("entry {index} ({:?}): {}", data.entries[index], fault.message)
    })?;
    lists.set(id, list);
    Ok(())
}

/// Converts an override given as data to a definition.
fn override_definition(
    data: &OverrideData,
    zone: Option<&str>,
) -> Result<OverrideDefinition, String> {
    let without_span = |text: &String| Spanned::new(text.clone(), SourceSpan::default());
    if data.matches.is_empty() {
        return Err(
            "`match` is empty: name at least one attribute, as in { \"org\": \"acme\" }".to_owned()
        );
    }
    if data.limit.is_empty() == data.plan.is_none() {
        return Err("give either `limit` or `plan`".to_owned());
    }
    let limit = |text: &String| match text.parse::<Limit>() {
        Ok(limit) => Ok(Spanned::new(limit, SourceSpan::default())),
        Err(error) => Err(error.to_string()),
    };
    Ok(OverrideDefinition {
        span: SourceSpan::default(),
        matches: data
            .matches
            .iter()
            .map(|(name, pattern)| (without_span(name), without_span(pattern)))
            .collect(),
        rule: data.rule.as_ref().map(without_span),
        limits: data.limit.iter().map(limit).collect::<Result<_, _>>()?,
        plan: data.plan.as_ref().map(without_span),
        until: match &data.until {
            Some(text) => Some(Spanned::new(until(text, zone)?, SourceSpan::default())),
            None => None,
        },
    })
}
