//! Single values of a body: texts where they are, numbers within bounds, attributes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use tollgate::rules::Value;

/// Attributes of one request.
const MOST_ATTRIBUTES: usize = 64;
/// What one key may have, in characters.
const LONGEST_KEY: usize = 1024;
/// The largest amount: what numbers of JSON carry exactly in every language.
pub(super) const MOST: u64 = (1 << 53) - 1;

/// A text, where it is in the body if it needs no unescaping.
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

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
pub(super) struct Key<'a>(pub(super) Cow<'a, str>);

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
pub(super) struct Number {
    pub(super) least: u64,
    pub(super) most: u64,
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
pub(super) struct Attributes<'a>(pub(super) smallvec::SmallVec<[(Cow<'a, str>, Value<'a>); 8]>);

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
