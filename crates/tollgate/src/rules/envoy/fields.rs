//! Mappings and scalars, read as strictly as the original reads them: what it refuses is an error
//! here, what it silently ignores a warning.

use crate::rules::diagnostic::{Diagnostic, Diagnostics};
use crate::rules::source::Place;
use crate::rules::suggest;
use crate::rules::yaml::{Node, Value};

/// What may stand in one kind of mapping.
pub(super) struct Kind {
    /// What to call it in a message.
    pub(super) what: &'static str,
    pub(super) fields: &'static [&'static str],
}

pub(super) const FILE: Kind =
    Kind { what: "a file of descriptors", fields: &["domain", "descriptors", "strict"] };
pub(super) const SHORT: Kind = Kind {
    what: "a file of one key",
    fields: &[
        "domain",
        "strict",
        "key",
        "value",
        "rate_limit",
        "rate_limits",
        "descriptors",
        "shadow_mode",
        "quota_mode",
        "detailed_metric",
        "value_to_metric",
        "share_threshold",
        "metadata",
    ],
};
pub(super) const DESCRIPTOR: Kind = Kind {
    what: "a descriptor",
    fields: &[
        "key",
        "value",
        "rate_limit",
        "rate_limits",
        "descriptors",
        "shadow_mode",
        "quota_mode",
        "detailed_metric",
        "value_to_metric",
        "share_threshold",
        "metadata",
    ],
};
pub(super) const RATE_LIMIT: Kind = Kind {
    what: "a rate limit",
    fields: &[
        "unit",
        "requests_per_unit",
        "unlimited",
        "name",
        "replaces",
        "algorithm",
        "unit_multiplier",
        "burst",
    ],
};
pub(super) const SHORT_RATE_LIMIT: Kind = Kind {
    what: "a rate limit",
    fields: &[
        "unit",
        "requests",
        "requests_per_unit",
        "unlimited",
        "name",
        "replaces",
        "algorithm",
        "unit_multiplier",
        "burst",
    ],
};
pub(super) const REPLACES: Kind = Kind { what: "an entry of replaces", fields: &["name"] };

/// The original knows its fields by name only, and ignores one that stands in the wrong place.
const ORIGINAL: [&str; 16] = [
    "domain",
    "key",
    "value",
    "descriptors",
    "rate_limit",
    "unit",
    "requests_per_unit",
    "unlimited",
    "shadow_mode",
    "quota_mode",
    "name",
    "replaces",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];

/// The fields of one mapping.
pub(super) struct Fields<'n> {
    pub(super) place: Place,
    list: Vec<(&'n str, &'n Node<'n>)>,
}

impl<'n> Fields<'n> {
    /// Reads a mapping; every field that does not belong is reported.
    pub(super) fn read(
        node: &'n Node<'n>,
        kind: &Kind,
        found: &mut Diagnostics,
    ) -> Option<Fields<'n>> {
        let Value::Map(pairs) = &node.value else {
            let message = format!("{} is a mapping, this is {}", kind.what, node.kind());
            found.push(Diagnostic::error("wrong-kind", node.place, message));
            return None;
        };
        let mut fields = Fields { place: node.place, list: Vec::with_capacity(pairs.len()) };
        let mut merged = Vec::new();
        for (key, value) in pairs.iter() {
            match key.text() {
                Some("<<") => merged.push(value),
                _ => fields.add(key, value, kind, found),
            }
        }
        // What is written here counts, not what is merged into it.
        for value in merged {
            match &value.value {
                Value::List(several) => {
                    several.iter().for_each(|one| fields.merge(one, kind, found))
                }
                _ => fields.merge(value, kind, found),
            }
        }
        Some(fields)
    }

    fn add(
        &mut self,
        key: &'n Node<'n>,
        value: &'n Node<'n>,
        kind: &Kind,
        found: &mut Diagnostics,
    ) {
        let name = key.text().unwrap_or_default();
        if !kind.fields.contains(&name) {
            found.push(stranger(name, key.place, kind));
            return;
        }
        if let Some((_, earlier)) = self.list.iter_mut().find(|(known, _)| *known == name) {
            let message = format!("`{name}` is written twice: what is written here counts");
            let first = "written first here";
            found.push(
                Diagnostic::warning("duplicate-key", key.place, message)
                    .related(earlier.place, first),
            );
            *earlier = value;
            return;
        }
        self.list.push((name, value));
    }

    fn merge(&mut self, node: &'n Node<'n>, kind: &Kind, found: &mut Diagnostics) {
        let Some(others) = Fields::read(node, kind, found) else { return };
        for (name, value) in others.list {
            if !self.list.iter().any(|(known, _)| *known == name) {
                self.list.push((name, value));
            }
        }
    }

    /// The field of that name; one that says nothing is none.
    pub(super) fn get(&self, name: &str) -> Option<&'n Node<'n>> {
        let field = self.list.iter().find(|(known, _)| *known == name);
        field.map(|(_, value)| *value).filter(|value| !value.is_null())
    }

    /// A text, empty if there is none.
    pub(super) fn text(&self, name: &str, found: &mut Diagnostics) -> Option<&'n str> {
        match self.get(name) {
            Some(node) => text(node, name, found),
            None => Some(""),
        }
    }

    /// True or false, false if nothing is said.
    pub(super) fn flag(&self, name: &str, found: &mut Diagnostics) -> bool {
        let Some(node) = self.get(name) else { return false };
        let flag = match &node.value {
            Value::Scalar { text, plain: true } => flag_named(text),
            _ => None,
        };
        if flag.is_none() {
            let message = format!("`{name}` is true or false");
            found.push(Diagnostic::error("wrong-kind", node.place, message));
        }
        flag.unwrap_or(false)
    }

    /// A whole number; `Some(None)` if nothing is said.
    pub(super) fn number(&self, name: &str, found: &mut Diagnostics) -> Option<Option<u32>> {
        let Some(node) = self.get(name) else { return Some(None) };
        let Value::Scalar { text, plain } = &node.value else {
            found.push(wrong(node, name, "a whole number"));
            return None;
        };
        match integer(text).map(u32::try_from) {
            Some(Ok(number)) if *plain => Some(Some(number)),
            Some(Ok(_)) => {
                let message = format!("`{name}` is a number, this is a text");
                let error = Diagnostic::error("wrong-kind", node.place, message);
                found.push(error.help("leave out the quotes"));
                None
            }
            Some(Err(_)) => {
                let message = format!("`{name}` is between 0 and {}", u32::MAX);
                found.push(Diagnostic::error("bad-number", node.place, message));
                None
            }
            None => {
                found.push(wrong(node, name, "a whole number"));
                None
            }
        }
    }

    /// A list of things; none if nothing is said.
    pub(super) fn list(&self, name: &str, found: &mut Diagnostics) -> &'n [Node<'n>] {
        match self.get(name).map(|node| (&node.value, node)) {
            None => &[],
            Some((Value::List(items), _)) => items,
            Some((_, node)) => {
                found.push(wrong(node, name, "a list"));
                &[]
            }
        }
    }
}

