//! Reads single fields of a JSON text by their paths, and skips everything else.
//!
//! ```
//! use tollgate_rules::Value;
//! use tollgate_tower::json::JsonFields;
//!
//! let fields = JsonFields::new("body.", ["body.model", "body.options.max_tokens"]).unwrap();
//! let found = fields.read(br#"{"model": "m", "options": {"max_tokens": 12, "seed": 3}}"#)?;
//! assert_eq!(found.values().collect::<Vec<_>>(), [
//!     ("body.model", &Value::from("m")),
//!     ("body.options.max_tokens", &Value::from(12)),
//! ]);
//! # Ok::<(), tollgate_tower::json::InvalidJson>(())
//! ```

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tollgate_rules::Value;

/// The maximum length of a string value. Longer ones are ignored.
const MAX_TEXT_LENGTH: usize = 8 << 10;

/// The text is not JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InvalidJson;

impl fmt::Display for InvalidJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is no JSON")
    }
}

/// Formats the message as `Display` does, because `main` prints a returned error with `Debug`.
impl fmt::Debug for InvalidJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for InvalidJson {}

/// The fields to read.
#[derive(Clone, Debug, Default)]
pub struct JsonFields {
    names: Vec<Box<str>>,
    root: PathNode,
}

/// A node of the tree of paths.
#[derive(Clone, Debug, Default)]
struct PathNode {
    key: Box<str>,
    /// The index of the field whose path ends here.
    field: Option<usize>,
    below: Vec<PathNode>,
}

/// The fields that were found in a text.
#[derive(Clone, Debug, Default)]
pub struct FoundFields<'f> {
    names: &'f [Box<str>],
    values: Vec<Option<Value<'static>>>,
    /// The first field that another reader could read differently.
    ambiguous: Option<usize>,
}

impl JsonFields {
    /// Creates the set of the names that begin with `prefix`; `None` if no name does.
    pub fn new<'n>(prefix: &str, names: impl IntoIterator<Item = &'n str>) -> Option<JsonFields> {
        let mut fields = JsonFields::default();
        for name in names {
            let Some(path) = name.strip_prefix(prefix) else { continue };
            let mut node = &mut fields.root;
            for key in path.split('.') {
                let known = node.below.iter().position(|below| *below.key == *key);
                let at = known.unwrap_or_else(|| {
                    node.below.push(PathNode { key: key.into(), ..PathNode::default() });
                    node.below.len() - 1
                });
                node = &mut node.below[at];
            }
            if node.field.is_none() {
                node.field = Some(fields.names.len());
                fields.names.push(name.into());
            }
        }
        (!fields.names.is_empty()).then_some(fields)
    }

    /// Returns an empty list of values.
    pub(crate) fn no_values(&self) -> Vec<Option<Value<'static>>> {
        vec![None; self.names.len()]
    }

    /// Returns the names that have a value.
    pub(crate) fn named(
        &self,
        values: Vec<Option<Value<'static>>>,
    ) -> impl Iterator<Item = (&str, Value<'static>)> {
        let named = self.names.iter().zip(values);
        named.filter_map(|(name, value)| Some((&**name, value?)))
    }

    /// Reads the fields of a text. Fields that are null, a list or an object count as missing.
    pub fn read(&self, text: &[u8]) -> Result<FoundFields<'_>, InvalidJson> {
        let mut found =
            FoundFields { names: &self.names, values: self.no_values(), ambiguous: None };
        let mut reader = serde_json::Deserializer::from_slice(text);
        let walk = FieldVisitor { node: &self.root, found: &mut found };
        walk.deserialize(&mut reader).and_then(|()| reader.end()).map_err(|_| InvalidJson)?;
        Ok(found)
    }

    /// Reads the fields of a text over earlier values; returns whether the text is JSON.
    pub(crate) fn merge(&self, text: &[u8], values: &mut [Option<Value<'static>>]) -> bool {
        let Ok(found) = self.read(text) else { return false };
        for (value, new) in values.iter_mut().zip(found.values) {
            if new.is_some() {
                *value = new;
            }
        }
        true
    }
}

impl FoundFields<'_> {
    /// Returns the fields that have a value.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Value<'static>)> {
        let named = self.names.iter().zip(&self.values);
        named.filter_map(|(name, value)| Some((&**name, value.as_ref()?)))
    }

    /// Returns whether all fields have a value.
    pub fn is_complete(&self) -> bool {
        self.values.iter().all(Option::is_some)
    }

    /// Returns a field that another reader may read differently: it is there twice, or under a name
    /// that differs in case only.
    pub fn ambiguous(&self) -> Option<&str> {
        self.ambiguous.map(|field| &*self.names[field])
    }
}

/// A visitor of one value of the text.
struct FieldVisitor<'w, 'f> {
    node: &'w PathNode,
    found: &'w mut FoundFields<'f>,
}

impl FieldVisitor<'_, '_> {
    fn set(&mut self, value: Value<'static>) {
        if let Some(field) = self.node.field {
            self.found.values[field] = Some(value);
        }
    }

    fn mark_ambiguous(&mut self, node: &PathNode) {
        self.found.ambiguous = self.found.ambiguous.or(first_field(node));
    }
}

fn first_field(node: &PathNode) -> Option<usize> {
    node.field.or_else(|| node.below.iter().find_map(first_field))
}

