//! Compiled rules: every name resolved, every limit bound to its counters.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Time;

use crate::actions::bans::Bans;
use crate::actions::dedupe::Dedupe;
use crate::actions::ladder::Ladder;
use crate::actions::modes::Modes;
use crate::compile::attribute::Attribute;
use crate::compile::attributes_read::AttributesRead;
use crate::compile::expr::{Condition, Expr, Scope};
use crate::compile::lists::Lists;
use crate::compile::overrides::Overrides;
use crate::compile::policy::{MissingKey, Mode, OnError, Priority, Then, Unmatched};
use crate::compile::schedule::Schedule;
use crate::matching::key_hasher::KeyHasher;
use crate::matching::matcher::Matcher;
use crate::matching::request_facts::RequestReading;
use crate::read::source::SourceSpan;
use tollgate::Hold;
use tollgate::limit::LimitSummary;
use tollgate::{Consistency, CounterId, Limit};

/// The compiled rules of one domain with their data.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    pub(crate) name: Box<str>,
    pub(crate) compiled: Arc<CompiledDomain>,
    /// The lists, which change without compiling anything.
    pub(crate) lists: Arc<Lists>,
    pub(crate) overrides: Arc<Overrides>,
    /// The overrides of the file, without those given as data.
    pub(crate) file_overrides: Arc<Overrides>,
    /// The bans by the keys that counters have.
    pub(crate) bans: Arc<Bans>,
    /// The bans as they were given, maybe with secrets in clear.
    pub(crate) given_bans: Arc<Bans>,
    pub(crate) modes: Arc<Modes>,
    /// Hashes the secrets in keys.
    pub(crate) hasher: Arc<KeyHasher>,
}

/// The part of a domain that only changes with its file.
#[derive(Clone, Debug)]
pub(crate) struct CompiledDomain {
    /// A number that no other compiled domain of this process has.
    pub(crate) number: u64,
    /// The name of the domain.
    pub(crate) domain: Box<str>,
    /// How requests are read: trusted proxies, and what paths have in common.
    pub(crate) reading: RequestReading,
    pub(crate) unmatched: Unmatched,
    pub(crate) matcher: Matcher,
    pub(crate) rules: Vec<CompiledRule>,
    /// The numbers of rules by their names.
    pub(crate) by_name: HashMap<Box<str>, u32>,
    pub(crate) plans: Plans,
    pub(crate) reads: AttributesRead,
    pub(crate) scope: Scope,
    /// Whether the key of some rule contains a secret.
    pub(crate) has_secrets: bool,
    /// The time zone of dates without an offset.
    pub(crate) timezone: Option<String>,
}

/// The plans of a domain, by number.
#[derive(Clone, Debug)]
pub(crate) struct Plans {
    pub(crate) names: Vec<Box<str>>,
    pub(crate) by_name: HashMap<Box<str>, u32>,
    /// The expression that returns the plan of a request.
    pub(crate) selector: Option<Expr>,
    /// The plan of requests without one.
    pub(crate) default: Option<u32>,
}

impl Plans {
    pub(crate) fn named(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }
}

/// A compiled rule.
#[derive(Clone, Debug)]
pub(crate) struct CompiledRule {
    pub(crate) span: SourceSpan,
    pub(crate) name: Box<str>,
    pub(crate) bucket: Box<str>,
    pub(crate) per: Vec<KeyPart>,
    pub(crate) limits: Vec<RuleLimit>,
    pub(crate) cost: Option<CompiledCost>,
    pub(crate) count: Option<Condition>,
    /// The attributes of the response that `count` and `cost.settle` read.
    pub(crate) outcome: Box<[Box<str>]>,
    pub(crate) then: Then,
    /// The counters behind `then: ban`.
    pub(crate) ladder: Option<Box<Ladder>>,
    pub(crate) mode: Mode,
    pub(crate) during: Option<Schedule>,
    pub(crate) on_error: OnError,
    pub(crate) missing_key: MissingKey,
    pub(crate) priority: PrioritySource,
    pub(crate) consistency: Consistency,
    /// The expression that names the tenants of a fair rule.
    pub(crate) fair: Option<KeyPart>,
    pub(crate) dedupe: Option<Box<Dedupe>>,
    /// Whether a limit counts another unit than requests.
    pub(crate) has_units: bool,
}