fn wrong(node: &Node<'_>, name: &str, what: &str) -> Diagnostic {
    let this = match &node.value {
        Value::Scalar { text, .. } if !node.is_null() => format!("{text:?}"),
        _ => node.kind().to_owned(),
    };
    Diagnostic::error("wrong-kind", node.place, format!("`{name}` is {what}, this is {this}"))
}

fn stranger(name: &str, place: Place, kind: &Kind) -> Diagnostic {
    if ORIGINAL.contains(&name) {
        let message = format!("`{name}` means nothing in {} and is ignored", kind.what);
        let home = match name {
            "domain" => FILE.what,
            "unit" | "requests_per_unit" | "unlimited" | "name" | "replaces" => RATE_LIMIT.what,
            _ => DESCRIPTOR.what,
        };
        return Diagnostic::warning("misplaced-field", place, message)
            .help(format!("it belongs into {home}"));
    }
    let error =
        Diagnostic::error("unknown-field", place, format!("{} has no field {name:?}", kind.what));
    let meant = match name {
        "requests" | "limit" | "count" => Some("requests_per_unit"),
        "per" | "period" => Some("unit"),
        _ => suggest::closest(name, kind.fields.iter().copied()),
    };
    match meant.filter(|meant| kind.fields.contains(meant)) {
        Some(meant) => error.fix(meant),
        None => {
            error.help(format!("the fields are {}", suggest::listed(kind.fields.iter().copied())))
        }
    }
}

/// The text of a scalar, as it stands. A number with a point is refused: without quotes `1.10` and
/// `1.1` would be one.
pub(super) fn text<'n>(node: &'n Node<'n>, name: &str, found: &mut Diagnostics) -> Option<&'n str> {
    match &node.value {
        Value::Scalar { text, plain } if !*plain || !is_float(text) => Some(text),
        Value::Scalar { text, .. } => {
            let message = format!("`{name}` is a text, {text} is a number");
            let error = Diagnostic::error("wrong-kind", node.place, message);
            found.push(error.help("put it in quotes").fix(format!("\"{text}\"")));
            None
        }
        _ => {
            found.push(wrong(node, name, "a text"));
            None
        }
    }
}

/// True or false as YAML 1.1 spells them, which is what files of this format are written in.
pub(super) fn flag_named(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Some(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Some(false)
        }
        _ => None,
    }
}

/// A whole number of 64 bits, with `_` between its digits if one likes; `0x`, `0o`, `0b` and a
/// leading `0` mean what they mean in YAML 1.1.
fn integer(text: &str) -> Option<i64> {
    let plain = text.replace('_', "");
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let lower = digits.to_ascii_lowercase();
    let (digits, radix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', _, ..] => (&lower[1..], 8),
        _ => (&lower[..], 10),
    };
    let digits =
        Some(digits).filter(|digits| digits.starts_with(|c: char| c.is_ascii_hexdigit()))?;
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

/// Whether YAML takes the text for a number that is not whole, or one too long to be kept exactly.
fn is_float(text: &str) -> bool {
    if integer(text).is_some() {
        return false;
    }
    let plain = text.replace('_', "");
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN")
        || unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && unsigned.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b))
            && unsigned.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_yaml() {
        let numbers =
            [("1_000", 1000), ("0x1F", 31), ("010", 8), ("0b11", 3), ("-5", -5), ("0", 0)];
        for (text, number) in numbers {
            assert_eq!(integer(text), Some(number), "{text}");
        }
        for text in ["", "-", "1.0", "1e3", "ten", "0x", "--1", "09", "99999999999999999999"] {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    #[test]
    fn floats_are_told_from_texts_with_points() {
        for text in ["1.5", "1.", ".5", "1e3", "-2.5E-3", ".inf", "09", "99999999999999999999"] {
            assert!(is_float(text), "{text}");
        }
        for text in ["50.0.0.5", "1", "v1.5", "1.5s", "e3", ".", "infinity", "nan", "2061234567"] {
            assert!(!is_float(text), "{text}");
        }
    }
}
