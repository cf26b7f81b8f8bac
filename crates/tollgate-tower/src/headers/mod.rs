//! Rate-limit response headers: a decision as HTTP clients see it, in several styles.
//!
//! [`DecisionSummary`] is a decision in the units of HTTP; [`write()`] turns it into header fields in one of
//! the [styles](HeaderStyle) in use, and [`problem`](crate::problem) into the body of a refusal. All
//! times are rounded up, so that a client that retries when headers to is not refused again. Where a
//! response has such headers already, both are told, or else the stricter ones ([`ResponseHeaders`]).
//!
//! ```
//! use http::HeaderMap;
//! use tollgate_rules::{Request, RuleLimiter};
//! use tollgate_tower::headers::{DecisionSummary, HeaderStyle, write};
//!
//! let limiter = RuleLimiter::new("rules: [{ name: login, limit: 5/min fixed }]".parse()?);
//! let decision = limiter.decide_now(&Request::new("POST", "/login"));
//! let mut headers = HeaderMap::new();
//! write(HeaderStyle::Draft10, &DecisionSummary::new(&decision), 0, &mut headers);
//! assert_eq!(headers["ratelimit-policy"], r#""login";q=5;w=60"#);
//! # Ok::<(), tollgate_rules::Diagnostics>(())
//! ```

mod fields;
mod merge;
mod quota_policy;
mod style;
mod summary;
mod value_cache;

pub use crate::grpc::grpc_message;
pub use fields::{ResponseHeaders, write};
pub use quota_policy::QuotaPolicy;
pub use style::HeaderStyle;
pub use summary::{DecisionSummary, LimitStatus, PolicyName, millis_up};
