//! Whole numbers in JSON, within bounds.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, Unexpected, Visitor};

/// The reader of a whole number from `min` to `max`.
pub(super) struct NumberInRange {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl NumberInRange {
    /// The largest number that JSON numbers represent exactly in every language.
    pub(super) const MAX_EXACT: u64 = (1 << 53) - 1;
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
        match number.fract() == 0.0 && (0.0..=Self::MAX_EXACT as f64).contains(&number) {
            true => self.visit_u64(number as u64),
            false => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }
}
