//! Recorded traces of other rate limiters, as data: `spec/vectors/*.json`.
//!
//! A trace is a configuration and steps; each step is a call at a time, with the result in that
//! system. Tests map the calls onto tollgate's own and compare.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "shared by several test files, none reads every field"
)]

use serde_json::Value;
use tollgate_core::{Span, Time};

/// A recorded trace.
pub struct Vector {
    pub id: String,
    pub config: Value,
    pub steps: Vec<Step>,
    /// Whether the trace shows a defect, in which tollgate must do better.
    pub known_upstream_bug: bool,
    pub time_unit: String,
    /// The tolerance of the comparison; `null` unless given.
    pub tolerance: Value,
}

/// One call and its result.
pub struct Step {
    /// The time in nanoseconds; a trace without times counts its steps.
    pub at: u64,
    pub op: String,
    pub args: Value,
    pub expect: Value,
}

impl Step {
    /// Returns the time of the call.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.at)
    }
}

/// Loads all traces of `file` in `spec/vectors`.
pub fn load(file: &str) -> Vec<Vector> {
    let path = format!("{}/../../spec/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let vectors: Vec<Value> = serde_json::from_str(&text).expect("an array of traces");
    assert!(!vectors.is_empty(), "{path} holds no traces");
    vectors.iter().map(vector).collect()
}

fn vector(raw: &Value) -> Vector {
    let time_unit = text(raw, "time_unit");
    let unit = match time_unit.as_str() {
        "ns" | "step" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        other => panic!("unknown time unit {other}"),
    };
    let step = |raw: &Value| Step {
        at: int(raw, "at") * unit,
        op: text(raw, "op"),
        args: raw["args"].clone(),
        expect: raw["expect"].clone(),
    };
    Vector {
        id: text(raw, "id"),
        config: raw["config"].clone(),
        steps: raw["steps"].as_array().expect("steps").iter().map(step).collect(),
        known_upstream_bug: raw["known_upstream_bug"].as_bool().unwrap_or(false),
        time_unit,
        tolerance: raw["tolerance"].clone(),
    }
}

/// Returns the whole number at `key`.
pub fn int(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no whole number at {key} in {value}"))
}

/// Returns the text at `key`.
pub fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_else(|| panic!("no text at {key} in {value}")).to_owned()
}

/// Returns the boolean at `key`.
pub fn flag(value: &Value, key: &str) -> bool {
    value[key].as_bool().unwrap_or_else(|| panic!("no boolean at {key} in {value}"))
}

/// Returns the whole number at `key`, which may be negative.
pub fn signed(value: &Value, key: &str) -> i64 {
    value[key].as_i64().unwrap_or_else(|| panic!("no whole number at {key} in {value}"))
}

/// Returns the nanoseconds at `key`, as a span.
pub fn nanos(value: &Value, key: &str) -> Span {
    Span::from_nanos(int(value, key))
}
