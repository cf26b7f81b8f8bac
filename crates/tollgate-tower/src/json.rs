//! Single fields of a JSON text, by their paths: what rules look at, and nothing else is kept.
//!
//! ```
//! use tollgate::rules::Value;
//! use tollgate_tower::json::Fields;
//!
//! let fields = Fields::new("body.", ["body.model", "body.options.max_tokens"]).unwrap();
//! let found = fields.read(br#"{"model": "m", "options": {"max_tokens": 12, "seed": 3}}"#)?;
//! assert_eq!(found.values().collect::<Vec<_>>(), [
//!     ("body.model", &Value::from("m")),
//!     ("body.options.max_tokens", &Value::from(12)),
//! ]);
//! # Ok::<(), tollgate_tower::json::Unreadable>(())
//! ```

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tollgate::rules::Value;

/// A text that is longer is none that a rule can use.
const LONGEST_TEXT: usize = 8 << 10;

/// A text is no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is no JSON")
    }
}

impl std::error::Error for Unreadable {}

/// Fields to look for.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    names: Vec<Box<str>>,
    root: Node,
}

/// A step on the way to fields.
#[derive(Clone, Debug, Default)]
struct Node {
    key: Box<str>,
    /// The field that is here.
    field: Option<usize>,
    below: Vec<Node>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Found<'f> {
    names: &'f [Box<str>],
    values: Vec<Option<Value<'static>>>,
    /// A field that could be read in two ways.
    ambiguous: Option<usize>,
}

impl Fields {
    /// The fields of these names, which begin with `prefix`; none if no name does. Names that do
    /// not are left out.
    pub fn new<'n>(prefix: &str, names: impl IntoIterator<Item = &'n str>) -> Option<Fields> {
        let mut fields = Fields::default();
        for name in names {
            let Some(path) = name.strip_prefix(prefix) else { continue };
            let mut node = &mut fields.root;
            for key in path.split('.') {
                let known = node.below.iter().position(|below| *below.key == *key);
                let at = known.unwrap_or_else(|| {
                    node.below.push(Node { key: key.into(), ..Node::default() });
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

    /// Nothing found yet.
    pub(crate) fn nothing(&self) -> Vec<Option<Value<'static>>> {
        vec![None; self.names.len()]
    }

    /// The names, each with what was found.
    pub(crate) fn named(
        &self,
        values: Vec<Option<Value<'static>>>,
    ) -> impl Iterator<Item = (&str, Value<'static>)> {
        let named = self.names.iter().zip(values);
        named.filter_map(|(name, value)| Some((&**name, value?)))
    }

    /// Finds them in a text. What is null is not there, and neither is a list or an object.
    pub fn read(&self, text: &[u8]) -> Result<Found<'_>, Unreadable> {
        let mut found = Found { names: &self.names, values: self.nothing(), ambiguous: None };
        let mut reader = serde_json::Deserializer::from_slice(text);
        let walk = Walk { node: &self.root, found: &mut found };
        walk.deserialize(&mut reader).and_then(|()| reader.end()).map_err(|_| Unreadable)?;
        Ok(found)
    }

    /// The same, over what was found before. Whether it could be read.
    pub(crate) fn read_over(&self, text: &[u8], values: &mut [Option<Value<'static>>]) -> bool {
        let Ok(found) = self.read(text) else { return false };
        for (value, new) in values.iter_mut().zip(found.values) {
            if new.is_some() {
                *value = new;
            }
        }
        true
    }
}

impl Found<'_> {
    /// Every field that is there.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Value<'static>)> {
        let named = self.names.iter().zip(&self.values);
        named.filter_map(|(name, value)| Some((&**name, value.as_ref()?)))
    }

    /// Whether all of them are there.
    pub fn is_complete(&self) -> bool {
        self.values.iter().all(Option::is_some)
    }

    /// A field that another reader may find with another value: it is there twice, or under a name
    /// that differs in case only, which some take for the same.
    pub fn ambiguous(&self) -> Option<&str> {
        self.ambiguous.map(|field| &*self.names[field])
    }
}

/// On the way through a text.
struct Walk<'w, 'f> {
    node: &'w Node,
    found: &'w mut Found<'f>,
}

impl Walk<'_, '_> {
    fn note(&mut self, value: Value<'static>) {
        if let Some(field) = self.node.field {
            self.found.values[field] = Some(value);
        }
    }

    fn doubt(&mut self, node: &Node) {
        self.found.ambiguous = self.found.ambiguous.or(first_field(node));
    }
}

fn first_field(node: &Node) -> Option<usize> {
    node.field.or_else(|| node.below.iter().find_map(first_field))
}

/// Whether two keys differ in case only, to whoever is generous about it.
fn differ_in_case(one: &str, other: &str) -> bool {
    if one.is_ascii() && other.is_ascii() {
        return one.eq_ignore_ascii_case(other);
    }
    let fold = |text: &str| text.to_uppercase().to_lowercase();
    fold(one) == fold(other)
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        match self.node.below.is_empty() && self.node.field.is_none() {
            true => reader.deserialize_ignored_any(IgnoredAny).map(drop),
            false => reader.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<(), M::Error> {
        let mut seen = vec![false; self.node.below.len()];
        while let Some(Key(key)) = map.next_key()? {
            let below = &self.node.below;
            let Some(at) = below.iter().position(|below| *below.key == *key) else {
                if let Some(alike) = below.iter().find(|below| differ_in_case(&below.key, &key)) {
                    self.doubt(alike);
                }
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if std::mem::replace(&mut seen[at], true) {
                self.doubt(&below[at]);
            }
            map.next_value_seed(Walk { node: &below[at], found: self.found })?;
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
        self.note(Value::from(flag));
        Ok(())
    }

    fn visit_i64<E>(mut self, number: i64) -> Result<(), E> {
        self.note(Value::from(number));
        Ok(())
    }

    fn visit_u64<E>(mut self, number: u64) -> Result<(), E> {
        let value = i64::try_from(number).map(Value::from);
        self.note(value.unwrap_or_else(|_| Value::from(number.to_string())));
        Ok(())
    }

    /// Some languages write every number with a point.
    fn visit_f64<E>(mut self, number: f64) -> Result<(), E> {
        const EXACT: f64 = (1_u64 << 53) as f64;
        self.note(match number.fract() == 0.0 && number.abs() <= EXACT {
            true => Value::from(number as i64),
            false => Value::from(number.to_string()),
        });
        Ok(())
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        if text.len() <= LONGEST_TEXT {
            self.note(Value::from(text.to_owned()));
        }
        Ok(())
    }
}

/// A key, where it is in the text if it needs no unescaping.
struct Key<'k>(Cow<'k, str>);

impl<'de> serde::Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Key<'de>, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }
        reader.deserialize_str(KeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        Fields::new("body.", ["body.max_tokens", "body.a.b", "other.x"]).unwrap()
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
        assert!(Fields::new("body.", ["other.x"]).is_none());
    }

    #[test]
    fn what_is_no_json_is_not_read_in_part() {
        for wrong in ["", r#"{"max_tokens":1"#, r#"{"max_tokens":1}{}"#, r#"{"max_tokens":NaN}"#] {
            assert_eq!(fields().read(wrong.as_bytes()).unwrap_err(), Unreadable, "{wrong}");
        }
        let deep = format!("{}{}", r#"{"a":"#.repeat(100_000), "1");
        assert!(fields().read(deep.as_bytes()).is_err());
    }

    #[test]
    fn what_two_readers_could_read_differently_is_told() {
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
