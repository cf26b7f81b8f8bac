//! The rule language of tollgate: which limits apply to a request, written in YAML.
//!
//! ```
//! use tollgate_rules::{Request, RuleLimiter, Rules};
//!
//! let rules: Rules = r#"
//! plans:
//!   default: { api: 60/h }
//!   pro: { api: 5k/h burst 200 }
//! attributes: [org]
//! rules:
//!   - { name: health, route: GET /health, then: allow }
//!   - { name: edge, per: ip, limit: 10/s burst 20 }
//!   - { name: api, per: org, limit: plan.api }
//!   - { name: login, route: POST /login, per: ip, limit: [5/min, 20/h sliding] }
//! "#.parse()?;
//! let limiter = RuleLimiter::new(rules);
//!
//! let request = Request::new("POST", "/login").peer("203.0.113.7".parse().unwrap());
//! let decision = limiter.decide_now(&request);
//! assert!(decision.allowed);
//! assert_eq!(decision.rule(), Some("login")); // closest to its end: 4 of 5 are left
//! # Ok::<(), tollgate_rules::Diagnostics>(())
//! ```
//!
//! [`Then`] has an example of each action over a limit.
//!
//! `docs/rules.md` describes the language. The stages are the folders of this crate:
//!
//! 1. `read/`: YAML to definitions, field by field, with every error and its span;
//! 2. `compile/`: resolves names, compiles expressions, binds limits to counters, warns about risky
//!    rules;
//! 3. `matching/`: a [`Request`] to the rules that match it, and their checks;
//! 4. `decide/`: one call to the store, one [`Decision`];
//! 5. `actions/`: the actions over a limit.
//!
//! With the feature `envoy`, `envoy/` reads the files of Envoy's rate limit service.
//!
//! # Identity
//!
//! A counter has an id and a key. The id is a hash of the domain, the rule's name or `bucket`, and the
//! limit; the [key](encode_key) is an injective text of the values of `per`. Both are the same in
//! every process and every store, and independent of the position of a rule in its file. An edited
//! limit has another id; [`RuleLimiter::replace`] carries its counters over.
//!
//! # What was rejected
//!
//! *Deserialising into structs*: it stops at the first error. *One type for definitions and compiled
//! rules*: definitions are full of names and spans that a decision must not pay for. *First match
//! wins*: limits compose, so every rule that matches applies. *A language of our own for conditions*:
//! CEL is known and specified; our tree is only a fast path for its plain cases.

mod actions;
mod compile;
mod decide;
#[cfg(feature = "envoy")]
pub mod envoy;
#[cfg(any(test, fuzzing))]
pub mod fuzz_targets;
mod matching;
mod read;
mod rules;

pub use actions::fair::FairTenants;
pub use actions::ladder_ban_list::LadderBan;
pub use actions::ladder_bans::LadderBans;
pub use actions::queue::{QueueLength, QueuedRequest};
pub use compile::data::{BanData, Data, DataError, ListData, ModeData, OverrideData};
pub use compile::door::Door;
pub use compile::glob::matches as glob_matches;
pub use compile::info::RuleInfo;
pub use compile::policy::{Ban, MissingKey, Mode, OnError, Priority, Queue, Shed, Then, Unmatched};
pub use compile::value::Value;
pub use decide::adjust::{AdjustTarget, Adjustment};
pub use decide::admission::Admission;
pub use decide::builder::{MemoryCounters, RuleLimiterBuilder};
pub use decide::cases::CaseResult;
pub use decide::decision::{Decision, LimitStatus, Reason, RuleLocation};
pub use decide::explain::{Explanation, LimitExplanation, RuleExplanation};
pub use decide::incomplete_key::IncompleteKey;
pub use decide::limiter::RuleLimiter;
pub use decide::maintenance::Maintenance;
pub use decide::matched_rules::MatchedRule;
pub use decide::outcome::Outcome;
pub use decide::saved_admission::SavedAdmission;
pub use decide::saved_limiter::SavedLimiter;
pub use decide::settlement::SettledAs;
pub use decide::shadow_denial::ShadowDenial;
pub use decide::status::LimiterStatus;
pub use matching::address::rightmost_untrusted;
pub use matching::attribute_word::AttributeWord;
pub use matching::key::{describe_key, encode_key, parse_described_key};
pub use matching::key_hasher::KeySecret;
#[doc(hidden)]
pub use matching::path::escape as escape_path;
pub use matching::path::normal as normalize_path;
pub use matching::request::{HeaderSource, Request};
pub use read::diagnostic::{CODES, Diagnostic, Diagnostics, Finding, Severity};
pub use read::load::LoadError;
pub use read::source::Source;
#[doc(hidden)]
pub use read::yaml;
pub use rules::Rules;

/// The examples of the README, run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
