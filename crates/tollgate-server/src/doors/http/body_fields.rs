//! The fields of a JSON body, which have the same names in every call.
//!
//! They are read by hand instead of a derived `Deserialize`: an error names its field, texts are
//! borrowed from the body, and each call lists the fields it takes.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_target;

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use smallvec::SmallVec;
use tollgate_rules::Value;

use super::outcome::{self, OutcomeFields};
use crate::decisions::RequestAttributes;
use crate::problem::Problem;

/// The maximum number of requests in a batch.
const MAX_BATCH_REQUESTS: usize = 1000;
/// The maximum time that a reservation may stay open, in seconds: a day.
const MAX_RESERVATION_S: u64 = 86_400;
/// The maximum number of attributes of one request.
const MAX_ATTRIBUTES: usize = 64;
/// The maximum number of characters of a key.
const MAX_KEY_CHARS: usize = 1024;
/// The maximum cost or amount: JSON numbers are exact up to here in every language.
const MAX_AMOUNT: u64 = (1 << 53) - 1;

/// The fields of a body.
#[derive(Debug, Default)]
pub(super) struct BodyFields<'a> {
    pub(super) request: RequestAttributes<'a>,
    pub(super) key: Option<Cow<'a, str>>,
    pub(super) limit: Option<Cow<'a, str>>,
    pub(super) cost: Option<u64>,
    pub(super) amount: Option<u64>,
    pub(super) expire_s: Option<u64>,
    pub(super) outcome: Option<OutcomeFields>,
    pub(super) requests: Option<Vec<BodyFields<'a>>>,
    has_attributes: bool,
}

/// The names of the fields that a call takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldNames(&'static [&'static str]);

impl FieldNames {
    pub(super) const CHECK: FieldNames = FieldNames(&["domain", "attributes", "cost"]);
    pub(super) const LIMIT: FieldNames = FieldNames(&["key", "limit", "cost"]);
    /// A check by rules or by an inline limit.
    pub(super) const CHECK_OR_LIMIT: FieldNames =
        FieldNames(&["domain", "attributes", "key", "limit", "cost"]);
    pub(super) const PEEK: FieldNames = FieldNames(&["domain", "attributes", "key", "limit"]);
    pub(super) const REFUND: FieldNames =
        FieldNames(&["domain", "attributes", "key", "limit", "amount"]);
    pub(super) const RESERVE: FieldNames =
        FieldNames(&["domain", "attributes", "key", "limit", "amount", "expire_s"]);
    pub(super) const SETTLE: FieldNames = FieldNames(&["amount", "outcome"]);
    pub(super) const BATCH: FieldNames = FieldNames(&["requests"]);
}

/// Reads the fields of a body.
pub(super) fn read(body: &[u8], fields: FieldNames) -> Result<BodyFields<'_>, Problem> {
    let field = Cell::new("");
    let item = Cell::new(None);
    let mut reader = serde_json::Deserializer::from_slice(body);
    let seed = BodySeed { takes: fields, field: &field, item: &item };
    let read = seed.deserialize(&mut reader).and_then(|read| reader.end().map(|()| read));
    read.map_err(|error| {
        let path = match (item.get(), field.get()) {
            (Some(number), "") => format!("requests[{number}]"),
            (Some(number), name) => format!("requests[{number}].{name}"),
            (None, name) => name.to_owned(),
        };
        match path.is_empty() {
            true => Problem::bad_request(format!("the body: {error}")),
            false => Problem::bad_request(format!("`{path}`: {error}")).about(path),
        }
    })
}

/// The reader of one body, or of one request of a batch.
struct BodySeed<'c> {
    takes: FieldNames,
    /// The field that is being read, for errors.
    field: &'c Cell<&'static str>,
    /// The index of the batch request that is being read, for errors.
    item: &'c Cell<Option<usize>>,
}

