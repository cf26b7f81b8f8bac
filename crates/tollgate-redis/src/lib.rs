//! A tollgate store that shares counters through Redis or Valkey.
//!
//! ```no_run
//! use tollgate::{Limit, Limiter};
//! use tollgate_redis::RedisStore;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let store = RedisStore::connect("redis://localhost".parse()?).await?;
//! let mail = Limiter::builder().limit("10/s".parse::<Limit>()?).store(store).name("mail").build_keyed();
//! let verdicts = mail.decide("ann", 1).await?;
//! if !verdicts[0].allowed {
//!     println!("retry in {:?}", verdicts[0].retry_after());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **One round trip.** All checks of a request that share a route (a slot of a cluster, or a server)
//! are decided there together, all or none, by the server's clock. The Lua in `lua/` mirrors the
//! algorithms of `tollgate-core`, file by file. It charges and judges, and returns the states as they
//! were; the verdicts are then computed by the Rust algorithms, so that they equal those of the memory
//! store to the microsecond. A request with several routes calls all of them at once, and if one
//! refuses, the others are refunded.
//!
//! **Never twice.** A command is repeated only after a reply that proves that it was not executed. It
//! carries the deadline of its caller: a server that wakes up after the deadline does nothing.
//!
//! **Closer or quicker.** A check says how closely nodes must agree ([`tollgate::Consistency`]):
//!
//! | | decided | over the limit, at most | under, at most |
//! | --- | --- | --- | --- |
//! | `Strict` | at the store | nothing | nothing |
//! | `Leased` | locally, from chunks charged at the store | nothing | the chunks of other nodes, for a quarter of a second |
//! | `Synced` | locally, exchanged every 100 ms | what the other nodes admit in two intervals ([`RedisStore::overshoot_bound`]) | nothing |
//!
//! Leases are for token buckets without options and for fixed windows, syncing for all limits but
//! those on concurrency; everything else is strict. Units that users of a token bucket gave back
//! within the time it takes to fill come on top of a leased limit, and so do the chunks that are out
//! when it is reset. In every mode, a key that the store has just refused is refused locally, with the
//! same verdict, until its time to retry: what *other* nodes give back or reset earlier is seen within
//! two seconds.
//!
//! **Failing servers.** A server that does not answer costs one time-out. From then on calls to it
//! fail at once, until a probe finds it healthy. The caller decides what a failed call means:
//! `on_error` of a rule.
//!
//! **Other functions.** [`RedisStore::client`] calls any Lua function over the same connections.
//!
//! Rejected: one Redis key for each counter, the first design. Every further key costs Redis a third
//! of a whole decision. The counters of one limiter key are the fields of one hash, so that three
//! limits are read at once, written at once and expire together.

mod arguments;
mod backend;
mod client;
mod error;
mod function;
#[cfg(any(test, fuzzing))]
pub mod fuzz_targets;
mod leased;
mod local;
mod mode_router;
mod node_registry;
mod options;
mod server_clock;
mod shared_texts;
mod store;
mod strict;
mod synced;

pub use client::{GroupHealth, Health, RedisClient, ServerOutage, ServerReply};
pub use error::ConnectError;
pub use function::ServerFunction;
pub use options::Options;
pub use store::RedisStore;

/// The examples of the README, run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
