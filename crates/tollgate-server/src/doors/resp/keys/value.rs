//! The values of keys, and the errors of commands on them.

use std::collections::VecDeque;

use super::super::scripts::lua_number::format_number;

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::doors::resp) enum KeyValue {
    /// A whole number, as `INCRBY` makes it.
    Integer(i64),
    /// A number with a fraction, as scripts store it.
    Number(f64),
    /// A list of times, the latest first.
    Times(VecDeque<f64>),
    /// A hash with the fields `refilledAt` and `tokens`.
    Bucket {
        /// The time of the last refill, by the clock of the client.
        refilled_at: f64,
        /// The tokens that are left.
        tokens: f64,
    },
}

/// The error of a command; its texts are those of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::doors::resp) enum KeyError {
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    #[error("ERR increment or decrement would overflow")]
    Overflow,
    #[error("ERR invalid expire time in '{0}' command")]
    Expiry(&'static str),
    #[error("ERR no such key")]
    NoKey,
}

impl KeyValue {
    /// Returns the text that `GET` returns.
    pub(in crate::doors::resp) fn text(&self) -> Result<String, KeyError> {
        match self {
            KeyValue::Integer(value) => Ok(value.to_string()),
            KeyValue::Number(value) => Ok(format_number(*value, 17)),
            KeyValue::Times(_) | KeyValue::Bucket { .. } => Err(KeyError::WrongType),
        }
    }

    /// Returns the number of a text value.
    pub(in crate::doors::resp) fn number(&self) -> Result<f64, KeyError> {
        match self {
            KeyValue::Integer(value) => Ok(*value as f64),
            KeyValue::Number(value) => Ok(*value),
            KeyValue::Times(_) | KeyValue::Bucket { .. } => Err(KeyError::WrongType),
        }
    }

    /// Returns the approximate memory that the value takes beside its entry.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            KeyValue::Times(times) => times.capacity() * size_of::<f64>(),
            _ => 0,
        }
    }
}
