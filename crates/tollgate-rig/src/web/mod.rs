//! Both ends of HTTP/1.1 for tests of what is in between: a client that sends exactly the bytes it
//! is told to, and an upstream that keeps what it was sent.

mod client;
mod message;
mod upstream;
mod workers;

pub use client::WebClient;
pub use message::Message;
pub use upstream::{Next, Upstream};
pub use workers::Workers;
