//! Rate limits as middleware.

pub mod arrival;
mod body;
pub mod client;
mod future;
mod gate;
mod grpc;
pub mod headers;
mod layer;
pub mod passage;
mod peer;
mod refused;
mod service;

pub use body::LimitedBody;
pub use future::ResponseFuture;
pub use layer::RateLimitLayer;
pub use peer::Peer;
pub use refused::Refusal;
pub use service::RateLimit;
