//! What HTTP clients are told about their limits: header fields and the body of a refusal.
//!
//! [`Answer`] is what a decision comes to for them; [`write()`] turns it into header fields in one of
//! the [styles](HeaderStyle) in use, [`problem`] into a body of `application/problem+json`. All of
//! them round up: who comes back when told to is not refused for a fraction of a second.
//!
//! ```
//! use http::HeaderMap;
//! use tollgate::{Limiter, Request};
//! use tollgate_tower::headers::{Answer, HeaderStyle, write};
//!
//! let limiter = Limiter::from_rules("rules: [{ name: login, limit: 5/min fixed }]".parse()?);
//! let decision = limiter.decide(&Request::new("POST", "/login"));
//! let mut headers = HeaderMap::new();
//! write(HeaderStyle::Draft10, &Answer::of(&decision), 0, &mut headers);
//! assert_eq!(headers["ratelimit-policy"], r#""login";q=5;w=60"#);
//! # Ok::<(), tollgate::rules::Diagnostics>(())
//! ```

mod answer;
mod at_hand;
mod fields;
mod problem;
mod refusal;
mod style;

pub use crate::grpc::grpc_message;
pub use answer::{Answer, Standing, millis_up};
pub use fields::{Told, write};
pub use problem::problem;
pub use refusal::{refusal, refusal_to};
pub use style::HeaderStyle;
