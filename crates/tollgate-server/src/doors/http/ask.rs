//! What callers send: one object in JSON, the same words in every call.
//!
//! Read by hand instead of derived: a wrong field is named, texts stay where they are in the body,
//! and each call says which fields it takes.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use tollgate::rules::Value;

use crate::engine::Asked;
use crate::rules_service::problem::Problem;

/// Attributes of one request.
const MOST_ATTRIBUTES: usize = 64;
/// What one key may have, in characters.
const LONGEST_KEY: usize = 1024;
/// Requests of one batch.
pub(super) const MOST_REQUESTS: usize = 1000;
/// The largest amount: what numbers of JSON carry exactly in every language.
const MOST: u64 = (1 << 53) - 1;
/// The longest a hold may stay open: a day.
const LONGEST_HOLD_S: u64 = 86_400;

/// Everything a call may be given.
#[derive(Debug, Default)]
pub(super) struct Ask<'a> {
    pub(super) asked: Asked<'a>,
    pub(super) key: Option<Cow<'a, str>>,
    pub(super) limit: Option<Cow<'a, str>>,
    pub(super) cost: Option<u64>,
    pub(super) amount: Option<u64>,
    pub(super) expire_s: Option<u64>,
    pub(super) requests: Option<Vec<Ask<'a>>>,
    has_attributes: bool,
}

/// The fields a call takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields(&'static [&'static str]);

impl Fields {
    pub(super) const CHECK: Fields = Fields(&["domain", "attributes", "cost"]);
    pub(super) const LIMIT: Fields = Fields(&["key", "limit", "cost"]);
    /// A check or a limit.
    pub(super) const EITHER: Fields = Fields(&["domain", "attributes", "key", "limit", "cost"]);
    pub(super) const LOOK: Fields = Fields(&["domain", "attributes", "key", "limit"]);
    pub(super) const REFUND: Fields = Fields(&["domain", "attributes", "key", "limit", "amount"]);
    pub(super) const RESERVE: Fields =
        Fields(&["domain", "attributes", "key", "limit", "amount", "expire_s"]);
    pub(super) const SETTLE: Fields = Fields(&["amount"]);
    pub(super) const BATCH: Fields = Fields(&["requests"]);
}

/// Reads the body of a call.
pub(super) fn read(body: &[u8], fields: Fields) -> Result<Ask<'_>, Problem> {
    let field = Cell::new("");
    let item = Cell::new(None);
    let mut reader = serde_json::Deserializer::from_slice(body);
    let seed = AskSeed { fields, field: &field, item: &item };
    let ask = seed.deserialize(&mut reader).and_then(|ask| reader.end().map(|()| ask));
    ask.map_err(|error| {
        let place = match (item.get(), field.get()) {
            (Some(number), "") => format!("requests[{number}]"),
            (Some(number), name) => format!("requests[{number}].{name}"),
            (None, name) => name.to_owned(),
        };
        match place.is_empty() {
            true => Problem::bad_request(format!("the body: {error}")),
            false => Problem::bad_request(format!("`{place}`: {error}")).about(place),
        }
    })
}

struct AskSeed<'c> {
    fields: Fields,
    /// The field being read, for the error.
    field: &'c Cell<&'static str>,
    /// The request of a batch being read.
    item: &'c Cell<Option<usize>>,
}

