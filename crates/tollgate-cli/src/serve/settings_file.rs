//! The settings file `tollgate.toml`. Every key is a flag of `tollgate serve`, so the file becomes
//! arguments, which the parser of the command line validates.

use std::error::Error;
use std::path::Path;

use anyhow::{Context, bail};
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use toml::de::{DeTable, DeValue};

/// The file that is read if it exists and no other is named.
pub(super) const DEFAULT: &str = "tollgate.toml";
/// Flags that are no keys.
const NOT_KEYS: [&str; 4] = ["check", "config", "help", "version"];

/// A key of the file with its value.
struct SettingEntry<'a> {
    key: String,
    at: usize,
    value: &'a DeValue<'a>,
}

/// Returns the key of a flag.
pub(super) fn key(flag: &Arg) -> Option<String> {
    let name = flag.get_long().filter(|name| !NOT_KEYS.contains(name))?;
    Some(name.replace('-', "_"))
}

/// Returns the keys of the file as arguments, without those that flags or variables set.
pub(super) fn arguments(
    path: &Path,
    command: &Command,
    given: &ArgMatches,
) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read the settings {}", path.display()))?;
    let located = |at: usize, what: &str| {
        let line = text[..at].matches('\n').count() + 1;
        format!("{}:{line}: {what}", path.display())
    };
    let table = match DeTable::parse(&text) {
        Ok(table) => table,
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            bail!("{}", located(at.min(text.len()), error.message()))
        }
    };
    let mut entries = Vec::new();
    flatten("", table.get_ref(), &mut entries);
    entries.sort_by_key(|entry| entry.at);
    let (mut arguments, mut errors) = (Vec::new(), Vec::new());
    for entry in &entries {
        match argument(entry, command, given) {
            Ok(argument) => arguments.extend(argument),
            Err(reason) => errors.push(located(entry.at, &reason)),
        }
    }
    match errors.is_empty() {
        true => Ok(arguments),
        false => bail!("{}", errors.join("\n       ")),
    }
}

/// Collects the keys; a key in a section has the prefix `section_`.
fn flatten<'a>(section: &str, table: &'a DeTable<'a>, into: &mut Vec<SettingEntry<'a>>) {
    for (name, value) in table {
        let key = match section {
            "" => name.get_ref().to_string(),
            section => format!("{section}_{}", name.get_ref()),
        };
        match value.get_ref() {
            DeValue::Table(inner) => flatten(&key, inner, into),
            value => into.push(SettingEntry { key, at: name.span().start, value }),
        }
    }
}

fn argument(
    entry: &SettingEntry<'_>,
    command: &Command,
    given: &ArgMatches,
) -> Result<Option<String>, String> {
    let known = |flag: &&Arg| key(flag).as_deref() == Some(&entry.key);
    let Some(flag) = command.get_arguments().find(known) else {
        return Err(unknown(&entry.key, command));
    };
    let (name, id) = (flag.get_long().unwrap_or_default(), flag.get_id().as_str());
    let wrong = |reason: &str| format!("{}: {reason}", entry.key);
    let argument = match (flag.get_action().takes_values(), entry.value) {
        (false, DeValue::Boolean(true)) => format!("--{name}"),
        (false, DeValue::Boolean(false)) => return Ok(None),
        (false, _) => return Err(wrong("write true or false")),
        (true, DeValue::Array(values)) if flag.get_value_delimiter().is_some() => {
            let between = flag.get_value_delimiter().map_or_else(String::new, String::from);
            let texts: Option<Vec<String>> = values.iter().map(|one| text(one.get_ref())).collect();
            let texts = texts.ok_or_else(|| wrong("write its entries as texts, in quotes"))?;
            if texts.is_empty() {
                return Ok(None);
            }
            format!("--{name}={}", texts.join(&between))
        }
        (true, value) => match text(value) {
            Some(text) => format!("--{name}={text}"),
            None => return Err(wrong("write one value, a number or a text in quotes")),
        },
    };
    // The argument is parsed alone, so that an error is about this key.
    let alone = Command::new("key").no_binary_name(true).arg(flag.clone().env(None::<&str>));
    if let Err(error) = alone.try_get_matches_from([&argument]) {
        return Err(wrong(&reason(&error)));
    }
    let set = given.value_source(id).is_some_and(|source| source != ValueSource::DefaultValue);
    Ok((!set).then_some(argument))
}

fn text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Some(number.to_string()), |number| Some(number.to_string())),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(value) => Some(value.to_string()),
        _ => None,
    }
}

/// Returns the reason of a parse error, without the name of the flag.
fn reason(error: &clap::Error) -> String {
    if let Some(source) = error.source() {
        return source.to_string();
    }
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(valid)) => format!("write one of {}", valid.join(", ")),
        _ => error.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

fn unknown(written: &str, command: &Command) -> String {
    let keys = command.get_arguments().filter_map(key);
    let near = keys
        .map(|key| (strsim::jaro_winkler(written, &key), key))
        .filter(|(likeness, _)| *likeness > 0.85)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    match near {
        Some((_, key)) => format!("unknown key `{written}`; did you mean `{key}`?"),
        None => format!("unknown key `{written}`; see tollgate serve --help: every flag is a key"),
    }
}
