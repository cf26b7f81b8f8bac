//! The HTTP door, through real sockets.

mod bounds;
mod calls;
pub(crate) mod client;
mod crowd;
mod description;
mod envoy;
mod hold;
mod hostile;
mod http2;
mod ways;
