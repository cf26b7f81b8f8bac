//! Real Redis and Valkey servers on free ports, for tests, fault runs and benches.
//!
//! Everything starts on loopback, in a temporary folder of its own, and is gone when its value is
//! dropped, also when a test panics. What goes wrong here is a panic that shows the server's log:
//! whoever uses this crate cannot go on without the server they asked for.
//!
//! ```
//! use tollgate_rig::Redis;
//!
//! let redis = Redis::start();
//! redis.command(&["SET", "greeting", "hello"]).unwrap();
//! assert_eq!(redis.command(&["GET", "greeting"]).unwrap().text(), "hello");
//! ```
//!
//! [`Redis`] is one server of a [`Flavour`], [`Setup`] starts it with TLS, an ACL file or other
//! settings; [`Cluster`] and [`Sentinels`] are several of them. A [`Proxy`] stands between a client
//! and a server and does what networks do to both. For HTTP there are a [`WebClient`] that sends
//! exactly what it is told to, and an [`Upstream`] that keeps what it was sent.

mod cluster;
mod files;
mod flavour;
mod ports;
mod process;
mod proxy;
mod redis;
mod resp;
mod sentinels;
mod setup;
mod tls;
mod wait;
mod web;

pub use cluster::Cluster;
pub use flavour::Flavour;
pub use ports::Port;
pub use proxy::Proxy;
pub use redis::Redis;
pub use resp::{Client, Reply};
pub use sentinels::Sentinels;
pub use setup::Setup;
pub use tls::Certificates;
pub use wait::until;
pub use web::{Message, Next, Upstream, WebClient, Workers};