impl<'de> DeserializeSeed<'de> for AskSeed<'_> {
    type Value = Ask<'de>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Ask<'de>, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AskSeed<'_> {
    type Value = Ask<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [names @ .., last] = self.fields.0 else { return Ok(()) };
        match names {
            [] => write!(f, "an object with `{last}`"),
            names => write!(f, "an object with `{}` and `{last}`", names.join("`, `")),
        }
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Ask<'de>, M::Error> {
        let mut ask = Ask::default();
        while let Some(Text(name)) = map.next_key()? {
            let Some(known) = self.fields.0.iter().find(|known| **known == name) else {
                return Err(M::Error::unknown_field(&name, self.fields.0));
            };
            self.field.set(known);
            let twice = match *known {
                "domain" => ask.asked.domain.replace(map.next_value::<Text<'_>>()?.0).is_some(),
                "attributes" => {
                    ask.asked.attributes = map.next_value::<Attributes<'_>>()?.0;
                    std::mem::replace(&mut ask.has_attributes, true)
                }
                "key" => ask.key.replace(map.next_value::<Key<'_>>()?.0).is_some(),
                "limit" => ask.limit.replace(map.next_value::<Text<'_>>()?.0).is_some(),
                "cost" => ask
                    .cost
                    .replace(map.next_value_seed(Number { least: 1, most: MOST })?)
                    .is_some(),
                "amount" => {
                    let least = u64::from(self.fields.0.len() > 1);
                    ask.amount.replace(map.next_value_seed(Number { least, most: MOST })?).is_some()
                }
                "expire_s" => {
                    let number = Number { least: 1, most: LONGEST_HOLD_S };
                    ask.expire_s.replace(map.next_value_seed(number)?).is_some()
                }
                "requests" => ask.requests.replace(map.next_value_seed(Requests(&self))?).is_some(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    false
                }
            };
            if twice {
                return Err(M::Error::custom("it is there twice"));
            }
            self.field.set("");
        }
        Ok(ask)
    }
}

/// A text, where it is in the body if it needs no unescaping.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Text<'de>, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        reader.deserialize_str(TextVisitor)
    }
}

/// A key: a text of bounded length.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Key<'de>, D::Error> {
        let Text(key) = Text::deserialize(reader)?;
        match key.len() <= LONGEST_KEY || key.chars().count() <= LONGEST_KEY {
            true => Ok(Key(key)),
            false => Err(D::Error::custom(format!("a key has at most {LONGEST_KEY} characters"))),
        }
    }
}

/// A whole number within bounds.
struct Number {
    least: u64,
    most: u64,
}

impl<'de> DeserializeSeed<'de> for Number {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<u64, D::Error> {
        reader.deserialize_u64(self)
    }
}

impl Visitor<'_> for Number {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {} to {}", self.least, self.most)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        match (self.least..=self.most).contains(&number) {
            true => Ok(number),
            false => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }

    /// Some languages write every number with a point.
    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        match number.fract() == 0.0 && (0.0..=MOST as f64).contains(&number) {
            true => self.visit_u64(number as u64),
            false => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }
}

/// Attributes: texts, numbers, true or false.
struct Attributes<'a>(smallvec::SmallVec<[(Cow<'a, str>, Value<'a>); 8]>);

impl<'de> Deserialize<'de> for Attributes<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Attributes<'de>, D::Error> {
        struct MapVisitor;
        impl<'de> Visitor<'de> for MapVisitor {
            type Value = Attributes<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts, numbers, true or false")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut attributes = smallvec::SmallVec::new();
                while let Some(Text(name)) = map.next_key()? {
                    if attributes.len() == MOST_ATTRIBUTES {
                        let most = format!("there are more than {MOST_ATTRIBUTES} attributes");
                        return Err(M::Error::custom(most));
                    }
                    if attributes.iter().any(|(known, _): &(Cow<'_, str>, _)| *known == name) {
                        return Err(M::Error::custom(format!("{name:?} is there twice")));
                    }
                    let Attribute(value) = map.next_value()?;
                    attributes.push((name, value));
                }
                Ok(Attributes(attributes))
            }
        }
        reader.deserialize_map(MapVisitor)
    }
}

struct Attribute<'a>(Value<'a>);

impl<'de> Deserialize<'de> for Attribute<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Attribute<'de>, D::Error> {
        struct ValueVisitor;
        impl<'de> Visitor<'de> for ValueVisitor {
            type Value = Attribute<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number, true or false")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Attribute(Value::from(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Attribute(Value::from(text.to_owned())))
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
                Ok(Attribute(Value::from(flag)))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Attribute(Value::from(number)))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                let value = i64::try_from(number).map(Value::from);
                Ok(Attribute(value.unwrap_or_else(|_| Value::from(number.to_string()))))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Attribute(Value::from(number.to_string())))
            }
        }
        reader.deserialize_any(ValueVisitor)
    }
}

/// The requests of a batch.
struct Requests<'s, 'c>(&'s AskSeed<'c>);

