//! The fuzz target of rate limit requests in protobuf.

use prost::Message;

use super::{EnvoyRequest, MAX_DESCRIPTORS, MAX_ENTRIES, OverrideFields};
use crate::doors::grpc::proto::envoy::extensions::common::ratelimit::v3 as common;
use crate::doors::grpc::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use common::RateLimitDescriptor;
use common::rate_limit_descriptor::{Entry, RateLimitOverride};

/// Reads any bytes as a rate limit request, as the generated code reads them.
///
/// The two differ only in what is too much: the numbers of descriptors and entries are bounded.
pub fn fuzz_protobuf(bytes: &[u8]) {
    let theirs = RateLimitRequest::decode(bytes).ok();
    let ours = EnvoyRequest::from_protobuf(bytes).ok().as_ref().map(generated);
    if theirs.as_ref().is_none_or(is_within_bounds) {
        assert_eq!(ours, theirs);
    } else {
        assert_eq!(ours, None);
    }
}

fn is_within_bounds(request: &RateLimitRequest) -> bool {
    let entries: usize = request.descriptors.iter().map(|all| all.entries.len()).sum();
    request.descriptors.len() <= MAX_DESCRIPTORS && entries <= MAX_ENTRIES
}

/// Converts a request into the generated type.
pub(super) fn generated(request: &EnvoyRequest<'_>) -> RateLimitRequest {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    let descriptors = request.descriptors().map(|(descriptor, entries)| RateLimitDescriptor {
        entries: entries.iter().map(entry).collect(),
        limit: descriptor.limit.map(|OverrideFields { requests_per_unit, unit }| {
            RateLimitOverride { requests_per_unit, unit }
        }),
        hits_addend: descriptor.hits,
        is_negative_hits: descriptor.negative,
    });
    RateLimitRequest {
        domain: request.domain.into(),
        descriptors: descriptors.collect(),
        hits_addend: request.hits_addend,
    }
}
