//! Both ends of HTTP/1.1, for tests of a proxy in between. The client sends exactly the given
//! bytes, and the upstream records its requests.

mod client;
mod message;
mod upstream;
mod workers;

pub use client::WebClient;
pub use message::Message;
pub use upstream::{AfterResponse, Upstream};
pub use workers::Workers;
