//! One line of a trace.
//!
//! Each field is read as raw text first, so that an error can point at its characters.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::fault::Fault;

/// One operation on a key at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceEvent {
    pub(super) at_us: u64,
    pub(super) key: String,
    pub(super) cost: u64,
    pub(super) op: TraceOperation,
    pub(super) max_wait_us: u64,
}

/// An operation of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceOperation {
    Check,
    Peek,
    Reserve,
    Refund,
    Settle,
    Reset,
}

const OPS: [(&str, TraceOperation); 6] = [
    ("check", TraceOperation::Check),
    ("peek", TraceOperation::Peek),
    ("reserve", TraceOperation::Reserve),
    ("refund", TraceOperation::Refund),
    ("settle", TraceOperation::Settle),
    ("reset", TraceOperation::Reset),
];
const FIELDS: [&str; 5] = ["at_us", "key", "cost", "op", "max_wait_us"];

/// The last microsecond that fits the clock, in the year 2554.
const LAST_US: u64 = u64::MAX / 1_000;

impl TraceOperation {
    pub(super) fn as_str(self) -> &'static str {
        OPS[self as usize].0
    }

    /// Returns whether it can be denied; the other operations always happen.
    pub(super) fn can_be_denied(self) -> bool {
        matches!(self, TraceOperation::Check | TraceOperation::Reserve)
    }
}

impl TraceEvent {
    /// Parses a line.
    pub(super) fn parse(line: &str) -> Result<TraceEvent, Fault> {
        let fields: RawFields<'_> =
            serde_json::from_str(line).map_err(|error| not_json(line, &error))?;
        let mut event = TraceEvent {
            at_us: 0,
            key: String::new(),
            cost: 1,
            op: TraceOperation::Check,
            max_wait_us: 0,
        };
        let mut seen = [false; FIELDS.len()];
        for (name, value) in fields.0 {
            let name_text = text(name).unwrap_or_default();
            let (name, value) = (FieldText::new(line, name), FieldText::new(line, value));
            let Some(index) = FIELDS.iter().position(|field| *field == name_text) else {
                let message = format!("unknown field \"{name_text}\": expected {}", list(&FIELDS));
                return Err(name.fault(message).suggest(&name_text, &FIELDS));
            };
            if std::mem::replace(&mut seen[index], true) {
                return Err(name.fault(format!("\"{name_text}\" is given twice: keep one")));
            }
            // A null field counts as missing.
            if value.raw.get() == "null" && index > 0 {
                continue;
            }
            match FIELDS[index] {
                "at_us" => event.at_us = value.number("at_us", LAST_US)?,
                "key" => event.key = value.text("key", "text")?.into_owned(),
                "cost" => event.cost = value.number("cost", u64::MAX)?,
                "op" => event.op = value.op()?,
                _ => event.max_wait_us = value.number("max_wait_us", u64::MAX)?,
            }
        }
        match seen[0] {
            true => Ok(event),
            false => {
                let message = "at_us is missing: expected the time in microseconds, as in \
                               {\"at_us\": 0, \"key\": \"a\"}";
                Err(Fault::new(line.trim_end().len().saturating_sub(1), 1, message))
            }
        }
    }
}

fn not_json(line: &str, error: &serde_json::Error) -> Fault {
    let whole = error.to_string();
    let message = whole.split(" at line ").next().unwrap_or(&whole);
    // The column counts bytes from 1, and is 0 for an error of the whole line.
    let mut at = error.column().saturating_sub(1).min(line.len());
    while !line.is_char_boundary(at) {
        at -= 1;
    }
    let hint = "expected one JSON object a line, such as {\"at_us\": 0, \"key\": \"a\"}";
    Fault::new(at, 1, format!("{message}: {hint}"))
}

fn list(words: &[&str]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str(raw.get())
        .ok()
        .or_else(|| serde_json::from_str::<String>(raw.get()).ok().map(Cow::Owned))
}

/// A value and its offset in the line.
struct FieldText<'a> {
    raw: &'a RawValue,
    at: usize,
}

