//! The OpenAPI description of all HTTP APIs, written by hand and verified by tests.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_rules::Source;
use tollgate_rules::yaml::YamlFile;

/// The source files of the description; they share their schemas.
const SOURCES: [&str; 2] = [include_str!("decisions.yaml"), include_str!("admin.yaml")];

/// Returns the description as JSON.
pub(crate) fn document() -> Bytes {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| merged().to_string().into());
    DOCUMENT.clone()
}

/// Returns the source files merged into one description.
pub(crate) fn merged() -> Value {
    let mut merged = Value::Null;
    for source in SOURCES {
        let source = Source::new("openapi", source);
        let file = YamlFile::read(&source).expect("the tests parse every source");
        let part = serde_json::to_value(&file.documents()[0]).expect("every node has a JSON form");
        merge(&mut merged, part);
    }
    add_common_responses(&mut merged);
    merged
}

/// Adds the responses that every call may have: those of the browser guard and of roles.
fn add_common_responses(document: &mut Value) {
    let problem = || json!({ "$ref": "#/components/responses/Problem" });
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    for (_, calls) in paths.filter(|(path, _)| *path != "/v1/auth") {
        for (method, call) in calls.as_object_mut().into_iter().flatten() {
            let responses = call.get_mut("responses").and_then(Value::as_object_mut);
            let Some(responses) = responses else { continue };
            responses.entry("403").or_insert_with(problem);
            if method == "post" {
                responses.entry("415").or_insert_with(problem);
            }
        }
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
