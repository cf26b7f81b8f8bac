//! The values of attributes.

use std::borrow::Cow;
use std::net::IpAddr;

/// The value of an attribute.
///
/// A counter's key is made of the value's text, so `42` and `"42"` are one client, however a door
/// passed the value on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// A whole number.
    Number(i64),
    /// True or false.
    Flag(bool),
    /// An address.
    Ip(IpAddr),
}

impl<'a> Value<'a> {
    /// Returns the text, which keys and patterns use.
    ///
    /// ```
    /// use tollgate_rules::Value;
    /// assert_eq!(Value::from(42).text(), "42");
    /// ```
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Value::Text(text) => Cow::Borrowed(text),
            Value::Number(number) => Cow::Owned(number.to_string()),
            Value::Flag(true) => Cow::Borrowed("true"),
            Value::Flag(false) => Cow::Borrowed("false"),
            Value::Ip(address) => Cow::Owned(address.to_string()),
        }
    }

    /// Converts to a value that borrows nothing.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Number(number) => Value::Number(number),
            Value::Flag(flag) => Value::Flag(flag),
            Value::Ip(address) => Value::Ip(address),
        }
    }

    /// Returns the number that it is or spells.
    pub fn number(&self) -> Option<i64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// Returns the address that it is or spells.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Value::Ip(address) => Some(*address),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Value<'a> {
        Value::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Value<'a> {
        Value::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(Cow::Owned(text))
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Number(number)
    }
}

impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Value::Flag(flag)
    }
}

impl From<IpAddr> for Value<'_> {
    fn from(address: IpAddr) -> Self {
        Value::Ip(address)
    }
}
