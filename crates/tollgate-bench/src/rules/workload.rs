//! The rules and the requests, the same for both.

use std::sync::Arc;

use crate::workload::{Sequences, THREADS};

/// More than any run asks for.
pub(super) const PER_MINUTE: u64 = 1_000_000_000;

/// How many different requests there are.
const SAMPLES: usize = 4_096;

/// What a rule asks for.
pub(super) enum Kind {
    Route,
    Exact,
    Pattern,
}

pub(super) fn kind(rule: usize) -> Kind {
    match rule % 3 {
        0 => Kind::Route,
        1 => Kind::Exact,
        _ => Kind::Pattern,
    }
}

/// What is known about a request.
pub(super) struct Sample {
    pub(super) path: String,
    pub(super) org: String,
    pub(super) user: String,
}

/// Requests that match one rule of each kind, or none.
pub(super) fn samples(rules: usize, matching: bool) -> Vec<Sample> {
    let no = if matching { "" } else { "x" };
    let of_kind = |kind: usize, index: usize| {
        let many = (rules - kind).div_ceil(3);
        // A step that shares no factor with the sizes in use visits all rules in no order.
        index * 7_919 % many * 3 + kind
    };
    let sample = |index: usize| Sample {
        path: format!("/api/{no}r{}/{index}", of_kind(0, index)),
        org: format!("{no}t{}", of_kind(1, index)),
        user: format!("{no}svc{}-{index}", of_kind(2, index)),
    };
    (0..SAMPLES).map(sample).collect()
}

/// The numbers of the requests to send.
pub(super) fn sequences(decisions: usize) -> Sequences<u32> {
    let one: Vec<u32> = (0..decisions).map(|index| (index * 31 % SAMPLES) as u32).collect();
    Arc::new([(); THREADS].map(|()| one.clone()))
}