impl CompiledRule {
    /// Returns the unit that a limit of the rule counts, as it is written: `tokens`.
    pub(crate) fn unit_of(&self, quota: &LimitSummary) -> Option<&str> {
        if !self.has_units {
            return None;
        }
        let is_same = |bound: &&BoundLimit| bound.limit.summary() == *quota;
        let bound = self.limits.iter().flat_map(RuleLimit::bound).find(is_same);
        bound.and_then(|bound| bound.limit.unit_label())
    }

    /// Whether it counts outcomes, or settles costs by them.
    pub(crate) fn has_outcome(&self) -> bool {
        !self.outcome.is_empty() || self.settle().is_some()
    }

    /// Whether its keys contain a secret.
    pub(crate) fn has_secrets(&self) -> bool {
        let is_secret = |part: &KeyPart| matches!(part, KeyPart::Value(expr) if expr.is_secret());
        self.per.iter().chain(&self.fair).any(is_secret)
            || self.dedupe.as_ref().is_some_and(|dedupe| dedupe.id.is_secret())
            || self.limits.iter().any(|limit| {
                matches!(limit, RuleLimit::Distinct(distinct) if distinct.value.is_secret())
            })
    }

    /// Returns the expression of the cost after the request.
    pub(crate) fn settle(&self) -> Option<&Expr> {
        self.cost.as_ref()?.settle.as_ref()
    }

    /// Returns how long after its decision a charge may be refunded.
    pub(crate) fn expire(&self) -> Duration {
        self.cost.as_ref().and_then(|cost| cost.expire).unwrap_or(Hold::DEFAULT_EXPIRY)
    }
}

/// The source of a request's priority.
#[derive(Clone, Debug)]
pub(crate) enum PrioritySource {
    Fixed(Priority),
    /// An expression that returns the word; anything else is normal.
    Value(Expr),
}

/// One element of `per`.
#[derive(Clone, Debug)]
pub(crate) enum KeyPart {
    Value(Expr),
    /// An address, grouped by the network it is in.
    Ip {
        attribute: Attribute,
        bits4: u8,
        bits6: u8,
    },
    /// The method and the route.
    Endpoint,
}

/// One element of `limit`.
#[expect(clippy::large_enum_variant, reason = "most are fixed, and a decision reads them in place")]
#[derive(Clone, Debug)]
pub(crate) enum RuleLimit {
    Fixed(BoundLimit),
    /// The limits of each plan, by number; a plan without such a limit does not limit.
    Plan {
        name: Box<str>,
        by_plan: Vec<Vec<BoundLimit>>,
    },
    Distinct(Box<DistinctLimit>),
}

impl RuleLimit {
    /// Returns the limits that apply to one plan or another.
    pub(crate) fn bound(&self) -> impl Iterator<Item = &BoundLimit> {
        let (fixed, by_plan): (Option<&BoundLimit>, &[Vec<BoundLimit>]) = match self {
            RuleLimit::Fixed(bound) => (Some(bound), &[]),
            RuleLimit::Plan { by_plan, .. } => (None, by_plan),
            RuleLimit::Distinct(distinct) => (Some(&distinct.count), &[]),
        };
        fixed.into_iter().chain(by_plan.iter().flatten())
    }
}

/// A limit bound to its counters.
#[derive(Clone, Debug)]
pub(crate) struct BoundLimit {
    pub(crate) limit: Limit,
    pub(crate) counter: CounterId,
}

/// A limit on the number of different values of an attribute.
///
/// One counter stores each value seen, another counts them.
#[derive(Clone, Debug)]
pub(crate) struct DistinctLimit {
    /// The attribute as it is written.
    pub(crate) name: Box<str>,
    pub(crate) value: Expr,
    pub(crate) seen: BoundLimit,
    pub(crate) count: BoundLimit,
}

/// The compiled cost of a request.
#[derive(Clone, Debug)]
pub(crate) struct CompiledCost {
    pub(crate) reserve: CostSource,
    /// The cost charged if `reserve` has no number.
    pub(crate) otherwise: Option<u64>,
    pub(crate) settle: Option<Expr>,
    pub(crate) expire: Option<Duration>,
}

/// The source of the cost charged before the request.
#[derive(Clone, Debug)]
pub(crate) enum CostSource {
    Fixed(u64),
    Value(Expr),
}

/// An override and its end.
#[derive(Clone, Debug)]
pub(crate) struct OverrideGrant {
    pub(crate) effect: OverrideEffect,
    pub(crate) until: Option<Time>,
}

/// The effect of an override.
#[derive(Clone, Debug)]
pub(crate) enum OverrideEffect {
    /// Limits that replace all limits of the rule.
    Limits(Vec<BoundLimit>),
    /// This plan replaces the plan of the request.
    Plan(u32),
}
