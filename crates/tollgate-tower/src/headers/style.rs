//! The styles of rate-limit headers.

/// A style of rate-limit headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderStyle {
    /// `RateLimit-CachedPolicy` and `RateLimit` of the IETF's tenth draft.
    #[default]
    Draft10,
    /// The eighth draft's.
    Draft8,
    /// `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`.
    Draft6,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset`.
    Legacy,
    /// `x-ratelimit-*` with quota policy, as Envoy writes the third draft.
    Envoy03,
    /// None.
    None,
}
