//! Overrides, lists, bans and modes: those of the file, and those that come as data.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use tollgate_core::Time;

use super::super::bans::Bans;
use super::super::compiled::{Bound, Compiled, Domain, Gives, Grant};
use super::super::data::{BanData, Data, DataError, ListData, ModeData, OverrideData};
use super::super::diagnostic::{Diagnostic, Diagnostics};
use super::super::lists::{List, Lists};
use super::super::modes::{Modes, Set};
use super::super::moment;
use super::super::overrides::Overrides;
use super::super::policy::Mode;
use super::super::source::{At, Place};
use super::super::suggest::closest;
use super::super::written::{self, Document};
use super::kept;
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
            let rule = &compiled.rules[rule as usize];
            let bound = |limit: &At<Limit>| {
                kept::check(&limit.value, &rule.then, rule.fair.is_some(), limit.place)?;
                Ok(bound(&limit.value, domain, &rule.bucket, compiled))
            };
            Gives::Limits(written.limits.iter().map(bound).collect::<Result<_, _>>()?)
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

/// When an override or a ban ends.
fn until(text: &str, zone: Option<&str>) -> Result<u64, String> {
    let zone = zone.and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC);
    moment::moment(text, &zone).ok_or_else(|| format!("{text:?} is no date: {}", moment::HELP))
}

/// What data makes of a domain.
struct Changed {
    lists: Lists,
    overrides: Overrides,
    bans: Bans,
    modes: Modes,
}

/// Domains with other data.
pub(crate) struct WithData {
    pub(crate) domains: Vec<Domain>,
    /// Domains written for Envoy that are switched off.
    pub(crate) trees_off: HashMap<Box<str>, Set>,
    /// What does not fit them.
    pub(crate) wrong: Vec<DataError>,
}

/// Domains, and the names of those written for Envoy, with other data. What is in the file stays
/// underneath.
pub(crate) fn data(domains: &[Domain], trees: &[&str], data: &Data) -> WithData {
    let untouched = |domain: &Domain| Changed {
        lists: domain.compiled.scope.lists.clone(),
        overrides: (*domain.file_overrides).clone(),
        bans: Bans::default(),
        modes: Modes::default(),
    };
    let mut changed: Vec<Changed> = domains.iter().map(untouched).collect();
    let mut wrong = Vec::new();
    let mut note = |element: String, outcome: Result<(), String>| {
        wrong.extend(outcome.err().map(|message| DataError { element, message }));
    };
    for (number, list) in data.lists.iter().enumerate() {
        let set = locate(domains, &list.domain)
            .and_then(|index| set_list(&mut changed[index].lists, list));
        note(format!("lists[{number}]"), set);
    }
    for (number, one) in data.overrides.iter().enumerate() {
        let added = locate(domains, &one.domain).and_then(|index| {
            let domain = &domains[index];
            let written = write(one, domain.compiled.timezone.as_deref())?;
            add(&mut changed[index].overrides, &written, &domain.name, &domain.compiled)
                .map_err(in_a_sentence)
        });
        note(format!("overrides[{number}]"), added);
    }
    for (number, ban) in data.bans.iter().enumerate() {
        let added = locate(domains, &ban.domain)
            .and_then(|index| add_ban(&mut changed[index].bans, ban, &domains[index].compiled));
        note(format!("bans[{number}]"), added);
    }
    let mut trees_off = HashMap::new();
    for (number, mode) in data.modes.iter().enumerate() {
        let set = match mode.rule == "*" {
            true => set_all(&mut changed, &mut trees_off, mode, domains, trees),
            false => locate(domains, &mode.domain)
                .and_then(|index| set_mode(&mut changed[index].modes, mode, &domains[index])),
        };
        note(format!("modes[{number}]"), set);
    }
    let rebuilt = domains.iter().zip(changed).map(|(domain, changed)| Domain {
        lists: Arc::new(changed.lists),
        overrides: Arc::new(changed.overrides),
        bans: Arc::new(changed.bans),
        modes: Arc::new(changed.modes),
        ..domain.clone()
    });
    WithData { domains: rebuilt.collect(), trees_off, wrong }
}

fn in_a_sentence(problem: Diagnostic) -> String {
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

fn add_ban(bans: &mut Bans, data: &BanData, compiled: &Compiled) -> Result<(), String> {
    let rule = rule_named(&data.rule, compiled)?;
    bans.add(rule, &data.key, end(&data.until, compiled)?);
    Ok(())
}

fn rule_named(name: &str, compiled: &Compiled) -> Result<u32, String> {
    compiled.by_name.get(name).copied().ok_or_else(|| {
        let known = compiled.rules.iter().map(|rule| &*rule.name);
        in_a_sentence(unknown("unknown-rule", "rule", name, known, Place::default()))
    })
}

/// When a ban or a mode ends, if it does.
fn end(text: &Option<String>, compiled: &Compiled) -> Result<Option<Time>, String> {
    let zone = compiled.timezone.as_deref();
    let until = text.as_ref().map(|text| until(text, zone)).transpose()?;
    Ok(until.map(Time::from_nanos))
}

fn set_mode(modes: &mut Modes, data: &ModeData, domain: &Domain) -> Result<(), String> {
    let rule = rule_named(&data.rule, &domain.compiled)?;
    let set = Set { mode: data.mode.parse()?, until: end(&data.until, &domain.compiled)? };
    modes.set(Some(rule), set);
    Ok(())
}

/// Sets the mode of all rules of a domain, or of all domains.
fn set_all(
    changed: &mut [Changed],
    trees_off: &mut HashMap<Box<str>, Set>,
    data: &ModeData,
    domains: &[Domain],
    trees: &[&str],
) -> Result<(), String> {
    let mode: Mode = data.mode.parse()?;
    let is_meant = |name: &str| data.domain.as_ref().is_none_or(|wanted| wanted == name);
    let meant_trees: Vec<&&str> = trees.iter().filter(|name| is_meant(name)).collect();
    let meant = domains.iter().zip(changed).filter(|(domain, _)| is_meant(&domain.name));
    let meant: Vec<_> = meant.collect();
    if meant.is_empty() && meant_trees.is_empty() {
        return Err(no_domain(domains, &data.domain));
    }
    if meant.is_empty() && mode != Mode::Off {
        return Err("a domain written for Envoy can only be switched off here; its own file has \
                    `shadow_mode`"
            .to_owned());
    }
    for (domain, changed) in meant {
        changed.modes.set(None, Set { mode, until: end(&data.until, &domain.compiled)? });
    }
    if mode == Mode::Off {
        let until = data.until.as_ref().map(|text| until(text, None)).transpose()?;
        let set = Set { mode, until: until.map(Time::from_nanos) };
        trees_off.extend(meant_trees.into_iter().map(|name| ((*name).into(), set)));
    }
    Ok(())
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
