//! Files and requests of Envoy's rate limit service.
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
//! [`Domains`] matches and counts as the original does. So refused requests count, `a_b` finds what
//! is configured for `a` and `b`, and `*` may match part of a key. One thing differs: all keys and
//! values name a counter, where in the original the key `a_b` and the entry `a`, `b` could share one.
//!
//! # Extensions
//!
//! | field | where | means |
//! | --- | --- | --- |
//! | `strict: true` | file | a key only matches a key, a value only a value |
//! | `rate_limits: […]` | descriptor | several limits, all of which apply |
//! | `unit_multiplier: 15` | limit | windows of 15 units |
//! | `algorithm: sliding_window` | limit | any of [`limit`](tollgate::limit), with its options |
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
//! [`decide`] also answers for domains in the
//! language of [rules](crate::Rules): each descriptor is a request of its own, its entries the
//! attributes. A key is the attribute of that name, and some stand for what rules know by another:
//!
//! | entry | attribute |
//! | --- | --- |
//! | `remote_address`, `masked_remote_address` | `ip` |
//! | `:path`, `:method`, `:authority` | `path`, `method`, `host` |
//! | `header.x-org` | `header["x-org"]` |
//!
//! With `defaults: { descriptors: together }` all descriptors of a request are one request, as in
//! Limitador: rules read `descriptors[0]["user"]`, and a plain name is the entry of the last
//! descriptor that has it. The request is charged once, and every descriptor gets its status.
//!
//! Rules decide as always: a descriptor that is refused costs nothing. One that a rule lets pass
//! outright is unlimited, and one that a rule refuses outright is over.
//!
//! # Counters
//!
//! A counter is named by the domain, the entries, the length of the window and the algorithm.
//! Editing how many are allowed keeps it.

mod check_plan;
mod config_dump;
mod descriptor_reader;
mod descriptor_tree;
mod domains;
mod entry_writer;
mod explain;
mod fields;
mod hit_counts;
mod join_all;
mod metadata;
mod metric_name;
mod outline;
mod planned_check;
mod rate_limit;
mod replaced_names;
mod request;
mod response;
mod rule_domains;
mod unit;

pub use crate::decide::ask_envoy::decide_envoy as decide;
pub use check_plan::{CheckPlan, PlannedCall};
pub(crate) use descriptor_reader::{is_envoy, read};
pub use descriptor_tree::DescriptorTree;
pub use domains::Domains;
pub(crate) use domains::{SharedDomains, join};
pub use explain::explain;
pub use hit_counts::{DescriptorHits, HitCounts};
pub(crate) use hit_counts::{EntrySource, HitListener, WindowReading};
pub(crate) use join_all::join_all;
pub use metadata::Metadata;
pub use metric_name::MetricName;
#[doc(hidden)]
pub use outline::{DescriptorOutline, DomainOutline, LimitOutline, RateOutline};
pub use request::{Descriptor, DescriptorEntries, LimitOverride, RateLimitRequest};
pub use response::{
    Code, CurrentLimit, DescriptorStatus, RateLimitHeaders, RateLimitResponse, near_limit,
};
pub(crate) use rule_domains::{JoinedEntries, decision_status, descriptor_request};
pub use unit::Unit;
