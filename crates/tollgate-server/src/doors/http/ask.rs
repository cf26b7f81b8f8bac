//! What callers send: one object in JSON, the same words in every call.
//!
//! Read by hand instead of derived: a wrong field is named, texts stay where they are in the body,
//! and each call says which fields it takes.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::outcome::{self, OutcomeFields};
use super::values::{Attributes, Key, MOST, Number, Text};
use crate::engine::Asked;
use crate::rules_service::problem::Problem;

/// Requests of one batch.
pub(super) const MOST_REQUESTS: usize = 1000;
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
    pub(super) outcome: Option<OutcomeFields>,
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
    pub(super) const SETTLE: Fields = Fields(&["amount", "outcome"]);
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
                    // Only what is spent may be nothing.
                    let least = u64::from(!self.fields.0.contains(&"outcome"));
                    ask.amount.replace(map.next_value_seed(Number { least, most: MOST })?).is_some()
                }
                "outcome" => {
                    let outcome = outcome::flat(&map.next_value()?).map_err(M::Error::custom)?;
                    ask.outcome.replace(outcome).is_some()
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
    use tollgate::rules::Value;

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
        let long = format!("{{\"key\":\"{}\"}}", "k".repeat(1025));
        assert!(wrong(&long, Fields::LIMIT).contains("at most 1024"));
        let many = format!("{{\"requests\":[{}]}}", vec!["{}"; MOST_REQUESTS + 1].join(","));
        assert!(wrong(&many, Fields::BATCH).contains("more than 1000"));
        let deep = format!("{{\"attributes\":{}", "[".repeat(100_000));
        assert!(wrong(&deep, Fields::CHECK).contains("`attributes`"));
    }
}
