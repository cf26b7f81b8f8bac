//! The definitions in a rules file: checked field by field, names not yet resolved.

use std::time::Duration;

use ipnet::IpNet;

use crate::compile::policy::{self, MissingKey, Mode, OnError, Then, Unmatched};
use crate::compile::route::Route;
use crate::compile::schedule::Schedule;
use crate::matching::request_path::PathReading;
use crate::read::source::{SourceSpan, Spanned};
use tollgate::{Consistency, Limit};

/// The content of one rules file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    pub(crate) span: SourceSpan,
    /// Whether the file does not tell its domain: it is empty, no mapping, or the name is wrong.
    pub(crate) has_unknown_domain: bool,
    pub(crate) domain: Option<Spanned<String>>,
    pub(crate) defaults: Defaults,
    pub(crate) trusted_proxies: Vec<Spanned<IpNet>>,
    pub(crate) attributes: Vec<AttributeDefinition>,
    pub(crate) lists: Vec<ListDefinition>,
    pub(crate) plans: Vec<PlanDefinition>,
    pub(crate) overrides: Vec<OverrideDefinition>,
    pub(crate) rules: Vec<RuleDefinition>,
    pub(crate) cases: Vec<TestCase>,
}

/// The defaults of a file, for rules that do not override them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defaults {
    pub(crate) unmatched: Unmatched,
    pub(crate) on_error: OnError,
    pub(crate) missing_key: MissingKey,
    /// The bits of the IPv6 networks that clients are grouped by; 64 if it is none.
    pub(crate) ipv6_prefix: Option<u8>,
    /// The IANA name of a time zone that exists.
    pub(crate) timezone: Option<Spanned<String>>,
    /// The plan of clients without one; `default` if it is none.
    pub(crate) plan: Option<Spanned<String>>,
    pub(crate) consistency: Consistency,
    /// What spellings of a path have in common.
    pub(crate) path: PathReading,
    /// Whether all descriptors of a request of Envoy's protocol are decided together.
    pub(crate) joins_descriptors: bool,
}

/// A declared attribute: a name for an expression, or for what callers send.
#[derive(Clone, Debug)]
pub(crate) struct AttributeDefinition {
    pub(crate) name: Spanned<String>,
    /// The expression; none if callers send the attribute.
    pub(crate) value: Option<Spanned<String>>,
    /// Whether its value is a secret; none if that follows from the expression.
    pub(crate) secret: Option<bool>,
}

/// A named list of addresses, names and patterns.
#[derive(Clone, Debug)]
pub(crate) struct ListDefinition {
    pub(crate) name: Spanned<String>,
    pub(crate) entries: Vec<Spanned<String>>,
}

/// A plan: a named set of limits.
#[derive(Clone, Debug)]
pub(crate) struct PlanDefinition {
    pub(crate) name: Spanned<String>,
    /// Names with one or several limits each: `api: 60/h`.
    pub(crate) limits: Vec<(Spanned<String>, Vec<Spanned<Limit>>)>,
}

/// An override: another limit or plan for the requests that match.
#[derive(Clone, Debug)]
pub(crate) struct OverrideDefinition {
    pub(crate) span: SourceSpan,
    /// Attributes and patterns, all of which must match.
    pub(crate) matches: Vec<(Spanned<String>, Spanned<String>)>,
    /// The rule whose limits it replaces; none for a plan that replaces the plan of all rules.
    pub(crate) rule: Option<Spanned<String>>,
    pub(crate) limits: Vec<Spanned<Limit>>,
    pub(crate) plan: Option<Spanned<String>>,
    /// The end in nanoseconds since 1970, if it has one.
    pub(crate) until: Option<Spanned<u64>>,
}

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct RuleDefinition {
    pub(crate) name: Spanned<String>,
    pub(crate) routes: Vec<Spanned<Route>>,
    pub(crate) when: Option<Spanned<WhenDefinition>>,
    /// The expressions that make the key; `ip/48` is one.
    pub(crate) per: Vec<Spanned<String>>,
    pub(crate) limits: Vec<Spanned<LimitDefinition>>,
    pub(crate) cost: Option<CostDefinition>,
    /// The condition of requests that count.
    pub(crate) count: Option<Spanned<String>>,
    /// The action over the limit; `deny 429` if it is none.
    pub(crate) then: Option<Spanned<Then>>,
    pub(crate) mode: Mode,
    pub(crate) bucket: Option<Spanned<String>>,
    pub(crate) on_error: Option<OnError>,
    pub(crate) missing_key: Option<MissingKey>,
    pub(crate) priority: Option<Spanned<PriorityDefinition>>,
    pub(crate) consistency: Option<Consistency>,
    pub(crate) during: Option<Spanned<Schedule>>,
    /// The attribute that names the tenants: `fair: { by: org }`.
    pub(crate) fair: Option<Spanned<String>>,
    /// The expression that identifies a request, so that a retry is charged once, and how long the
    /// id is remembered.
    pub(crate) dedupe: Option<(Spanned<String>, Option<Duration>)>,
}

/// The priority of a rule's requests.
#[derive(Clone, Debug)]
pub(crate) enum PriorityDefinition {
    Word(policy::Priority),
    /// An expression whose value is one of the words.
    Expression(String),
}

/// The `when` of a rule.
#[derive(Clone, Debug)]
pub(crate) enum WhenDefinition {
    /// `when: ip in lists.office && plan == "free"`.
    Expression(String),
    /// `when: { plan: free, method: [GET, HEAD], user: "svc-*" }`: attributes, each with patterns
    /// of which one must match.
    Fields(Vec<(Spanned<String>, Vec<Spanned<String>>)>),
}

/// One element of a rule's `limit`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LimitDefinition {
    /// `10/s burst 20`, or the long form of it.
    Limit(Limit),
    /// `plan.month calendar`: the plan's limit of that name, with additional options.
    Plan { limit: String, options: String },
    /// `3 distinct user/h`: at most this many different values of an attribute in a window.
    Distinct { count: u64, attribute: String, window: Duration },
}

/// The `cost` of a rule, as expressions.
#[derive(Clone, Debug)]
pub(crate) struct CostDefinition {
    /// The cost charged before the request.
    pub(crate) reserve: Spanned<String>,
    /// The cost charged if `reserve` has no number.
    pub(crate) otherwise: Option<u64>,
    /// The cost after the request.
    pub(crate) settle: Option<Spanned<String>>,
    /// The time after which an unsettled reservation becomes final.
    pub(crate) expire: Option<Duration>,
}

/// A test case of a rules file.
#[derive(Clone, Debug)]
pub(crate) struct TestCase {
    pub(crate) name: Option<String>,
    /// The time of its first step in nanoseconds since 1970, if it is set.
    pub(crate) starts: Option<u64>,
    pub(crate) steps: Vec<TestStep>,
}

/// A step of a test case: a request, its time, a number of repetitions, and what is expected.
#[derive(Clone, Debug)]
pub(crate) struct TestStep {
    /// The time since the case began; that of the step before if it is none.
    pub(crate) at: Option<Duration>,
    /// `POST /login ip=1.2.3.4 user=ann`.
    pub(crate) request: Spanned<String>,
    pub(crate) cost: Option<u64>,
    /// The number of requests.
    pub(crate) times: u64,
    /// The expectations as names and checked values: `allow` and `deny` (`true`, `false`, or how many of
    /// `times`; `expect: allow` is `allow: true`), `rule` (a name), `code` (a status),
    /// `remaining` (a number), `retry_after` and `wait` (lengths of time).
    pub(crate) expect: Vec<(Spanned<String>, Spanned<String>)>,
}
