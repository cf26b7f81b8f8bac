//! Rate limits as middleware: for axum, tonic and hyper, and for clients that stay under a limit.
//!
//! ```no_run
//! use std::net::SocketAddr;
//! use axum::{Router, routing::get};
//! use tollgate_rules::Rules;
//! use tollgate_tower::RateLimitLayer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let app = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(RateLimitLayer::from_rules(Rules::from_file("tollgate.yaml")?));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//! axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
//! # Ok(()) }
//! ```
//!
//! Without a file of rules: [`RateLimitLayer::per_ip`], [`per_header`](RateLimitLayer::per_header),
//! [`per_key`](RateLimitLayer::per_key). They are rules too, made by the layer: there is one way in
//! which requests are decided, that of [`tollgate_rules`], and this crate only speaks HTTP around
//! it.
//!
//! # What a client sees
//!
//! Every answer carries `RateLimit-Policy` and `RateLimit` of the IETF's draft, or
//! [another style](headers::HeaderStyle). A request over its limit is answered 429 with
//! `Retry-After` and a body of `application/problem+json`; a call of gRPC with
//! `RESOURCE_EXHAUSTED`, `RetryInfo` and `QuotaFailure`, which its library understands; or as
//! [you say](RateLimitLayer::on_refused). Where a rule says `then: delay`, or the layer is told
//! to [wait](RateLimitLayer::wait_up_to), requests are held back instead.
//!
//! # Whose request it is
//!
//! `per: ip` needs the address at the other end of the connection. axum and tonic (the feature
//! `tonic`) leave it beside the request; elsewhere insert a [`Peer`]. What a client writes into
//! `X-Forwarded-For` is believed only from [proxies you name](RateLimitLayer::trusted_proxies).
//! Where no address is found, a request that such a rule counts is answered 500 with what to change:
//! otherwise all clients would share one counter. What only your service knows, a verified user or
//! tenant, becomes an [attribute](RateLimitLayer::attribute) that rules can count by.
//!
//! # Where the state is
//!
//! Behind an `Arc`, never in the service. axum clones services for routes and connections; a limit
//! kept in one, as tower's own is, then holds for each clone by itself. Counters are in memory
//! unless the [limiter](RateLimitLayer::new) has them elsewhere, as in Redis.
//!
//! # What happens to a request
//!
//! In memory a decision needs no waiting: it is made in `call`, on the service that was ready, and
//! the future of the inner service is polled as it is. Only requests that wait, for their turn or
//! for a store, are boxed. An admitted request is observed to the end of its response
//! ([`lifecycle`]) if a rule needs its outcome: permits are returned and outcomes counted, also
//! when the client leaves or the service fails. A request that is cancelled while it waits leaves
//! its queue, and its charge is returned.
//!
//! # The other direction
//!
//! [`client`] is for callers of other services: it respects limits of its own, and `Retry-After`,
//! `RateLimit` and similar headers of services.
//!
//! # What was rejected
//!
//! *A type parameter for the store*: it would be in the name of every service that uses the layer.
//! *A type parameter for how a key is found*: a function in a box costs less than its error
//! messages. *Limiters beside the rules for the simple cases*: two paths would have two sets of
//! bugs. *Retries in the client*: whether a request may be sent twice is for its sender to know.

mod body;
pub mod client;
mod future;
mod grpc;
pub mod headers;
pub mod json;
mod layer;
pub mod lifecycle;
mod missing_address;
#[cfg(doctest)]
mod pages;
mod peer;
pub mod problem;
mod refusal;
pub mod request_head;
mod request_limiter;
mod service;

pub use body::LimitedBody;
pub use future::ResponseFuture;
pub use layer::RateLimitLayer;
pub use peer::Peer;
pub use refusal::Refusal;
pub use service::RateLimit;

/// The examples of the README, run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
