//! What runs around the limiter: where rules come from, and the service that keeps them.
//!
//! # Sources
//!
//! [`sources::Origin`] names a file, a folder or a URL. It is read once, so that wrong rules are
//! an error at start, and followed from then on: a change that is right is installed, one that is
//! wrong is reported while the old rules go on.
//!
//! ```
//! use tollgate_server::sources::Origin;
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.yaml");
//! # std::fs::write(&path, "domain: shop\nrules: [{ name: all, limit: 10/s }]\n")?;
//!
//! let opened = Origin::path(&path).open()?;
//! let installed = std::sync::Mutex::new(opened.rules().clone());
//! let follower = opened.follow(move |rules| *installed.lock().unwrap() = rules);
//! assert_eq!(follower.status().failures, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The rules service
//!
//! [`rules_service::RulesService`] keeps rules, overrides and lists in an embedded database behind
//! `/v1/rules`: versions, preconditions, dry runs, history, rollback and an audit. Many limiters
//! fetch from one; each keeps the last good copy, so that the service may be down, also while a
//! limiter restarts.

pub mod access;
mod admin;
pub mod bundle;
mod check;
pub mod client;
mod clock;
pub mod config;
mod deferred;
mod digest;
mod disk;
mod doors;
mod engine;
pub mod net;
mod openapi;
mod rulebook;
pub mod rules_service;
pub mod secret;
mod server;
pub mod sources;
mod sqlite;
mod store;
mod telemetry;
mod unguessable;
mod worker;

pub use config::Config;
pub use server::{Addresses, SAMPLE_RULES, Server, StartError};
pub use tollgate_tower::headers;
