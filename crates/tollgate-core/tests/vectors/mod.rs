//! Executed traces of the systems users come from, as data: `spec/vectors/*.json`.
//!
//! A trace is a configuration and steps; each step is a call at a time, and what that system
//! answered. Tests map the calls onto tollgate's own and compare.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "shared by several test files, none reads every field"
)]

use serde_json::Value;
use tollgate_core::{Span, Time};

/// One trace.
pub struct Vector {
    pub id: String,
    pub config: Value,
    pub steps: Vec<Step>,
    /// Shows a defect: tollgate must answer better there, not the same.
    pub known_upstream_bug: bool,
    pub time_unit: String,
    /// `null` unless given.
    pub tolerance: Value,
}

/// One call and its answer.
pub struct Step {
    /// Nanoseconds; a trace without times counts its steps.
    pub at: u64,
    pub op: String,
    pub args: Value,
    pub expect: Value,
}

impl Step {
    /// The clock before the call.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.at)
    }
}

/// All traces of `file` in `spec/vectors`.
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

/// The whole number at `key`; a trace without it is broken.
pub fn int(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no whole number at {key} in {value}"))
}

/// The text at `key`; a trace without it is broken.
pub fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_else(|| panic!("no text at {key} in {value}")).to_owned()
}

/// The boolean at `key`; a trace without it is broken.
pub fn flag(value: &Value, key: &str) -> bool {
    value[key].as_bool().unwrap_or_else(|| panic!("no boolean at {key} in {value}"))
}

/// The whole number at `key`, which may be negative; a trace without it is broken.
pub fn signed(value: &Value, key: &str) -> i64 {
    value[key].as_i64().unwrap_or_else(|| panic!("no whole number at {key} in {value}"))
}

/// The nanoseconds at `key`, as a span.
pub fn nanos(value: &Value, key: &str) -> Span {
    Span::from_nanos(int(value, key))
}
