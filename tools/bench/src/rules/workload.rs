//! The rules and the requests, equal for both limiters.

use std::sync::Arc;

use crate::workload::{Sequences, THREADS};

/// A limit above any run.
pub(super) const PER_MINUTE: u64 = 1_000_000_000;

/// The number of different requests.
const SAMPLES: usize = 4_096;

/// How a rule matches.
pub(super) enum RuleKind {
    Route,
    Exact,
    Pattern,
}

pub(super) fn rule_kind(rule: usize) -> RuleKind {
    match rule % 3 {
        0 => RuleKind::Route,
        1 => RuleKind::Exact,
        _ => RuleKind::Pattern,
    }
}

/// The attributes of a request.
pub(super) struct RequestSample {
    pub(super) path: String,
    pub(super) org: String,
    pub(super) user: String,
}

/// Returns requests that match one rule of each kind, or none.
pub(super) fn samples(rules: usize, matching: bool) -> Vec<RequestSample> {
    let no = if matching { "" } else { "x" };
    let of_kind = |kind: usize, index: usize| {
        let many = (rules - kind).div_ceil(3);
        // A step without a common factor with the sizes visits all rules in a scattered order.
        index * 7_919 % many * 3 + kind
    };
    let sample = |index: usize| RequestSample {
        path: format!("/api/{no}r{}/{index}", of_kind(0, index)),
        org: format!("{no}t{}", of_kind(1, index)),
        user: format!("{no}svc{}-{index}", of_kind(2, index)),
    };
    (0..SAMPLES).map(sample).collect()
}

/// Returns the indexes of the requests to send.
pub(super) fn sequences(decisions: usize) -> Sequences<u32> {
    let one: Vec<u32> = (0..decisions).map(|index| (index * 31 % SAMPLES) as u32).collect();
    Arc::new([(); THREADS].map(|()| one.clone()))
}