impl<'a> FieldText<'a> {
    fn new(line: &str, raw: &'a RawValue) -> FieldText<'a> {
        // The value borrows from the line, so its address gives its offset.
        FieldText { raw, at: raw.get().as_ptr().addr().saturating_sub(line.as_ptr().addr()) }
    }

    fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::new(self.at, self.raw.get().len(), message)
    }

    fn wrong(&self, field: &str, expected: &str) -> Fault {
        let value = self.raw.get();
        let shown = if value.chars().count() > 40 { "this" } else { value };
        self.fault(format!("{field} is {shown}: expected {expected}"))
    }

    fn number(&self, field: &str, most: u64) -> Result<u64, Fault> {
        match serde_json::from_str(self.raw.get()) {
            Ok(number) if number <= most => Ok(number),
            _ => Err(self.wrong(field, &format!("a whole number from 0 to {most}"))),
        }
    }

    fn text(&self, field: &str, expected: &str) -> Result<Cow<'a, str>, Fault> {
        text(self.raw).ok_or_else(|| self.wrong(field, expected))
    }

    fn op(&self) -> Result<TraceOperation, Fault> {
        let names = OPS.map(|(name, _)| name);
        let expected = list(&names);
        let typed = self.text("op", &expected)?;
        match OPS.iter().find(|(name, _)| *name == typed) {
            Some((_, op)) => Ok(*op),
            None => {
                let fault = self.fault(format!("unknown op {:?}: expected {expected}", &*typed));
                Err(fault.suggest(&typed, &names))
            }
        }
    }
}

/// The names and values of an object as raw text.
struct RawFields<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for RawFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = RawFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawFields<'de>, A::Error> {
                let mut fields = Vec::with_capacity(FIELDS.len());
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(RawFields(fields))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &str) -> (usize, String) {
        let fault = TraceEvent::parse(line).expect_err(line);
        (fault.at, fault.message)
    }

    #[test]
    fn only_the_time_is_required() {
        let event = TraceEvent::parse(r#"{"at_us": 7}"#).unwrap();
        let plain = TraceEvent {
            at_us: 7,
            key: "".into(),
            cost: 1,
            op: TraceOperation::Check,
            max_wait_us: 0,
        };
        assert_eq!(event, plain);
        let line = r#" {"op":"reserve","max_wait_us":5,"cost":0,"key":"\u00e9\n","at_us":1}  "#;
        let event = TraceEvent::parse(line).unwrap();
        assert_eq!((event.op, event.max_wait_us, event.cost), (TraceOperation::Reserve, 5, 0));
        assert_eq!(event.key, "é\n");
    }

    #[test]
    fn the_table_of_ops_is_in_order() {
        assert!(OPS.iter().enumerate().all(|(index, (_, op))| *op as usize == index));
    }

    #[test]
    fn an_error_points_at_its_characters() {
        let (at, message) = fault(r#"{"at_us": 0, "op": "chek"}"#);
        assert_eq!(at, 19);
        assert!(message.starts_with("unknown op \"chek\": expected check, peek"), "{message}");
        assert_eq!(fault(r#"{"at_us": 0, "cots": 1}"#).0, 13);
        assert_eq!(fault(r#"{"at_us": 0, "cost": -1}"#).0, 21);
        assert_eq!(fault(r#"{"at_us": 1.5}"#).0, 10);
        assert_eq!(fault(r#"{"at_us": 1, "at_us": 2}"#).0, 13);
        assert_eq!(fault(r#"{"at_us": 99999999999999999}"#).0, 10);
        assert_eq!(fault(r#"{"key": "a"}"#).0, 11);
        assert_eq!(fault(r#"{"at_us": 0, "key": 5}"#).1, "key is 5: expected text");
        for line in ["", "{", "[]", "5", "{\"at_us\": 0} x", "{\"at_us\": }", "nul", "{\"é"] {
            assert!(fault(line).1.contains("expected one JSON object a line"), "{line}");
        }
    }
}
