//! The requests of Envoy: a domain and descriptors.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Unit;
use crate::Request;
use crate::matching::path;

/// A request to one domain: is any of its descriptors over its limit?
///
/// ```
/// use tollgate_rules::envoy::{Descriptor, RateLimitRequest};
/// let descriptors = [
///     Descriptor::new(&[("message_type", "marketing"), ("to_number", "2061111111")]),
///     Descriptor::new(&[("to_number", "2061111111")]),
/// ];
/// let request = RateLimitRequest::new("messaging", &descriptors);
/// assert_eq!(request.hits_addend, 0); // counts as 1
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RateLimitRequest<'a> {
    /// The domain whose limits apply.
    pub domain: &'a str,
    /// The descriptors; each is looked up on its own.
    pub descriptors: &'a [Descriptor<'a>],
    /// The cost of each descriptor without its own; 0 counts as 1.
    pub hits_addend: u32,
}

impl<'a> RateLimitRequest<'a> {
    /// Creates a request that costs 1.
    pub fn new(domain: &'a str, descriptors: &'a [Descriptor<'a>]) -> RateLimitRequest<'a> {
        RateLimitRequest { domain, descriptors, hits_addend: 0 }
    }

    /// Returns why the request is invalid, if it is. Doors answer 400 or an error of their protocol.
    ///
    /// ```
    /// use tollgate_rules::envoy::RateLimitRequest;
    /// assert!(RateLimitRequest::new("messaging", &[]).fault().is_some());
    /// ```
    pub fn fault(&self) -> Option<&'static str> {
        match (self.domain, self.descriptors) {
            ("", _) => Some("rate limit domain must not be empty"),
            (_, []) => Some("rate limit descriptor list must not be empty"),
            _ => None,
        }
    }
}

/// A descriptor: keys and values that select a limit and name a counter.
///
/// ```
/// use tollgate_rules::envoy::Descriptor;
/// let peek = Descriptor { hits: Some(0), ..Descriptor::new(&[("user", "ann")]) };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// The keys and values, outermost first.
    pub entries: &'a [(&'a str, &'a str)],
    /// The cost, in place of that of the request; 0 does not charge.
    pub hits: Option<u64>,
    /// Whether it refunds instead of charging.
    pub negative: bool,
    /// A limit that replaces that of the file.
    pub limit: Option<LimitOverride>,
}

impl<'a> Descriptor<'a> {
    /// Creates a descriptor with the cost of the request.
    pub fn new(entries: &'a [(&'a str, &'a str)]) -> Descriptor<'a> {
        Descriptor { entries, hits: None, negative: false, limit: None }
    }

    /// Returns the cost in a request with this addend.
    pub(crate) fn cost(&self, hits_addend: u32) -> u64 {
        self.hits.unwrap_or(u64::from(hits_addend.max(1)))
    }
}

/// An inline limit: one that a request has along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOverride {
    /// The number of requests in a unit.
    pub requests_per_unit: u32,
    /// The unit of time.
    pub unit: Unit,
}

/// The entries of a generic request as one descriptor.
#[derive(Clone, Debug)]
pub struct DescriptorEntries<'r>(SmallVec<[(&'r str, Cow<'r, str>); 6]>);

impl<'r> DescriptorEntries<'r> {
    /// Collects `method`, `path`, `host` and `ip`, as far as they are known, then the attributes in
    /// the order they were set.
    pub(super) fn from_request(request: &'r Request<'_>) -> DescriptorEntries<'r> {
        let mut entries = SmallVec::new();
        if let Some(method) = request.method {
            entries.push(("method", Cow::Borrowed(method)));
        }
        if let Some(target) = request.target {
            entries.push(("path", path::cased(target)));
        }
        if let Some(host) = request.host {
            entries.push(("host", path::host(host)));
        }
        if let Some(peer) = request.peer {
            entries.push(("ip", Cow::Owned(peer.to_canonical().to_string())));
        }
        entries.extend(request.attributes.iter().map(|(name, value)| (*name, value.text())));
        DescriptorEntries(entries)
    }

    /// Returns the keys and values for a [`Descriptor`].
    pub fn pairs(&self) -> SmallVec<[(&str, &str); 6]> {
        self.0.iter().map(|(key, value)| (*key, &**value)).collect()
    }
}
