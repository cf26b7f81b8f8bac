//! Reads mappings and scalars as strictly as the original: what it refuses is an error here, what it
//! silently ignores a warning.

use crate::read::diagnostic::{Diagnostic, Diagnostics};
use crate::read::source::SourceSpan;
use crate::read::suggest;
use crate::read::yaml::{YamlNode, YamlValue};

/// The fields of one kind of mapping.
pub(super) struct MappingSchema {
    /// The name of the mapping in messages.
    pub(super) what: &'static str,
    pub(super) fields: &'static [&'static str],
}

pub(super) const FILE: MappingSchema =
    MappingSchema { what: "a file of descriptors", fields: &["domain", "descriptors", "strict"] };
pub(super) const SHORT: MappingSchema = MappingSchema {
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
pub(super) const DESCRIPTOR: MappingSchema = MappingSchema {
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
pub(super) const RATE_LIMIT: MappingSchema = MappingSchema {
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
pub(super) const SHORT_RATE_LIMIT: MappingSchema = MappingSchema {
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
pub(super) const REPLACES: MappingSchema =
    MappingSchema { what: "an entry of replaces", fields: &["name"] };

/// The fields of the original, which ignores one in the wrong mapping.
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
pub(super) struct EnvoyFields<'n> {
    pub(super) span: SourceSpan,
    list: Vec<(&'n str, &'n YamlNode<'n>)>,
}

impl<'n> EnvoyFields<'n> {
    /// Reads a mapping; every field that does not belong is reported.
    pub(super) fn read(
        node: &'n YamlNode<'n>,
        kind: &MappingSchema,
        diagnostics: &mut Diagnostics,
    ) -> Option<EnvoyFields<'n>> {
        let YamlValue::Map(pairs) = &node.value else {
            let message = format!("{} is a mapping, this is {}", kind.what, node.kind());
            diagnostics.push(Diagnostic::error("wrong-kind", node.span, message));
            return None;
        };
        let mut fields = EnvoyFields { span: node.span, list: Vec::with_capacity(pairs.len()) };
        let mut merged = Vec::new();
        for (key, value) in pairs.iter() {
            match key.text() {
                Some("<<") => merged.push(value),
                _ => fields.add(key, value, kind, diagnostics),
            }
        }
        // Fields of the mapping take precedence over merged ones.
        for value in merged {
            match &value.value {
                YamlValue::List(several) => {
                    several.iter().for_each(|one| fields.merge(one, kind, diagnostics))
                }
                _ => fields.merge(value, kind, diagnostics),
            }
        }
        Some(fields)
    }

    fn add(
        &mut self,
        key: &'n YamlNode<'n>,
        value: &'n YamlNode<'n>,
        kind: &MappingSchema,
        diagnostics: &mut Diagnostics,
    ) {
        let name = key.text().unwrap_or_default();
        if !kind.fields.contains(&name) {
            diagnostics.push(unexpected_field(name, key.span, kind));
            return;
        }
        if let Some((_, earlier)) = self.list.iter_mut().find(|(known, _)| *known == name) {
            let message = format!("`{name}` is written twice: what is written here counts");
            let first = "written first here";
            diagnostics.push(
                Diagnostic::warning("duplicate-key", key.span, message)
                    .related(earlier.span, first),
            );
            *earlier = value;
            return;
        }
        self.list.push((name, value));
    }

    fn merge(
        &mut self,
        node: &'n YamlNode<'n>,
        kind: &MappingSchema,
        diagnostics: &mut Diagnostics,
    ) {
        let Some(others) = EnvoyFields::read(node, kind, diagnostics) else { return };
        for (name, value) in others.list {
            if !self.list.iter().any(|(known, _)| *known == name) {
                self.list.push((name, value));
            }
        }
    }

    /// Returns the field of that name, unless it is null.
    pub(super) fn get(&self, name: &str) -> Option<&'n YamlNode<'n>> {
        let field = self.list.iter().find(|(known, _)| *known == name);
        field.map(|(_, value)| *value).filter(|value| !value.is_null())
    }

    /// Reads a text; empty if there is none.
    pub(super) fn text(&self, name: &str, diagnostics: &mut Diagnostics) -> Option<&'n str> {
        match self.get(name) {
            Some(node) => text(node, name, diagnostics),
            None => Some(""),
        }
    }

    /// Reads true or false; false if it is absent.
    pub(super) fn flag(&self, name: &str, diagnostics: &mut Diagnostics) -> bool {
        let Some(node) = self.get(name) else { return false };
        let flag = match &node.value {
            YamlValue::Scalar { text, plain: true } => flag_named(text),
            _ => None,
        };
        if flag.is_none() {
            let message = format!("`{name}` is true or false");
            diagnostics.push(Diagnostic::error("wrong-kind", node.span, message));
        }
        flag.unwrap_or(false)
    }

    /// Reads a whole number; `Some(None)` if it is absent.
    pub(super) fn number(&self, name: &str, diagnostics: &mut Diagnostics) -> Option<Option<u32>> {
        let Some(node) = self.get(name) else { return Some(None) };
        let YamlValue::Scalar { text, plain } = &node.value else {
            diagnostics.push(wrong_value(node, name, "a whole number"));
            return None;
        };
        match integer(text).map(u32::try_from) {
            Some(Ok(number)) if *plain => Some(Some(number)),
            Some(Ok(_)) => {
                let message = format!("`{name}` is a number, this is a text");
                let error = Diagnostic::error("wrong-kind", node.span, message);
                diagnostics.push(error.help("leave out the quotes"));
                None
            }
            Some(Err(_)) => {
                let message = format!("`{name}` is between 0 and {}", u32::MAX);
                diagnostics.push(Diagnostic::error("bad-number", node.span, message));
                None
            }
            None => {
                diagnostics.push(wrong_value(node, name, "a whole number"));
                None
            }
        }
    }

    /// Reads a list; empty if it is absent.
    pub(super) fn list(&self, name: &str, diagnostics: &mut Diagnostics) -> &'n [YamlNode<'n>] {
        match self.get(name).map(|node| (&node.value, node)) {
            None => &[],
            Some((YamlValue::List(items), _)) => items,
            Some((_, node)) => {
                diagnostics.push(wrong_value(node, name, "a list"));
                &[]
            }
        }
    }
}

fn wrong_value(node: &YamlNode<'_>, name: &str, what: &str) -> Diagnostic {
    let this = match &node.value {
        YamlValue::Scalar { text, .. } if !node.is_null() => format!("{text:?}"),
        _ => node.kind().to_owned(),
    };
    Diagnostic::error("wrong-kind", node.span, format!("`{name}` is {what}, this is {this}"))
}

fn unexpected_field(name: &str, span: SourceSpan, kind: &MappingSchema) -> Diagnostic {
    if ORIGINAL.contains(&name) {
        let message = format!("`{name}` means nothing in {} and is ignored", kind.what);
        let home = match name {
            "domain" => FILE.what,
            "unit" | "requests_per_unit" | "unlimited" | "name" | "replaces" => RATE_LIMIT.what,
            _ => DESCRIPTOR.what,
        };
        return Diagnostic::warning("misplaced-field", span, message)
            .help(format!("it belongs into {home}"));
    }
    let error =
        Diagnostic::error("unknown-field", span, format!("{} has no field {name:?}", kind.what));
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

/// Reads the text of a scalar. A number with a point is refused: without quotes `1.10` and `1.1`
/// would be equal.
pub(super) fn text<'n>(
    node: &'n YamlNode<'n>,
    name: &str,
    diagnostics: &mut Diagnostics,
) -> Option<&'n str> {
    match &node.value {
        YamlValue::Scalar { text, plain } if !*plain || !is_float(text) => Some(text),
        YamlValue::Scalar { text, .. } => {
            let message = format!("`{name}` is a text, {text} is a number");
            let error = Diagnostic::error("wrong-kind", node.span, message);
            diagnostics.push(error.help("put it in quotes").fix(format!("\"{text}\"")));
            None
        }
        _ => {
            diagnostics.push(wrong_value(node, name, "a text"));
            None
        }
    }
}

/// Parses true or false as in YAML 1.1, which is the version of this format.
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

/// Parses a whole number of 64 bits as in YAML 1.1: with `_` between digits, `0x`, `0o`, `0b` and a
/// leading `0`.
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

/// Whether the text is a number that is not whole, or too long to be exact.
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
    fn numbers_are_read_as_yaml_numbers() {
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
    fn floats_are_distinguished_from_texts_with_points() {
        for text in ["1.5", "1.", ".5", "1e3", "-2.5E-3", ".inf", "09", "99999999999999999999"] {
            assert!(is_float(text), "{text}");
        }
        for text in ["50.0.0.5", "1", "v1.5", "1.5s", "e3", ".", "infinity", "nan", "2061234567"] {
            assert!(!is_float(text), "{text}");
        }
    }
}
