//! The check of Envoy's rate limit request in JSON, part of the fuzz target of JSON bodies.

use super::{JsonRequest, MAX_DESCRIPTORS};

/// Reads any bytes as a rate limit request in JSON; what is read stays within the bounds.
pub(crate) fn check_rate_limit_request(bytes: &[u8]) {
    let Ok(json) = serde_json::from_slice::<JsonRequest>(bytes) else { return };
    let Ok(request) = json.to_request() else { return };
    assert!(request.descriptors().count() <= MAX_DESCRIPTORS);
    let entries = request.descriptors().map(|(_, entries)| entries.len()).sum::<usize>();
    assert_eq!(entries, json.descriptors.iter().map(|all| all.entries.len()).sum::<usize>());
}