impl<'de> DeserializeSeed<'de> for Requests<'_, '_> {
    type Value = Vec<Ask<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Requests<'_, '_> {
    type Value = Vec<Ask<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of requests")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Self::Value, S::Error> {
        let mut requests = Vec::new();
        let AskSeed { field, item, .. } = *self.0;
        loop {
            if requests.len() > MOST_REQUESTS {
                field.set("requests");
                item.set(None);
                let most = format!("there are more than {MOST_REQUESTS} requests");
                return Err(S::Error::custom(most));
            }
            item.set(Some(requests.len()));
            field.set("");
            match list.next_element_seed(AskSeed { fields: Fields::EITHER, field, item })? {
                Some(ask) => requests.push(ask),
                None => break,
            }
        }
        item.set(None);
        Ok(requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(body: &str, fields: Fields) -> String {
        read(body.as_bytes(), fields).unwrap_err().to_string()
    }

    #[test]
    fn a_check_is_read_where_it_is() {
        let body = br#"{"domain":"shop","attributes":{"ip":"1.2.3.4","n":7,"vip":true,"x":1.5,"big":18446744073709551615,"e":"a\"b"},"cost":3.0}"#;
        let ask = read(body, Fields::CHECK).unwrap();
        assert_eq!((ask.asked.domain.as_deref(), ask.cost), (Some("shop"), Some(3)));
        let texts: Vec<_> =
            ask.asked.attributes.iter().map(|(_, value)| value.text().into_owned()).collect();
        assert_eq!(texts, ["1.2.3.4", "7", "true", "1.5", "18446744073709551615", "a\"b"]);
        assert!(matches!(ask.asked.attributes[0].1, Value::Text(Cow::Borrowed(_))));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, fields, says) in [
            ("", Fields::CHECK, "the body: EOF"),
            ("[]", Fields::CHECK, "`domain`, `attributes` and `cost`"),
            ("{} x", Fields::CHECK, "trailing characters"),
            (r#"{"cots":1}"#, Fields::CHECK, "unknown field `cots`"),
            (r#"{"key":"a"}"#, Fields::CHECK, "unknown field `key`"),
            (
                r#"{"cost":0}"#,
                Fields::CHECK,
                "`cost`: invalid value: integer `0`, expected a whole",
            ),
            (r#"{"cost":-1}"#, Fields::CHECK, "`cost`: invalid type: integer `-1`"),
            (r#"{"cost":1.5}"#, Fields::CHECK, "`cost`: invalid value: floating"),
            (r#"{"cost":99999999999999999999}"#, Fields::CHECK, "`cost`: "),
            (r#"{"cost":9007199254740992}"#, Fields::CHECK, "to 9007199254740991"),
            (r#"{"cost":1,"cost":2}"#, Fields::CHECK, "`cost`: it is there twice"),
            (
                r#"{"attributes":{"a":1,"a":2}}"#,
                Fields::CHECK,
                r#"`attributes`: "a" is there twice"#,
            ),
            (r#"{"attributes":{"a":null}}"#, Fields::CHECK, "a text, a number, true or false"),
            (r#"{"attributes":{"a":{}}}"#, Fields::CHECK, "`attributes`"),
            (
                r#"{"domain":7}"#,
                Fields::CHECK,
                "`domain`: invalid type: integer `7`, expected a text",
            ),
            (r#"{"requests":[{},{"cost":0}]}"#, Fields::BATCH, "`requests[1].cost`"),
            (r#"{"requests":{}}"#, Fields::BATCH, "`requests`"),
            (r#"{"amount":-3}"#, Fields::SETTLE, "`amount`"),
        ] {
            let said = wrong(body, fields);
            assert!(said.contains(says), "{body}: {said}");
        }
    }

    #[test]
    fn nothing_is_without_a_bound() {
        let attributes: Vec<_> = (0..65).map(|number| format!("\"a{number}\":1")).collect();
        let many = format!("{{\"attributes\":{{{}}}}}", attributes.join(","));
        assert!(wrong(&many, Fields::CHECK).contains("more than 64"));
        let long = format!("{{\"key\":\"{}\"}}", "k".repeat(LONGEST_KEY + 1));
        assert!(wrong(&long, Fields::LIMIT).contains("at most 1024"));
        let many = format!("{{\"requests\":[{}]}}", vec!["{}"; MOST_REQUESTS + 1].join(","));
        assert!(wrong(&many, Fields::BATCH).contains("more than 1000"));
        let deep = format!("{{\"attributes\":{}", "[".repeat(100_000));
        assert!(wrong(&deep, Fields::CHECK).contains("`attributes`"));
    }
}
