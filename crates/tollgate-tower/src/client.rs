//! Clients that stay under the limits of the services they call.
//!
//! ```
//! use std::time::Duration;
//! use hyper_util::client::legacy::{Client, connect::HttpConnector};
//! use hyper_util::rt::TokioExecutor;
//! use tollgate_tower::client::PoliteLayer;
//! use tower::Layer;
//!
//! let client: Client<HttpConnector, String> = Client::builder(TokioExecutor::new()).build_http();
//! let client = PoliteLayer::new()
//!     .limit("50/s".parse()?) // of our own, for each host
//!     .wait_up_to(Duration::from_secs(30))
//!     .layer(client);
//! # Ok::<(), tollgate::limit::ParseLimitError>(())
//! ```
//!
//! Two things hold requests back. A **limit of our own**, if one is set: a request waits for its
//! turn before it is sent. And **what the service says**, in the header fields in use for that:
//!
//! | it says | it means |
//! | --- | --- |
//! | 429 or 503 with `Retry-After` | nothing is welcome for so many seconds, or until that date |
//! | gRPC's `RESOURCE_EXHAUSTED` or `UNAVAILABLE` with `RetryInfo`, or a pushback | the same |
//! | `RateLimit` (drafts 7 to 10), `RateLimit-Remaining` (to 6), `X-RateLimit-Remaining` | if nothing is left: nothing is welcome until it is reset |
//! | 429 and nothing else | a second of silence |
//!
//! PendingVerdict requests to that host wait until then, and those that would wait for longer than the
//! client cares to fail at once, without being sent. So a service that is overloaded is left alone,
//! instead of being asked whether it still is.
//!
//! A service that means ill can silence the client towards itself for a while
//! ([an hour](PoliteLayer::longest_pause) at most), and no more than that: hosts do not affect each
//! other, what is remembered of them is bounded, and what is not understood is ignored.
//!
//! Nothing is sent twice: whether a request may be repeated is for its sender to know. A retry
//! (`tower::retry`) around this layer waits for the pause.

mod layer;
mod paused_hosts;
mod retry_hints;
mod service;

pub use layer::PoliteLayer;
pub use service::{Polite, PoliteError, TooLong};
