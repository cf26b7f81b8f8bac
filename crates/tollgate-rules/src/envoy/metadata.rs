//! The metadata of a descriptor, which go to requests that pass: any YAML.

use serde::{Serialize, Serializer};

use crate::read::yaml::{YamlNode, YamlValue};

/// A value as JSON and protobuf's `Struct` know them.
///
/// ```
/// use tollgate_rules::envoy::Metadata;
/// let tier = Metadata::Map(vec![("tier".into(), Metadata::Text("gold".into()))]);
/// assert_eq!(tier.get("tier"), Some(&Metadata::Text("gold".into())));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Metadata {
    /// Nothing.
    Null,
    /// True or false.
    Flag(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// Several values.
    List(Vec<Metadata>),
    /// Values under names, in the order they were written.
    Map(Vec<(String, Metadata)>),
}

impl Metadata {
    /// Returns the value of a name.
    pub fn get(&self, name: &str) -> Option<&Metadata> {
        match self {
            Metadata::Map(fields) => {
                fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    pub(super) fn read(node: &YamlNode<'_>) -> Metadata {
        match &node.value {
            _ if node.is_null() => Metadata::Null,
            YamlValue::Scalar { text, plain: true } => {
                match (super::fields::flag_named(text), text) {
                    (Some(flag), _) => Metadata::Flag(flag),
                    (None, text) => match text.parse::<f64>() {
                        // `nan` and `infinity` are words here.
                        Ok(number) if number.is_finite() => Metadata::Number(number),
                        _ => Metadata::Text(text.to_string()),
                    },
                }
            }
            YamlValue::Scalar { text, .. } => Metadata::Text(text.to_string()),
            YamlValue::List(items) => Metadata::List(items.iter().map(Metadata::read).collect()),
            YamlValue::Map(pairs) => {
                let name = |key: &YamlNode<'_>| key.text().unwrap_or_default().to_owned();
                Metadata::Map(pairs.iter().map(|(k, v)| (name(k), Metadata::read(v))).collect())
            }
        }
    }

    /// Adds the names of `other` that are missing here; mappings of one name are merged alike.
    pub(super) fn merge(&mut self, other: &Metadata) {
        let (Metadata::Map(mine), Metadata::Map(theirs)) = (self, other) else { return };
        for (name, value) in theirs {
            match mine.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => known.merge(value),
                None => mine.push((name.clone(), value.clone())),
            }
        }
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Metadata::Null => serializer.serialize_unit(),
            Metadata::Flag(flag) => serializer.serialize_bool(*flag),
            Metadata::Number(number) => serializer.serialize_f64(*number),
            Metadata::Text(text) => serializer.serialize_str(text),
            Metadata::List(items) => serializer.collect_seq(items),
            Metadata::Map(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, value)))
            }
        }
    }
}
