//! The tollgate server: doors, gateway, rules service, admin API and telemetry around a limiter.
//!
//! # Sources
//!
//! [`sources::Origin`] names a file, a folder or a URL. The server reads it at start, so that
//! invalid rules are a start error, and follows it from then on: a valid change becomes active, an
//! invalid one is reported while the previous rules stay active.
//!
//! ```
//! use tollgate_server::sources::Origin;
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.yaml");
//! # std::fs::write(&path, "domain: shop\nrules: [{ name: all, limit: 10/s }]\n")?;
//!
//! let opened = Origin::path(&path).open()?;
//! let active = std::sync::Mutex::new(opened.rules().clone());
//! let follower = opened.follow(move |rules| *active.lock().unwrap() = rules);
//! assert_eq!(follower.status().failures, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The rules service
//!
//! [`rules_service::RulesService`] stores rules, overrides and lists in an embedded database and
//! serves them under `/v1/rules`, with versions, preconditions, dry runs, history, rollback and an
//! audit log. Many limiters can fetch from one service. Each limiter saves the last good copy, so
//! that it can restart while the service is down.

pub mod access;
mod active_rules;
mod admin;
mod background;
pub mod bundle;
pub mod bypass_corpus;
mod capacity_share;
mod check;
pub mod client;
mod clock;
pub mod config;
mod decisions;
mod deferred;
mod digest;
mod disk;
mod doors;
mod error_debug;
#[cfg(any(test, fuzzing))]
pub mod fuzz_targets;
mod identity;
mod key_secret;
mod live_tokens;
pub mod net;
mod openapi;
mod problem;
mod random_id;
pub mod rules_service;
pub mod secret;
mod server;
mod snapshot;
pub mod sources;
mod sqlite;
mod store;
mod supply_log;
mod telemetry;
mod worker;
mod worker_thread;

pub use config::Config;
pub use server::{Addresses, SAMPLE_RULES, Server, StartError};
pub use tollgate_tower::headers;
