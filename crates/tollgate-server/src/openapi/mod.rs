//! The OpenAPI description of all HTTP APIs, written by hand and verified by tests.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::Value;
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
    merged
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