impl<'de> DeserializeSeed<'de> for BodySeed<'_> {
    type Value = BodyFields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<BodyFields<'de>, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for BodySeed<'_> {
    type Value = BodyFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [names @ .., last] = self.takes.0 else { return Ok(()) };
        match names {
            [] => write!(f, "an object with `{last}`"),
            names => write!(f, "an object with `{}` and `{last}`", names.join("`, `")),
        }
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<BodyFields<'de>, M::Error> {
        let mut fields = BodyFields::default();
        while let Some(JsonText(name)) = map.next_key()? {
            let Some(known) = self.takes.0.iter().find(|known| **known == name) else {
                return Err(M::Error::unknown_field(&name, self.takes.0));
            };
            self.field.set(known);
            let twice = match *known {
                "domain" => {
                    fields.request.domain.replace(map.next_value::<JsonText<'_>>()?.0).is_some()
                }
                "attributes" => {
                    fields.request.attributes = map.next_value::<AttributeMap<'_>>()?.0;
                    std::mem::replace(&mut fields.has_attributes, true)
                }
                "key" => fields.key.replace(map.next_value::<BoundedKey<'_>>()?.0).is_some(),
                "limit" => fields.limit.replace(map.next_value::<JsonText<'_>>()?.0).is_some(),
                "cost" => {
                    let number = NumberInRange { min: 1, max: MAX_AMOUNT };
                    fields.cost.replace(map.next_value_seed(number)?).is_some()
                }
                "amount" => {
                    // A settlement may spend nothing; every other amount is at least 1.
                    let min = u64::from(!self.takes.0.contains(&"outcome"));
                    let number = NumberInRange { min, max: MAX_AMOUNT };
                    fields.amount.replace(map.next_value_seed(number)?).is_some()
                }
                "outcome" => {
                    let outcome = outcome::flatten(&map.next_value()?).map_err(M::Error::custom)?;
                    fields.outcome.replace(outcome).is_some()
                }
                "expire_s" => {
                    let number = NumberInRange { min: 1, max: MAX_RESERVATION_S };
                    fields.expire_s.replace(map.next_value_seed(number)?).is_some()
                }
                "requests" => {
                    fields.requests.replace(map.next_value_seed(BatchSeed(&self))?).is_some()
                }
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
        Ok(fields)
    }
}

/// The reader of the requests of a batch.
struct BatchSeed<'s, 'c>(&'s BodySeed<'c>);

impl<'de> DeserializeSeed<'de> for BatchSeed<'_, '_> {
    type Value = Vec<BodyFields<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for BatchSeed<'_, '_> {
    type Value = Vec<BodyFields<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of requests")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Self::Value, S::Error> {
        let mut requests = Vec::new();
        let BodySeed { field, item, .. } = *self.0;
        loop {
            if requests.len() > MAX_BATCH_REQUESTS {
                field.set("requests");
                item.set(None);
                let error = format!("there are more than {MAX_BATCH_REQUESTS} requests");
                return Err(S::Error::custom(error));
            }
            item.set(Some(requests.len()));
            field.set("");
            match list.next_element_seed(BodySeed {
                takes: FieldNames::CHECK_OR_LIMIT,
                field,
                item,
            })? {
                Some(request) => requests.push(request),
                None => break,
            }
        }
        item.set(None);
        Ok(requests)
    }
}

/// A string, borrowed from the body unless it contains escapes.
struct JsonText<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for JsonText<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<JsonText<'de>, D::Error> {
        struct JsonTextVisitor;
        impl<'de> Visitor<'de> for JsonTextVisitor {
            type Value = JsonText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<JsonText<'de>, E> {
                Ok(JsonText(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<JsonText<'de>, E> {
                Ok(JsonText(Cow::Owned(text.to_owned())))
            }
        }
        reader.deserialize_str(JsonTextVisitor)
    }
}

/// A key: a string of bounded length.
struct BoundedKey<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for BoundedKey<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<BoundedKey<'de>, D::Error> {
        let JsonText(key) = JsonText::deserialize(reader)?;
        match key.len() <= MAX_KEY_CHARS || key.chars().count() <= MAX_KEY_CHARS {
            true => Ok(BoundedKey(key)),
            false => Err(D::Error::custom(format!("a key has at most {MAX_KEY_CHARS} characters"))),
        }
    }
}

/// The reader of a whole number from `min` to `max`.
struct NumberInRange {
    min: u64,
    max: u64,
}

impl<'de> DeserializeSeed<'de> for NumberInRange {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<u64, D::Error> {
        reader.deserialize_u64(self)
    }
}

impl Visitor<'_> for NumberInRange {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {} to {}", self.min, self.max)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        match (self.min..=self.max).contains(&number) {
            true => Ok(number),
            false => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }

    /// Accepts whole numbers with a decimal point, which some languages write.
    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        match number.fract() == 0.0 && (0.0..=MAX_AMOUNT as f64).contains(&number) {
            true => self.visit_u64(number as u64),
            false => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }
}

/// The attributes of a request: strings, numbers and booleans.
struct AttributeMap<'a>(SmallVec<[(Cow<'a, str>, Value<'a>); 8]>);

impl<'de> Deserialize<'de> for AttributeMap<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<AttributeMap<'de>, D::Error> {
        struct AttributeMapVisitor;
        impl<'de> Visitor<'de> for AttributeMapVisitor {
            type Value = AttributeMap<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts, numbers, true or false")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut attributes = SmallVec::new();
                while let Some(JsonText(name)) = map.next_key()? {
                    if attributes.len() == MAX_ATTRIBUTES {
                        let error = format!("there are more than {MAX_ATTRIBUTES} attributes");
                        return Err(M::Error::custom(error));
                    }
                    if attributes.iter().any(|(earlier, _): &(Cow<'_, str>, _)| *earlier == name) {
                        return Err(M::Error::custom(format!("{name:?} is there twice")));
                    }
                    let AttributeValue(value) = map.next_value()?;
                    attributes.push((name, value));
                }
                Ok(AttributeMap(attributes))
            }
        }
        reader.deserialize_map(AttributeMapVisitor)
    }
}

/// The value of one attribute.
struct AttributeValue<'a>(Value<'a>);

impl<'de> Deserialize<'de> for AttributeValue<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<AttributeValue<'de>, D::Error> {
        struct AttributeValueVisitor;
        impl<'de> Visitor<'de> for AttributeValueVisitor {
            type Value = AttributeValue<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number, true or false")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(AttributeValue(Value::from(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(AttributeValue(Value::from(text.to_owned())))
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
                Ok(AttributeValue(Value::from(flag)))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(AttributeValue(Value::from(number)))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                let value = i64::try_from(number).map(Value::from);
                Ok(AttributeValue(value.unwrap_or_else(|_| Value::from(number.to_string()))))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                Ok(AttributeValue(Value::from(number.to_string())))
            }
        }
        reader.deserialize_any(AttributeValueVisitor)
    }
}

#[cfg(test)]
mod tests;
