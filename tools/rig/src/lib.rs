//! Real Redis and Valkey servers on free ports, for tests, fault runs and benches.
//!
//! Everything runs on loopback, in a temporary folder of its own, and is gone when its value is
//! dropped, also when a test panics. Errors are panics that show the server's log, since a test cannot
//! continue without its server.
//!
//! ```
//! use tollgate_rig::Redis;
//!
//! let redis = Redis::start();
//! redis.command(&["SET", "greeting", "hello"]).unwrap();
//! assert_eq!(redis.command(&["GET", "greeting"]).unwrap().text(), "hello");
//! ```
//!
//! [`Redis`] is one server of a [`Flavour`], and [`Setup`] starts it with TLS, an ACL file or other
//! settings. [`Cluster`] and [`Sentinels`] are several servers. A [`Proxy`] between a client and a
//! server imitates network faults. For HTTP there are a [`WebClient`] that sends exactly the given
//! bytes, and an [`Upstream`] that records its requests.

mod clock;
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
pub use web::{AfterResponse, Message, Upstream, WebClient, Workers};
