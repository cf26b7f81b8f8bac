//! Shares the counters of tollgate through Redis or Valkey.
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
//! **One round trip.** All limits of a request that share a place (a slot of a cluster, or a server)
//! are decided there together, all or none, by the server's clock. The Lua in `lua/` mirrors the
//! algorithms of the engine, file by file; it charges and judges, and answers with the states as
//! they were. The verdicts are then worded by the engine itself, so that they are those of the
//! memory store to the microsecond. Requests that touch several places are asked at once, and if one
//! refuses, the others are given back what they were charged.
//!
//! **Never twice.** A command is sent again only after a reply that proves it was not executed, and
//! carries the time until which its caller waits: a server that wakes up after that does nothing.
//!
//! **Closer or quicker.** A check says how closely nodes must agree ([`tollgate::Consistency`]):
//!
//! | | decided | over the limit, at most | under, at most |
//! | --- | --- | --- | --- |
//! | `Strict` | at the store | nothing | nothing |
//! | `Leased` | here, from chunks charged at the store | nothing | the chunks that others hold, for a quarter of a second |
//! | `Synced` | here, exchanged every 100 ms | what the other nodes admit in two intervals ([`RedisStore::overshoot_bound`]) | nothing |
//!
//! Leases are for token buckets without options and for fixed windows, syncing for all but limits on
//! concurrency; everything else is strict. What a bucket's users gave back within the time it takes
//! to fill comes on top of a leased limit, and so do, after a reset, the chunks that are out. In
//! every mode, a key that the store has just refused is refused here, in the same words, until its
//! time to retry: what *other* nodes give back or reset before is seen within two seconds.
//!
//! **Sick servers.** A server that does not answer costs one time-out; from then on it is left alone
//! until a probe finds it well, and calls fail at once. What a failed call means is the caller's
//! choice: `on_error` of a rule.
//!
//! Rejected: a key for each counter, which was here first. Every further key costs Redis a third of a
//! whole decision; the counters of one of our keys are the fields of one hash, so that three limits
//! are read at once, written at once and expire together.

mod desk;
mod fleet;
mod modes;
mod notes;
mod options;
mod script;
mod server_clock;
mod store;
mod strict;
mod trouble;
mod words;

pub use desk::{Desk, DeskReply};
pub use fleet::{GroupHealth, Health, ServerTrouble};
pub use options::Options;
pub use store::RedisStore;
pub use trouble::ConnectError;