/// Returns whether a reader that ignores case takes two keys for the same.
fn differ_in_case(one: &str, other: &str) -> bool {
    if one.is_ascii() && other.is_ascii() {
        return one.eq_ignore_ascii_case(other);
    }
    let fold = |text: &str| text.to_uppercase().to_lowercase();
    fold(one) == fold(other)
}

impl<'de> DeserializeSeed<'de> for FieldVisitor<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        match self.node.below.is_empty() && self.node.field.is_none() {
            true => reader.deserialize_ignored_any(IgnoredAny).map(drop),
            false => reader.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for FieldVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<(), M::Error> {
        let mut seen = vec![false; self.node.below.len()];
        while let Some(ObjectKey(key)) = map.next_key()? {
            let below = &self.node.below;
            let Some(at) = below.iter().position(|below| *below.key == *key) else {
                if let Some(alike) = below.iter().find(|below| differ_in_case(&below.key, &key)) {
                    self.mark_ambiguous(alike);
                }
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if std::mem::replace(&mut seen[at], true) {
                self.mark_ambiguous(&below[at]);
            }
            map.next_value_seed(FieldVisitor { node: &below[at], found: self.found })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(mut self, flag: bool) -> Result<(), E> {
        self.set(Value::from(flag));
        Ok(())
    }

    fn visit_i64<E>(mut self, number: i64) -> Result<(), E> {
        self.set(Value::from(number));
        Ok(())
    }

    fn visit_u64<E>(mut self, number: u64) -> Result<(), E> {
        let value = i64::try_from(number).map(Value::from);
        self.set(value.unwrap_or_else(|_| Value::from(number.to_string())));
        Ok(())
    }

    /// Some languages write every number with a point.
    fn visit_f64<E>(mut self, number: f64) -> Result<(), E> {
        const EXACT: f64 = (1_u64 << 53) as f64;
        self.set(match number.fract() == 0.0 && number.abs() <= EXACT {
            true => Value::from(number as i64),
            false => Value::from(number.to_string()),
        });
        Ok(())
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        if text.len() <= MAX_TEXT_LENGTH {
            self.set(Value::from(text.to_owned()));
        }
        Ok(())
    }
}

/// An object key, borrowed from the text if it needs no unescaping.
struct ObjectKey<'k>(Cow<'k, str>);

impl<'de> serde::Deserialize<'de> for ObjectKey<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<ObjectKey<'de>, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = ObjectKey<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<ObjectKey<'de>, E> {
                Ok(ObjectKey(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<ObjectKey<'de>, E> {
                Ok(ObjectKey(Cow::Owned(key.to_owned())))
            }
        }
        reader.deserialize_str(KeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> JsonFields {
        JsonFields::new("body.", ["body.max_tokens", "body.a.b", "other.x"]).unwrap()
    }

    fn number(text: &str) -> Option<Value<'static>> {
        let fields = fields();
        let found = fields.read(text.as_bytes()).ok()?;
        found.values().next().map(|(_, value)| value.clone())
    }

    #[test]
    fn values_are_found_by_their_path() {
        assert_eq!(number(r#"{"x":[{"max_tokens":1}],"max_tokens":7}"#), Some(7.into()));
        assert_eq!(number(r#"{"a":{"c":1,"b":"x"}}"#), Some("x".into()));
        assert_eq!(number(r#"{"max_tokens":7.0}"#), Some(7.into()));
        assert_eq!(number(r#"{"max_tokens":4e1}"#), Some(40.into()));
        assert_eq!(number(r#"{"max_tokens":7.5}"#), Some("7.5".into()));
        assert_eq!(number(r#"{"max_tokens":18446744073709551615}"#).unwrap().number(), None);
        assert_eq!(number(r#"{"m\u0061x_tokens":7}"#), Some(7.into()));
        for nothing in ["{}", "[]", "7", "null", r#"{"max_tokens":null}"#, r#"{"a":[{"b":1}]}"#] {
            assert_eq!(number(nothing), None, "{nothing}");
        }
        assert!(JsonFields::new("body.", ["other.x"]).is_none());
    }

    #[test]
    fn invalid_json_is_not_read_in_part() {
        for wrong in ["", r#"{"max_tokens":1"#, r#"{"max_tokens":1}{}"#, r#"{"max_tokens":NaN}"#] {
            assert_eq!(fields().read(wrong.as_bytes()).unwrap_err(), InvalidJson, "{wrong}");
        }
        let deep = format!("{}{}", r#"{"a":"#.repeat(100_000), "1");
        assert!(fields().read(deep.as_bytes()).is_err());
    }

    #[test]
    fn ambiguous_fields_are_reported() {
        for doubtful in [
            r#"{"max_tokens":1,"max_tokens":100}"#,
            r#"{"max_tokens":1,"max\u005ftokens":100}"#,
            r#"{"max_tokens":1,"Max_Tokens":100}"#,
            "{\"max_tokens\":1,\"max_to\u{212a}ens\":100}",
            r#"{"MAX_TOKENS":100}"#,
        ] {
            let fields = fields();
            let found = fields.read(doubtful.as_bytes()).unwrap();
            assert_eq!(found.ambiguous(), Some("body.max_tokens"), "{doubtful}");
        }
        let twice = fields();
        let twice = twice.read(br#"{"a":{"b":1},"a":{"c":2}}"#).unwrap();
        assert_eq!(twice.ambiguous(), Some("body.a.b"));
        let fine = fields();
        let fine = fine.read(br#"{"x":1,"x":2,"y":{"max_tokens":3},"max_tokens":1}"#).unwrap();
        assert_eq!(fine.ambiguous(), None);
    }
}
