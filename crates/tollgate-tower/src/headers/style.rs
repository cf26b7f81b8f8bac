//! The ways in which clients are told about limits.

/// Which headers tell clients about their limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderStyle {
    /// `RateLimit-Policy` and `RateLimit` of the IETF's tenth draft.
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
