//! Files of Envoy's rate limit service, read as they are.
//!
//! A file is a domain and a tree of descriptors. A request names a domain and brings descriptors,
//! lists of keys and values, each of which is looked up level by level; the limit at exactly its
//! depth applies.
//!
//! ```yaml
//! domain: messaging
//! descriptors:
//!   - key: message_type
//!     value: marketing
//!     descriptors:
//!       - key: to_number
//!         rate_limit: { unit: day, requests_per_unit: 5 }
//! ```
//!
//! [`Domains`] answers as the original does: what is matched, what is counted, and when. So
//! refused requests count, `a_b` finds what is configured for `a` and `b`, and `*` may match part
//! of a key. One thing differs: counters are told apart by all keys and values, where in the
//! original the key `a_b` and the entry `a`, `b` could share one.
//!
//! # What may be written besides
//!
//! | field | where | means |
//! | --- | --- | --- |
//! | `strict: true` | file | a key only matches a key, a value only a value |
//! | `rate_limits: […]` | descriptor | several limits, all of which apply |
//! | `unit_multiplier: 15` | limit | windows of 15 units |
//! | `algorithm: sliding_window` | limit | any of [`limit`](crate::limit), with its options |
//! | `burst: 20` | limit | a token bucket of that size |
//!
//! A descriptor with an `algorithm` or a `burst` is decided as limits are elsewhere in this crate:
//! all its limits or none, and what is refused costs nothing. `algorithm: fixed_window` is the
//! original's window without its habit of counting refusals.
//!
//! There is a short form for one key:
//!
//! ```yaml
//! domain: auth
//! key: login
//! rate_limit: { unit: minute, requests: 10 }
//! ```
//!
//! # Domains written as rules
//!
//! [`RuleLimiter::ask_envoy`](crate::rules::RuleLimiter::ask_envoy) also answers for domains in the
//! language of [rules](crate::rules): each descriptor is a request of its own, its entries the
//! attributes. A key is the attribute of that name, and some stand for what rules know by another:
//!
//! | entry | is |
//! | --- | --- |
//! | `remote_address`, `masked_remote_address` | `ip` |
//! | `:path`, `:method`, `:authority` | `path`, `method`, `host` |
//! | `header.x-org` | `header["x-org"]` |
//!
//! Rules decide as always: a descriptor that is refused costs nothing. One that a rule lets pass
//! outright is unlimited, and one that a rule refuses outright is over.
//!
//! # Counters
//!
//! A counter is named by the domain, the entries, the length of the window and the algorithm.
//! Editing how many are allowed keeps it.

mod answer;
mod by_rules;
mod domains;
mod fields;
mod limit;
mod metadata;
mod metric;
mod plan;
mod read;
mod request;
mod tree;
mod unit;

pub use answer::{Code, CurrentLimit, DescriptorStatus, Headers, RateLimitAnswer, near_limit};
pub(crate) use by_rules::{request_of, status_of};
pub use domains::Domains;
pub(crate) use domains::join;
pub use metadata::Metadata;
pub use plan::{Plan, PlannedCall};
pub(crate) use read::{is_envoy, read};
pub use request::{Descriptor, Entries, LimitOverride, RateLimitRequest};
pub use tree::Tree;
pub use unit::Unit;
