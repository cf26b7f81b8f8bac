//! Variables that `map` and `geo` define: conditions and the text that each stands for.

use std::collections::HashMap;

use ipnet::IpNet;
use regex::Regex;

use super::tree::Directive;
use super::zone::attribute_of;
use crate::import::condition::{Condition, Pattern};

/// The text of a variable for the requests that meet a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VariableCase {
    pub(super) when: Condition,
    pub(super) text: String,
}

/// The maximum number of variables that are defined by each other.
const MAX_DEPTH: usize = 8;

/// All variables of a configuration.
#[derive(Debug, Default)]
pub(super) struct Variables<'t> {
    by_name: HashMap<&'t str, &'t Directive>,
}

impl<'t> Variables<'t> {
    pub(super) fn read(http: &'t [Directive]) -> Variables<'t> {
        let mut variables = Variables::default();
        for directive in http {
            let defined = matches!(directive.name.as_str(), "map" | "geo");
            if let (true, Some(name)) =
                (defined, directive.args.last().and_then(|name| name.strip_prefix('$')))
            {
                variables.by_name.insert(name, directive);
            }
        }
        variables
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns the texts of a variable. Exactly one of the conditions holds for each request.
    pub(super) fn cases(&self, name: &str) -> Result<Vec<VariableCase>, String> {
        self.cases_within(name, 0)
    }

    fn cases_within(&self, name: &str, depth: usize) -> Result<Vec<VariableCase>, String> {
        let Some(directive) = self.by_name.get(name).filter(|_| depth < MAX_DEPTH) else {
            return Err(format!("a request has no attribute for `${name}`"));
        };
        match directive.name.as_str() {
            "geo" => geo(directive),
            _ => self.map(directive, depth),
        }
    }

    fn map(&self, directive: &Directive, depth: usize) -> Result<Vec<VariableCase>, String> {
        let table = MapTable::read(directive)?;
        let source = directive.arg(0).trim_matches(|c| matches!(c, '$' | '{' | '}'));
        if directive.args.len() != 2 || directive.arg(0).matches('$').count() != 1 {
            return Err(format!("`{}` compares more than one variable", directive.text()));
        }
        if self.has(source) {
            let cases = self.cases_within(source, depth + 1)?;
            let mapped = cases.into_iter().map(|case| match case.text.contains('$') {
                true => Err(format!("`{}` compares a variable of a variable", directive.text())),
                false => Ok(VariableCase { text: table.text_of(&case.text)?, when: case.when }),
            });
            return Ok(merged(mapped.collect::<Result<_, String>>()?));
        }
        let (attribute, is_present) = attribute_of(source)?;
        Ok(merged(table.cases(&attribute, is_present)))
    }
}

/// Joins cases with the same text.
fn merged(cases: Vec<VariableCase>) -> Vec<VariableCase> {
    let mut merged: Vec<VariableCase> = Vec::new();
    for case in cases {
        match merged.iter_mut().find(|known| known.text == case.text) {
            Some(known) => {
                known.when = match std::mem::replace(&mut known.when, Condition::always()) {
                    Condition::Any(mut any) => {
                        any.push(case.when);
                        Condition::Any(any)
                    }
                    one => Condition::Any(vec![one, case.when]),
                };
            }
            None => merged.push(case),
        }
    }
    merged
}

/// The contents of a `map`.
struct MapTable<'d> {
    exact: Vec<(&'d str, &'d str)>,
    /// Regular expressions in their order.
    regexes: Vec<(String, &'d str)>,
    default: &'d str,
}

impl<'d> MapTable<'d> {
    fn read(directive: &'d Directive) -> Result<MapTable<'d>, String> {
        let mut table = MapTable { exact: Vec::new(), regexes: Vec::new(), default: "" };
        for entry in &directive.block {
            let (name, value) = (entry.name.as_str(), entry.arg(0));
            match name {
                "default" => table.default = value,
                "volatile" => {}
                "hostnames" => return Err("it compares the masks of host names".to_owned()),
                _ => match name.strip_prefix('~') {
                    Some(rest) => {
                        let regex = match rest.strip_prefix('*') {
                            Some(regex) => format!("(?i){regex}"),
                            None => rest.to_owned(),
                        };
                        if !crate::import::is_regex(&regex)
                            || value.contains('$') && !value.starts_with('$')
                        {
                            return Err(format!("rules do not support the expression `{name}`"));
                        }
                        table.regexes.push((regex, value));
                    }
                    // A backslash lets a value begin with what is special.
                    None => table.exact.push((name.strip_prefix('\\').unwrap_or(name), value)),
                },
            }
        }
        Ok(table)
    }

    /// Returns the text for a known value. Case does not matter.
    fn text_of(&self, value: &str) -> Result<String, String> {
        if let Some((_, text)) =
            self.exact.iter().find(|(known, _)| known.eq_ignore_ascii_case(value))
        {
            return Ok((*text).to_owned());
        }
        for (regex, text) in &self.regexes {
            let regex = Regex::new(regex).map_err(|error| error.to_string())?;
            if regex.is_match(value) {
                return Ok((*text).to_owned());
            }
        }
        Ok(self.default.to_owned())
    }

    /// Returns the texts by the value of an attribute.
    fn cases(&self, attribute: &str, is_present: bool) -> Vec<VariableCase> {
        let equals = |value: &str| match value {
            "" => Condition::Missing(attribute.to_owned()),
            value if value.contains(|c: char| c.is_ascii_alphabetic()) => {
                Condition::Matches(attribute.to_owned(), format!("(?i)^{}$", regex::escape(value)))
            }
            value => Condition::is(attribute, value),
        };
        let matches = |regex: &str| Condition::Matches(attribute.to_owned(), regex.to_owned());
        let exact = self.exact.iter().map(|(value, text)| (equals(value), *text));
        let regexes = self.regexes.iter().map(|(regex, text)| (matches(regex), *text));
        let mut taken = Condition::always();
        let mut cases = Vec::new();
        for (when, text) in exact.chain(regexes) {
            let case = when.clone().and(taken.clone());
            taken = taken.and(when.not());
            cases.push(VariableCase { when: case, text: text.to_owned() });
        }
        // A comparison with what is missing does not hold, nor does its opposite.
        let names_missing = self.exact.iter().any(|(value, _)| value.is_empty());
        let default = match is_present || names_missing || taken.is_always() {
            true => taken,
            false => Condition::Any(vec![Condition::Missing(attribute.to_owned()), taken]),
        };
        cases.push(VariableCase { when: default, text: self.default.to_owned() });
        cases
    }
}

/// Returns the texts of a `geo` block, which compares the address of the client.
fn geo(directive: &Directive) -> Result<Vec<VariableCase>, String> {
    let attribute = match directive.args.as_slice() {
        [_] => "ip".to_owned(),
        [address, _] => match address.as_str() {
            "$remote_addr" | "$binary_remote_addr" => "ip".to_owned(),
            "$realip_remote_addr" => "peer".to_owned(),
            _ => return Err(format!("`{}` compares no address of the client", directive.text())),
        },
        _ => return Err(format!("`{}` cannot be read", directive.text())),
    };
    let (mut default, mut networks): (&str, Vec<(IpNet, &str)>) = ("", Vec::new());
    for entry in &directive.block {
        match entry.name.as_str() {
            "default" => default = entry.arg(0),
            "ranges" | "proxy" | "proxy_recursive" | "delete" => {
                return Err(format!("`{}` of a geo block has no equivalent", entry.name));
            }
            name => {
                let network = name
                    .parse::<IpNet>()
                    .or_else(|_| name.parse().map(|address: std::net::IpAddr| address.into()));
                let network = network.map_err(|_| format!("{name:?} is no network"))?;
                networks.push((network.trunc(), entry.arg(0)));
            }
        }
    }
    // The smallest network counts.
    networks.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_len()));
    let mut cases = Vec::new();
    let mut taken: Vec<Pattern> = Vec::new();
    for (network, text) in &networks {
        let inside = networks.iter().filter(|(other, theirs)| {
            network != other && network.contains(other) && theirs != text
        });
        let pattern = Pattern::Glob(network.to_string());
        let mut when = Condition::Is(attribute.clone(), vec![pattern.clone()]);
        let inner: Vec<Pattern> =
            inside.map(|(other, _)| Pattern::Glob(other.to_string())).collect();
        if !inner.is_empty() {
            when = when.and(Condition::Is(attribute.clone(), inner).not());
        }
        taken.push(pattern);
        cases.push(VariableCase { when, text: (*text).to_owned() });
    }
    let rest = match taken.is_empty() {
        true => Condition::always(),
        false => Condition::Is(attribute, taken).not(),
    };
    cases.push(VariableCase { when: rest, text: default.to_owned() });
    Ok(merged(cases))
}
