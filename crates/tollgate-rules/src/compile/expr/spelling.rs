//! The text of a value without allocation: numbers and addresses are formatted on the stack.

use std::fmt::{self, Write};
use std::ops::Deref;

use crate::Value;

/// The maximum length: an IPv6 address that ends in an IPv4 one, in full.
const MAX_LENGTH: usize = 46;

/// The text of a value, as [`Value::text`] returns it, borrowed or on the stack.
pub(crate) enum Spelling<'v> {
    Text(&'v str),
    Short(StackText),
}

/// A short text on the stack.
pub(crate) struct StackText {
    bytes: [u8; MAX_LENGTH],
    length: usize,
}

impl<'v> Spelling<'v> {
    pub(crate) fn from_value(value: &'v Value<'_>) -> Spelling<'v> {
        match value {
            Value::Text(text) => Spelling::Text(text),
            Value::Flag(true) => Spelling::Text("true"),
            Value::Flag(false) => Spelling::Text("false"),
            Value::Number(number) => Spelling::short(number),
            Value::Ip(address) => Spelling::short(address),
        }
    }

    fn short(value: &impl fmt::Display) -> Spelling<'v> {
        let mut short = StackText { bytes: [0; MAX_LENGTH], length: 0 };
        // Both fit. A value that did not would match nothing rather than something else.
        match write!(short, "{value}") {
            Ok(()) => Spelling::Short(short),
            Err(fmt::Error) => Spelling::Text(""),
        }
    }
}

impl Write for StackText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let target = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        target.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

impl Deref for Spelling<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Spelling::Text(text) => text,
            Spelling::Short(short) => {
                std::str::from_utf8(&short.bytes[..short.length]).unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_spelled_as_its_text() {
        let long = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        let address = |text: &str| Value::Ip(text.parse().unwrap());
        for value in [
            Value::from("text"),
            Value::from(i64::MIN),
            Value::from(true),
            Value::from(false),
            address("203.0.113.7"),
            address(long),
            address("::ffff:203.0.113.255"),
        ] {
            assert_eq!(&*Spelling::from_value(&value), &*value.text());
        }
    }
}
