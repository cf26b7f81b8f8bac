//! Overrides and lists: those of the file, and those that come as data.

use std::sync::Arc;

use jiff::tz::TimeZone;
use tollgate_core::Time;

use super::super::compiled::{Bound, Compiled, Domain, Gives, Grant};
use super::super::data::{Data, DataError, ListData, OverrideData};
use super::super::diagnostic::{Diagnostic, Diagnostics};
use super::super::lists::{List, Lists};
use super::super::moment;
use super::super::overrides::Overrides;
use super::super::source::{At, Place};
use super::super::suggest::closest;
use super::super::written::{self, Document};
use super::limits::{bind, in_zone};
use super::unknown;
use crate::Limit;

/// The overrides a file has.
pub(super) fn of_file(
    document: &Document,
    domain: &str,
    compiled: &Compiled,
    found: &mut Diagnostics,
) -> Overrides {
    let mut overrides = Overrides::default();
    for written in &document.overrides {
        if found.is_full() {
            break;
        }
        if let Err(problem) = add(&mut overrides, written, domain, compiled) {
            found.push(problem);
        }
    }
    overrides
}

fn add(
    overrides: &mut Overrides,
    written: &written::Override,
    domain: &str,
    compiled: &Compiled,
) -> Result<(), Diagnostic> {
    let rule = match &written.rule {
        None => None,
        Some(name) => Some(compiled.by_name.get(name.as_str()).copied().ok_or_else(|| {
            let known = compiled.rules.iter().map(|rule| &*rule.name);
            unknown("unknown-rule", "rule", name, known, name.place)
        })?),
    };
    let gives = match (&written.plan, rule) {
        (Some(name), _) => Gives::Plan(compiled.plans.named(name).ok_or_else(|| {
            let known = compiled.plans.names.iter().map(|name| &**name);
            unknown("unknown-plan", "plan", name, known, name.place)
        })?),
        (None, Some(rule)) => {
            let bucket = &compiled.rules[rule as usize].bucket;
            let bound = |limit: &At<Limit>| bound(&limit.value, domain, bucket, compiled);
            Gives::Limits(written.limits.iter().map(bound).collect())
        }
        (None, None) => {
            let message = "an override with a limit names the rule whose limit it replaces";
            return Err(Diagnostic::error("missing-field", written.place, message)
                .help("add `rule: NAME`, or give those it matches another `plan`"));
        }
    };
    let until = written.until.as_ref().map(|until| Time::from_nanos(until.value));
    let added = overrides.add(rule, &written.matches, Grant { gives, until }, &compiled.scope);
    added.map_err(|(place, fault)| fault.at("expression", place))
}

fn bound(limit: &Limit, domain: &str, bucket: &str, compiled: &Compiled) -> Bound {
    bind(in_zone(limit.clone(), compiled.timezone.as_deref()), domain, bucket)
}

/// When an override ends.
fn until(text: &str, zone: Option<&str>) -> Result<u64, String> {
    let zone = zone.and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC);
    moment::moment(text, &zone).ok_or_else(|| format!("{text:?} is no date: {}", moment::HELP))
}

/// A domain with other data. Those of the file stay underneath.
pub(crate) fn data(domains: &[Domain], data: &Data) -> Result<Vec<Domain>, DataError> {
    let mut changed: Vec<(Lists, Overrides)> = domains
        .iter()
        .map(|domain| (domain.compiled.scope.lists.clone(), (*domain.file_overrides).clone()))
        .collect();
    let locate = |wanted: &Option<String>, element: &str| {
        let index = match wanted {
            Some(name) => domains.iter().position(|domain| *domain.name == **name),
            None => (domains.len() == 1).then_some(0),
        };
        index.ok_or_else(|| DataError {
            element: element.to_owned(),
            message: no_domain(domains, wanted),
        })
    };
    for (number, list) in data.lists.iter().enumerate() {
        let element = format!("lists[{number}]");
        let lists = &mut changed[locate(&list.domain, &element)?].0;
        set_list(lists, list).map_err(|message| DataError { element, message })?;
    }
    for (number, one) in data.overrides.iter().enumerate() {
        let element = format!("overrides[{number}]");
        let index = locate(&one.domain, &element)?;
        let domain = &domains[index];
        let written = write(one, domain.compiled.timezone.as_deref());
        let added = written.and_then(|written| {
            let added = add(&mut changed[index].1, &written, &domain.name, &domain.compiled);
            added.map_err(|problem| match problem.help {
                Some(help) => format!("{}: {help}", problem.message),
                None => problem.message,
            })
        });
        added.map_err(|message| DataError { element, message })?;
    }
    let rebuilt = domains.iter().zip(changed).map(|(domain, (lists, overrides))| Domain {
        lists: Arc::new(lists),
        overrides: Arc::new(overrides),
        ..domain.clone()
    });
    Ok(rebuilt.collect())
}

fn no_domain(domains: &[Domain], wanted: &Option<String>) -> String {
    let known: Vec<&str> = domains.iter().map(|domain| &*domain.name).collect();
    match wanted {
        None => format!("name the domain, one of: {}", known.join(", ")),
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

/// An override that came as data, as if it had been written in the file.
fn write(data: &OverrideData, zone: Option<&str>) -> Result<written::Override, String> {
    let nowhere = |text: &String| At::new(text.clone(), Place::default());
    if data.matches.is_empty() {
        return Err(
            "`match` is empty: say whom it is about, as in { \"org\": \"acme\" }".to_owned()
        );
    }
    if data.limit.is_empty() == data.plan.is_none() {
        return Err("give either `limit` or `plan`".to_owned());
    }
    let limit = |text: &String| match text.parse::<Limit>() {
        Ok(limit) => Ok(At::new(limit, Place::default())),
        Err(error) => Err(error.to_string()),
    };
    Ok(written::Override {
        place: Place::default(),
        matches: data
            .matches
            .iter()
            .map(|(name, pattern)| (nowhere(name), nowhere(pattern)))
            .collect(),
        rule: data.rule.as_ref().map(nowhere),
        limits: data.limit.iter().map(limit).collect::<Result<_, _>>()?,
        plan: data.plan.as_ref().map(nowhere),
        until: match &data.until {
            Some(text) => Some(At::new(until(text, zone)?, Place::default())),
            None => None,
        },
    })
}
