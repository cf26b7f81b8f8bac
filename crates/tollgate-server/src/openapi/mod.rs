//! The description of every call, as OpenAPI: written by hand, kept true by tests.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::Value;

/// Its parts: each describes some calls, and they share their schemas.
const PARTS: [&str; 2] = [include_str!("decisions.yaml"), include_str!("admin.yaml")];

/// The description, in JSON.
pub(crate) fn document() -> Bytes {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| whole().to_string().into());
    DOCUMENT.clone()
}

/// All parts as one.
pub(crate) fn whole() -> Value {
    let mut whole = Value::Null;
    for part in PARTS {
        let part = serde_saphyr::from_str(part).expect("what is compiled in is tested");
        merge(&mut whole, part);
    }
    whole
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
