//! What the body of a request says, as rules see it and as it is kept for later.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tollgate::rules::Value;
use tollgate_tower::arrival::Arrival;

/// What is unknown of a request whose body could not be read, or lacks a field.
const UNKNOWN: &[&str] = &["body"];

/// The fields that rules name, as far as the body has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "Kept", from = "Kept")]
pub(crate) struct Said {
    pub(super) values: Vec<(String, Value<'static>)>,
    /// Whether it may say more than was found.
    pub(super) is_unknown: bool,
}

/// The same as it is written.
#[derive(Serialize, Deserialize)]
struct Kept {
    values: Vec<(String, Json)>,
    is_unknown: bool,
}

impl Said {
    /// The request whose body it is of.
    pub(super) fn of<'a>(&'a self, arrival: Arrival<'a>) -> Arrival<'a> {
        let arrival = if self.is_unknown { arrival.unknown(UNKNOWN) } else { arrival };
        let values = self.values.iter();
        values.fold(arrival, |arrival, (name, value)| arrival.attribute(name, value.clone()))
    }
}

impl From<Said> for Kept {
    fn from(said: Said) -> Kept {
        let written = |(name, value): (String, Value<'static>)| {
            let value = match &value {
                Value::Number(number) => Json::from(*number),
                Value::Flag(flag) => Json::from(*flag),
                other => Json::from(other.text()),
            };
            (name, value)
        };
        let values = said.values.into_iter().map(written).collect();
        Kept { values, is_unknown: said.is_unknown }
    }
}

impl From<Kept> for Said {
    fn from(kept: Kept) -> Said {
        let read = |(name, value): (String, Json)| {
            let value = match value {
                Json::Number(number) => Value::Number(number.as_i64()?),
                Json::Bool(flag) => Value::Flag(flag),
                Json::String(text) => Value::Text(text.into()),
                _ => return None,
            };
            Some((name, value))
        };
        let values = kept.values.into_iter().filter_map(read).collect();
        Said { values, is_unknown: kept.is_unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_reads_back() {
        let values = [
            ("body.model".to_owned(), Value::from("large")),
            ("body.max_tokens".to_owned(), Value::from(812)),
            ("body.stream".to_owned(), Value::Flag(true)),
        ];
        let said = Said { values: values.into(), is_unknown: true };
        let text = serde_json::to_string(&said).unwrap();
        assert_eq!(serde_json::from_str::<Said>(&text).unwrap(), said);
    }
}
