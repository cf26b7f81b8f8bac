//! An embeddable rate limiter. It enforces limits exactly, and a refused request learns when to
//! retry.
//!
//! ```
//! use tollgate::{Limit, Limiter};
//!
//! let mail = Limiter::new("10/s burst 20".parse::<Limit>()?);
//! match mail.check() {
//!     Ok(()) => println!("sent"),
//!     Err(denied) => println!("{denied}"), // over the limit of 10/s burst 20: retry in 100ms
//! }
//! # Ok::<(), tollgate::limit::ParseLimitError>(())
//! ```
//!
//! A [`Limiter`] is one budget; clones share it. A [`KeyedLimiter`] is a budget for each user,
//! address or tenant. Both take one or several limits, *all* of which must allow a request; a
//! refused request is charged to none of them. Nothing runs in the background, on any runtime.
//!
//! # Which limit
//!
//! | text | for |
//! | --- | --- |
//! | `10/s burst 20` | most uses: a steady rate, and some slack for bursts (a token bucket) |
//! | `20/s leaky burst 50` | delays instead of refusals: bursts are spread out to the rate |
//! | `100/h fixed`, `1k/month calendar` | published quotas: every window counts anew |
//! | `500/h sliding` | quotas that cannot be used twice around the edge of a window; two counters |
//! | `5/min log` | exact quotas over any window, which store the time of every request |
//! | `100/s warmup 10s` | services that cannot take the full rate when cold: caches, connection pools |
//! | `100 concurrent` | requests in flight, however long they take |
//! | `adaptive 20..500 concurrent` | requests in flight, when the right number is not known |
//!
//! [`limit`](mod@limit) lists all of them with their options; each can also be put together in
//! code, `Limit::per_second(10)?.burst(20)?`.
//!
//! # Keys, costs, several limits
//!
//! Keys are texts, bytes, numbers or addresses, and need not be registered or cleaned up.
//!
//! ```
//! use tollgate::Limiter;
//!
//! let api = Limiter::keyed(["100/h".parse()?, "500/day".parse()?]);
//! api.check("ann")?; // one
//! api.check_n("bob", 80)?; // an expensive request: 80 at once, or nothing
//! let denied = api.check_n("bob", 80).unwrap_err();
//! assert_eq!(denied.index, 0); // bob has exhausted the hourly limit
//! assert!(denied.retry_after.is_some()); // `None` if the limit can never hold the cost
//! assert_eq!(api.peek("carol").remaining, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Holds, waits and permits
//!
//! [`reserve`](KeyedLimiter::reserve) charges an estimate and returns a [`Hold`], to be settled for
//! the actual cost: the rest is refunded, an overrun becomes debt. [`wait`](Limiter::wait) and
//! [`blocking_wait`](Limiter::blocking_wait) queue a request instead of refusing it.
//! [`acquire`](Limiter::acquire) returns a [`Permit`] to be in flight, released when dropped.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Limit, Limiter};
//!
//! let tokens = Limiter::keyed(["200k tokens/day".parse::<Limit>()?]);
//! let hold = tokens.reserve("acme", 4_096)?; // at most
//! hold.settle(812); // in the end
//! assert!(tokens.peek("acme").remaining >= 200_000 - 812);
//!
//! let turn = Limiter::new("1k/s burst 1".parse::<Limit>()?);
//! turn.blocking_wait(); // at once
//! turn.blocking_wait(); // a millisecond later
//!
//! let report = Limiter::new("1/h".parse::<Limit>()?);
//! report.blocking_wait();
//! let soon = Duration::from_secs(60);
//! assert!(report.blocking_wait_timeout(soon).is_err()); // an hour is too long: refused at once
//!
//! let database = Limiter::new("1 concurrent".parse::<Limit>()?);
//! let permit = database.acquire()?;
//! assert!(database.acquire().is_err());
//! drop(permit);
//! assert!(database.acquire().is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Changing limits, and testing with a manual clock
//!
//! [`change`](KeyedLimiter::change) replaces the limits at run time; a [`Carry`] sets how charges
//! carry over. A [`ManualClock`](testing::ManualClock) advances only by call, so a test of an hour
//! takes no time.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Carry, Limit, Limiter, testing::ManualClock};
//!
//! let clock = ManualClock::new();
//! let api = Limiter::builder().limit("10/min".parse::<Limit>()?).clock(&clock).build_keyed();
//! api.check_n("ann", 10)?;
//! assert!(api.check("ann").is_err());
//! clock.advance(Duration::from_secs(6)); // the time for one
//! assert!(api.check("ann").is_ok());
//!
//! api.change(["15/min".parse()?], Carry::Additive); // five more for everyone
//! assert!(api.check_n("ann", 5).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rules
//!
//! The crate `tollgate-rules` chooses limits by the attributes of a request. It reads rules from
//! YAML: routes, conditions, plans, exceptions, several limits for one request.
//!
//! # Time
//!
//! A limiter reads the processor's counter, to the nanosecond. It reads the wall clock only once, so
//! that setting that changes no decision. Where a few milliseconds do not matter,
//! [`Clock::coarse`] is faster.
//!
//! # Memory
//!
//! A key whose budget is full again equals a key that was never seen, so its state is dropped. The
//! memory in use depends on the keys that owe something, not on all keys that were ever seen.
//! [`max_keys`](Builder::max_keys) bounds their number: 16 million unless set, about 30 bytes each
//! under a token bucket, twice that under a window. At the maximum the key that owes least is
//! evicted, so a client cannot clear its debt with a flood of new keys.
//!
//! Instead of keys, the store has fingerprints of at least 68 bits. Two keys with the same one share
//! a budget: among ten million live keys, the probability of any such pair is 2 in 10 million. Every
//! store has a random seed, so a client cannot prepare keys that collide.
//!
//! # Non-goals
//!
//! The state of a [`MemoryStore`] ends with its process, unless the caller saves [snapshots](snapshot)
//! of it. Limits across processes need a [`Store`] that shares its state. The crate neither logs nor measures: a [`Denied`] or a [`Verdict`] has all
//! there is to report. It does not authenticate callers: the key must come from a trusted source.

mod account;
mod adaptive;
mod atomic_meter;
mod builder;
mod clock;
mod counters;
mod denied;
mod fast_path;
#[cfg(any(test, fuzzing))]
pub mod fuzz_targets;
mod hold;
mod identity;
mod key;
mod key_counters;
mod keyed_limiter;
pub mod limit;
mod limiter;
mod limits;
mod memory;
mod permit;
mod reserve;
mod rewind;
pub mod state;
mod store;
mod store_error;
#[doc(hidden)]
pub mod sync;
pub mod testing;

pub use account::Verdicts;
pub use builder::{Builder, CustomStore, DefaultStore};
pub use clock::{Clock, Sleep};
pub use denied::{Denied, HumanDuration};
pub use hold::{Hold, SettleOutcome};
pub use key::Key;
pub use keyed_limiter::KeyedLimiter;
pub use limit::{Limit, LimitAlgorithm, LimitSummary};
pub use limiter::Limiter;
pub use memory::{MemoryStore, snapshot};
pub use permit::Permit;
pub use reserve::Reserve;
pub use store::{
    Action, Check, Consistency, CounterId, PreviousLimit, SharedText, SharedTexts, Store, StoreCall,
};
pub use store_error::{StoreError, StoreErrorKind};
pub use tollgate_core::{Carry, Judgement, Retry, Span, Time, Verdict};

/// The examples of the README, run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
