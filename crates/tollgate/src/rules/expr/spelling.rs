//! A value's text without the heap: numbers and addresses are spelled on the stack.

use std::fmt::{self, Write};
use std::ops::Deref;

use super::super::Value;

/// The longest: an IPv6 address that ends in an IPv4 one, in full.
const LONGEST: usize = 46;

/// What [`Value::text`] says, borrowed or on the stack.
pub(crate) enum Spelling<'v> {
    Text(&'v str),
    Short(Short),
}

/// A short text on the stack.
pub(crate) struct Short {
    bytes: [u8; LONGEST],
    length: usize,
}

impl<'v> Spelling<'v> {
    pub(crate) fn of(value: &'v Value<'_>) -> Spelling<'v> {
        match value {
            Value::Text(text) => Spelling::Text(text),
            Value::Flag(true) => Spelling::Text("true"),
            Value::Flag(false) => Spelling::Text("false"),
            Value::Number(number) => Spelling::short(number),
            Value::Ip(address) => Spelling::short(address),
        }
    }

    fn short(value: &impl fmt::Display) -> Spelling<'v> {
        let mut short = Short { bytes: [0; LONGEST], length: 0 };
        // Both fit: were one not to, it would match nothing rather than something else.
        match write!(short, "{value}") {
            Ok(()) => Spelling::Short(short),
            Err(fmt::Error) => Spelling::Text(""),
        }
    }
}

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let room = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
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
            assert_eq!(&*Spelling::of(&value), &*value.text());
        }
    }
}
