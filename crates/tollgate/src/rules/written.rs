//! Rules as they were written: checked field by field, names not yet looked up.

use std::time::Duration;

use ipnet::IpNet;

use super::policy::{self, MissingKey, Mode, OnError, Then, Unmatched};
use super::route::Route;
use super::schedule::Schedule;
use super::source::{At, Place};
use crate::{Consistency, Limit};

/// One file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    pub(crate) place: Place,
    pub(crate) domain: Option<At<String>>,
    pub(crate) defaults: Defaults,
    pub(crate) trusted_proxies: Vec<At<IpNet>>,
    /// Names and the expressions behind them.
    pub(crate) attributes: Vec<(At<String>, At<String>)>,
    pub(crate) lists: Vec<List>,
    pub(crate) plans: Vec<Plan>,
    pub(crate) overrides: Vec<Override>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) cases: Vec<Case>,
}

/// What rules do unless they say otherwise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defaults {
    pub(crate) unmatched: Unmatched,
    pub(crate) on_error: OnError,
    pub(crate) missing_key: MissingKey,
    /// 64 unless written.
    pub(crate) ipv6_prefix: Option<u8>,
    /// The IANA name, known to exist.
    pub(crate) timezone: Option<At<String>>,
    /// The plan of those who have none: `default` unless written.
    pub(crate) plan: Option<At<String>>,
    pub(crate) consistency: Consistency,
}

/// A named set of addresses, names or patterns.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) name: At<String>,
    pub(crate) entries: Vec<At<String>>,
}

/// A named set of limits.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) name: At<String>,
    /// `api: 60/h`: a name and one or several limits.
    pub(crate) limits: Vec<(At<String>, Vec<At<Limit>>)>,
}

/// Another limit or plan for some.
#[derive(Clone, Debug)]
pub(crate) struct Override {
    pub(crate) place: Place,
    /// Attributes and patterns, all of which must match.
    pub(crate) matches: Vec<(At<String>, At<String>)>,
    /// One rule's name; all rules without it.
    pub(crate) rule: Option<At<String>>,
    pub(crate) limits: Vec<At<Limit>>,
    pub(crate) plan: Option<At<String>>,
    /// Until when, in nanoseconds since 1970; for ever without it.
    pub(crate) until: Option<At<u64>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) name: At<String>,
    pub(crate) routes: Vec<At<Route>>,
    pub(crate) when: Option<At<When>>,
    /// Each an expression, `ip/48` included.
    pub(crate) per: Vec<At<String>>,
    pub(crate) limits: Vec<At<Written>>,
    pub(crate) cost: Option<Cost>,
    /// Only what this is true of counts.
    pub(crate) count: Option<At<String>>,
    /// `deny 429` if nothing is written.
    pub(crate) then: Option<At<Then>>,
    pub(crate) mode: Mode,
    pub(crate) bucket: Option<At<String>>,
    pub(crate) on_error: Option<OnError>,
    pub(crate) missing_key: Option<MissingKey>,
    pub(crate) priority: Option<At<Priority>>,
    pub(crate) consistency: Option<Consistency>,
    pub(crate) during: Option<At<Schedule>>,
    /// `fair: { by: org }`.
    pub(crate) fair: Option<At<String>>,
    /// The expression that names a request, so that a retry is charged once, and for how long.
    pub(crate) dedupe: Option<(At<String>, Option<Duration>)>,
}

/// How important a rule's requests are.
#[derive(Clone, Debug)]
pub(crate) enum Priority {
    Word(policy::Priority),
    /// Says one of the words.
    Expression(String),
}

/// When a rule applies.
#[derive(Clone, Debug)]
pub(crate) enum When {
    /// `when: ip in lists.office && plan == "free"`.
    Expression(String),
    /// `when: { plan: free, method: [GET, HEAD], user: "svc-*" }`: attributes and the patterns
    /// any of which must match.
    Fields(Vec<(At<String>, Vec<At<String>>)>),
}

/// A limit as a rule names it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Written {
    /// `10/s burst 20`, or the long form of it.
    Limit(Limit),
    /// `plan.month calendar`: the limit a plan has under that name, with these options more.
    Plan { limit: String, options: String },
    /// `3 distinct user/h`: so many different values of an attribute.
    Distinct { count: u64, attribute: String, window: Duration },
}

/// What a request costs: expressions.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    /// Taken at first.
    pub(crate) reserve: At<String>,
    /// Taken where that has no number.
    pub(crate) otherwise: Option<u64>,
    /// What it turned out to be.
    pub(crate) settle: Option<At<String>>,
    /// When an unsettled reservation becomes final.
    pub(crate) expire: Option<Duration>,
}

/// A test case, written beside the rules.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: Option<String>,
    /// When it begins, in nanoseconds since 1970.
    pub(crate) starts: Option<u64>,
    pub(crate) steps: Vec<Step>,
}

/// One line of a case: a request, when, how often, and what is expected.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Since the case began; the time of the step before without it.
    pub(crate) at: Option<Duration>,
    /// `POST /login ip=1.2.3.4 user=ann`.
    pub(crate) request: At<String>,
    pub(crate) cost: Option<u64>,
    /// How many such requests.
    pub(crate) times: u64,
    /// Names and values, each checked: `allow` and `deny` (`true`, `false`, or how many of
    /// `times`; `expect: allow` is `allow: true`), `rule` (a name), `code` (a status),
    /// `remaining` (a number), `retry_after` and `wait` (lengths of time).
    pub(crate) expect: Vec<(At<String>, At<String>)>,
}
