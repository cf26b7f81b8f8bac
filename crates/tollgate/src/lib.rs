//! A rate limiter you can embed: you say how much may pass, it keeps to that exactly, and tells
//! whoever is refused when to come back.
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
//! address or tenant. Both take one or several limits, *all* of which must allow a request; one
//! that is refused is charged to none of them. Nothing runs in the background, on any runtime.
//!
//! # Which limit
//!
//! | text | for |
//! | --- | --- |
//! | `10/s burst 20` | the usual: a steady rate, and some slack for bursts (a token bucket) |
//! | `20/s leaky burst 50` | not to refuse but to slow down: bursts are spread out to the rate |
//! | `100/h fixed`, `1k/month calendar` | quotas people are told: every window counts anew |
//! | `500/h sliding` | the same without twice the quota around the window's edge; two counters |
//! | `5/min log` | the same, exact, at the price of remembering every request |
//! | `100/s warmup 10s` | what cannot take the full rate when cold: caches, connection pools |
//! | `100 concurrent` | requests in flight, however long they take |
//! | `adaptive 20..500 concurrent` | the same when nobody knows the right number |
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
//! api.check_n("bob", 80)?; // a dear one: 80 at once, or nothing
//! let denied = api.check_n("bob", 80).unwrap_err();
//! assert_eq!(denied.index, 0); // the hour is what bob has run out of
//! assert!(denied.retry_after.is_some()); // `None` if it asked for more than the limit can hold
//! assert_eq!(api.peek("carol").remaining, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Paying later, waiting, being in flight
//!
//! [`reserve`](KeyedLimiter::reserve) takes an estimate and returns a [`Hold`], to be settled for
//! the truth: the rest goes back, an overrun becomes debt. [`wait`](Limiter::wait) and
//! [`blocking_wait`](Limiter::blocking_wait) take a place in line instead of refusing.
//! [`acquire`](Limiter::acquire) returns a [`Permit`] to be in flight, given up when dropped.
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
//! # Changing limits, and testing what depends on time
//!
//! [`change`](KeyedLimiter::change) replaces the limits while running; a [`Carry`] says what
//! becomes of what was spent. A [`ManualClock`](testing::ManualClock) moves when told to, so a
//! test of an hour takes no time.
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
//! Where limits depend on who asks for what, [`rules`] say so in YAML: routes, conditions, plans,
//! exceptions, several limits for one request. (The feature `rules`, on by default.)
//!
//! ```
//! # #[cfg(feature = "rules")] {
//! use tollgate::{Limiter, Request, Rules};
//!
//! let rules: Rules = "
//! rules:
//!   - { name: edge, per: ip, limit: 10/s burst 20 }
//!   - { name: login, route: POST /login, per: ip, limit: [5/min, 20/h sliding] }
//! ".parse().unwrap(); // or Rules::from_file("tollgate.yaml")
//! let limiter = Limiter::from_rules(rules);
//! let decision = limiter.decide(&Request::new("POST", "/login").peer([203, 0, 113, 7].into()));
//! assert_eq!((decision.allowed, decision.rule()), (true, Some("login")));
//! # }
//! ```
//!
//! # Time
//!
//! A limiter reads the processor's own counter, to the nanosecond; the wall clock is asked once, so
//! that setting it changes no decision. Where a few milliseconds do not matter,
//! [`Clock::coarse`] is quicker.
//!
//! # What it remembers
//!
//! A key that has its whole budget again is no different from one never seen, so it is forgotten
//! for free: memory follows the keys that owe something, not all that ever came.
//! [`max_keys`](Builder::max_keys) bounds even those: 16 million unless set, about 30 bytes each
//! under a token bucket, twice that under a window. At the bound the key that owes least gives
//! way, so nobody buys forgiveness with a flood of new keys.
//!
//! Keys themselves are not kept, but fingerprints of at least 68 bits. Two keys that share one
//! share a budget: that any two of ten million live keys do has a probability of 2 in 10 million.
//! The seed is drawn anew for each store, so nobody can prepare keys that collide.
//!
//! # What it does not do
//!
//! State lives in this process and ends with it. Limits across processes come with a [`Store`] that
//! shares its state; the [`MemoryStore`] here is the one for a single process. Nothing is logged or
//! measured: a [`Denied`] and a [`Verdict`] say all there is to report. And a key is taken on
//! trust: who a caller is, is for you to know.
mod account;
mod adaptive;
mod builder;
mod clock;
mod counters;
mod denied;
mod express;
mod hold;
mod identity;
#[cfg(feature = "rules")]
mod join;
mod key;
mod keyed;
pub mod limit;
mod limiter;
mod limits;
mod memory;
mod permit;
mod reserve;
#[cfg(feature = "rules")]
pub mod rules;
pub mod state;
mod store;
mod store_error;
mod sync;
pub mod testing;
mod word;

pub use account::Verdicts;
pub use builder::{Builder, InProcess, Stored};
pub use clock::Clock;
pub use denied::Denied;
pub use hold::{Hold, Settled};
pub use key::Key;
pub use keyed::KeyedLimiter;
pub use limit::{Engine, Limit, Quota};
pub use limiter::Limiter;
pub use memory::MemoryStore;
pub use permit::Permit;
pub use reserve::Reserve;
#[cfg(feature = "rules")]
pub use rules::{Request, Rules};
pub use store::{Action, Bucket, Call, Check, Consistency, Former, Note, Notes, Store};
pub use store_error::{StoreError, StoreErrorKind};
pub use tollgate_core::{Carry, Retry, Span, Standing, Time, Verdict};
