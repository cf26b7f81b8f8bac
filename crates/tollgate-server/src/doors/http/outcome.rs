//! The outcome of a request in a settlement: a JSON object that becomes attributes for rules.

use serde_json::Value as Json;
use tollgate_rules::Value;

/// The maximum number of fields of an outcome.
const MAX_OUTCOME_FIELDS: usize = 1024;
/// The depth below which nested objects are ignored.
const MAX_OUTCOME_DEPTH: usize = 15;

/// The attributes of an outcome by name: `response.status`, `response.header.x-tokens`,
/// `response.body.usage.total_tokens`.
pub(crate) type OutcomeFields = Vec<(String, Value<'static>)>;

/// Flattens an outcome into attributes; lists and null are left out.
pub(super) fn flatten(outcome: &Json) -> Result<OutcomeFields, String> {
    let is_object = |json: &Json| json.as_object().is_some_and(|fields| !fields.is_empty());
    let response = outcome.get("response").filter(|response| is_object(response));
    let only = outcome.as_object().is_some_and(|fields| fields.len() == 1);
    let Some(response) = response.filter(|_| only) else {
        return Err("expected an object such as { \"response\": { \"status\": 200 } }".into());
    };
    let mut fields = OutcomeFields::new();
    add(response, "response", &mut fields, 0)?;
    Ok(fields)
}

fn add(json: &Json, name: &str, into: &mut OutcomeFields, depth: usize) -> Result<(), String> {
    let value = match json {
        Json::Object(fields) if depth < MAX_OUTCOME_DEPTH => {
            for (key, below) in fields {
                // Header names are case-insensitive.
                let name = match name == "response.header" {
                    true => format!("{name}.{}", key.to_ascii_lowercase()),
                    false => format!("{name}.{key}"),
                };
                add(below, &name, into, depth + 1)?;
            }
            return Ok(());
        }
        Json::Object(_) | Json::Array(_) | Json::Null => return Ok(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::String(text) => Value::from(text.clone()),
        Json::Number(number) => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0);
            let whole = whole.filter(|float| float.abs() < (1_u64 << 53) as f64);
            let whole = number.as_i64().or(whole.map(|float| float as i64));
            whole.map_or_else(|| Value::from(number.to_string()), Value::from)
        }
    };
    if into.len() == MAX_OUTCOME_FIELDS {
        return Err(format!("there are more than {MAX_OUTCOME_FIELDS} fields"));
    }
    into.push((name.to_owned(), value));
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn attributes_have_the_names_that_rules_use() {
        let outcome = json!({ "response": {
            "status": 200,
            "header": { "X-Tokens": "12" },
            "body": { "usage": { "total_tokens": 17.0 }, "choices": [1], "error": null },
        }});
        let mut fields = flatten(&outcome).unwrap();
        fields.sort_by(|one, other| one.0.cmp(&other.0));
        let expected = [
            ("response.body.usage.total_tokens", Value::from(17)),
            ("response.header.x-tokens", Value::from("12")),
            ("response.status", Value::from(200)),
        ];
        assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn an_invalid_outcome_is_an_error() {
        let many: serde_json::Map<_, _> =
            (0..2_000).map(|number| (number.to_string(), json!(1))).collect();
        for invalid in [
            json!({}),
            json!([]),
            json!({ "status": 200 }),
            json!({ "response": {} }),
            json!({ "response": { "status": 200 }, "cost": 1 }),
            json!({ "response": { "body": many } }),
        ] {
            assert!(flatten(&invalid).is_err(), "{invalid}");
        }
    }
}
