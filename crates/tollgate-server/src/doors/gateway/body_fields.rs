//! The body fields of a request, as rules see them and as the deferred queue stores them.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tollgate_rules::Value;
use tollgate_tower::request_head::RequestHead;

/// The names that are unknown if the body could not be read or lacks a field.
const UNKNOWN: &[&str] = &["body"];

/// The body fields that rules use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "StoredBodyFields", from = "StoredBodyFields")]
pub(crate) struct RequestBodyFields {
    pub(super) values: Vec<(String, Value<'static>)>,
    /// Whether the body may have more fields than were found.
    pub(super) is_unknown: bool,
}

/// The stored form of [`RequestBodyFields`].
#[derive(Serialize, Deserialize)]
struct StoredBodyFields {
    values: Vec<(String, Json)>,
    is_unknown: bool,
}

impl RequestBodyFields {
    /// Adds the fields to the head of their request.
    pub(super) fn add_to<'a>(&'a self, request_head: RequestHead<'a>) -> RequestHead<'a> {
        let request_head =
            if self.is_unknown { request_head.unknown(UNKNOWN) } else { request_head };
        let values = self.values.iter();
        values.fold(request_head, |request_head, (name, value)| {
            request_head.attribute(name, value.clone())
        })
    }
}

impl From<RequestBodyFields> for StoredBodyFields {
    fn from(body_fields: RequestBodyFields) -> StoredBodyFields {
        let written = |(name, value): (String, Value<'static>)| {
            let value = match &value {
                Value::Number(number) => Json::from(*number),
                Value::Flag(flag) => Json::from(*flag),
                other => Json::from(other.text()),
            };
            (name, value)
        };
        let values = body_fields.values.into_iter().map(written).collect();
        StoredBodyFields { values, is_unknown: body_fields.is_unknown }
    }
}

impl From<StoredBodyFields> for RequestBodyFields {
    fn from(kept: StoredBodyFields) -> RequestBodyFields {
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
        RequestBodyFields { values, is_unknown: kept.is_unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_fields_read_back() {
        let values = [
            ("body.model".to_owned(), Value::from("large")),
            ("body.max_tokens".to_owned(), Value::from(812)),
            ("body.stream".to_owned(), Value::Flag(true)),
        ];
        let body_fields = RequestBodyFields { values: values.into(), is_unknown: true };
        let text = serde_json::to_string(&body_fields).unwrap();
        assert_eq!(serde_json::from_str::<RequestBodyFields>(&text).unwrap(), body_fields);
    }
}
