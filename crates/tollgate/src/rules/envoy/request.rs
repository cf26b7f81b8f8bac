//! What Envoy asks: a domain, and descriptors to be limited by.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Unit;
use crate::rules::{Request, path};

/// A question about one domain: is any of these over its limit?
///
/// ```
/// use tollgate::rules::envoy::{Descriptor, RateLimitRequest};
/// let descriptors = [
///     Descriptor::new(&[("message_type", "marketing"), ("to_number", "2061111111")]),
///     Descriptor::new(&[("to_number", "2061111111")]),
/// ];
/// let request = RateLimitRequest::new("messaging", &descriptors);
/// assert_eq!(request.hits_addend, 0); // counts as 1
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RateLimitRequest<'a> {
    /// Whose limits apply.
    pub domain: &'a str,
    /// What to limit by; each is looked up on its own.
    pub descriptors: &'a [Descriptor<'a>],
    /// What it costs each descriptor that does not say itself; 0 counts as 1.
    pub hits_addend: u32,
}

impl<'a> RateLimitRequest<'a> {
    /// A request that costs one.
    pub fn new(domain: &'a str, descriptors: &'a [Descriptor<'a>]) -> RateLimitRequest<'a> {
        RateLimitRequest { domain, descriptors, hits_addend: 0 }
    }

    /// Why the service would not answer it, if so: a door says 400 or an error of its protocol.
    ///
    /// ```
    /// use tollgate::rules::envoy::RateLimitRequest;
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

/// Pairs of keys and values that choose a limit and name a counter.
///
/// ```
/// use tollgate::rules::envoy::Descriptor;
/// let peek = Descriptor { hits: Some(0), ..Descriptor::new(&[("user", "ann")]) };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// Keys and values, outermost first.
    pub entries: &'a [(&'a str, &'a str)],
    /// What it costs, instead of what the request says; 0 only looks.
    pub hits: Option<u64>,
    /// Gives back instead of spending.
    pub negative: bool,
    /// A limit that stands in for whatever the file says.
    pub limit: Option<LimitOverride>,
}

impl<'a> Descriptor<'a> {
    /// A descriptor that costs what the request says.
    pub fn new(entries: &'a [(&'a str, &'a str)]) -> Descriptor<'a> {
        Descriptor { entries, hits: None, negative: false, limit: None }
    }

    /// What it costs, in a request with this addend.
    pub(crate) fn cost(&self, hits_addend: u32) -> u64 {
        self.hits.unwrap_or(u64::from(hits_addend.max(1)))
    }
}

/// A limit that a request brings along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOverride {
    /// How many.
    pub requests_per_unit: u32,
    /// In what time.
    pub unit: Unit,
}

/// The entries of the one descriptor a generic request amounts to.
#[derive(Clone, Debug)]
pub struct Entries<'r>(SmallVec<[(&'r str, Cow<'r, str>); 6]>);

impl<'r> Entries<'r> {
    /// `method`, `path`, `host` and `ip`, those that are known, then the attributes in the order
    /// they were set.
    pub(super) fn of(request: &'r Request<'_>) -> Entries<'r> {
        let mut entries = SmallVec::new();
        if let Some(method) = request.method {
            entries.push(("method", Cow::Borrowed(method)));
        }
        if let Some(target) = request.target {
            entries.push(("path", path::normal(target)));
        }
        if let Some(host) = request.host {
            entries.push(("host", path::host(host)));
        }
        if let Some(peer) = request.peer {
            entries.push(("ip", Cow::Owned(peer.to_canonical().to_string())));
        }
        entries.extend(request.attributes.iter().map(|(name, value)| (*name, value.text())));
        Entries(entries)
    }

    /// The keys and values, as a [`Descriptor`] takes them.
    pub fn pairs(&self) -> SmallVec<[(&str, &str); 6]> {
        self.0.iter().map(|(key, value)| (*key, &**value)).collect()
    }
}
