//! Rules ready to be applied: every name looked up, every limit bound to its counters.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Time;

use super::address::Trust;
use super::attribute::Attribute;
use super::bans::Bans;
use super::body_fields::BodyFields;
use super::dedupe::Dedupe;
use super::expr::{Condition, Expr, Scope};
use super::ladder::Ladder;
use super::lists::Lists;
use super::matcher::Matcher;
use super::modes::Modes;
use super::overrides::Overrides;
use super::policy::{MissingKey, Mode, OnError, Priority, Then, Unmatched};
use super::schedule::Schedule;
use super::source::Place;
use crate::hold::DEFAULT_HOLD;
use crate::{Bucket, Consistency, Limit};

/// All rules of one domain.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    pub(crate) name: Box<str>,
    pub(crate) compiled: Arc<Compiled>,
    /// Data: changes without compiling anything.
    pub(crate) lists: Arc<Lists>,
    pub(crate) overrides: Arc<Overrides>,
    /// Those that stand in the file itself.
    pub(crate) file_overrides: Arc<Overrides>,
    pub(crate) bans: Arc<Bans>,
    pub(crate) modes: Arc<Modes>,
}

/// What a file says beside its data.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    /// No other has it, before or after.
    pub(crate) number: u64,
    /// The domain's name, for whoever has only this.
    pub(crate) domain: Box<str>,
    pub(crate) trust: Trust,
    pub(crate) unmatched: Unmatched,
    pub(crate) matcher: Matcher,
    pub(crate) rules: Vec<Rule>,
    /// Whether any of them counts by upstream.
    pub(crate) per_upstream: bool,
    /// The numbers of rules by their names.
    pub(crate) by_name: HashMap<Box<str>, u32>,
    pub(crate) plans: Plans,
    /// Those that look at bodies.
    pub(crate) bodies: Box<[BodyFields]>,
    pub(crate) scope: Scope,
    /// Where an override that only has a date ends it.
    pub(crate) timezone: Option<String>,
}

/// The plans there are, by number.
#[derive(Clone, Debug)]
pub(crate) struct Plans {
    pub(crate) names: Vec<Box<str>>,
    pub(crate) by_name: HashMap<Box<str>, u32>,
    /// Says which plan a request has.
    pub(crate) of: Option<Expr>,
    /// The plan of those who have none.
    pub(crate) default: Option<u32>,
}

impl Plans {
    pub(crate) fn named(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) place: Place,
    pub(crate) name: Box<str>,
    pub(crate) bucket: Box<str>,
    pub(crate) per: Vec<KeyPart>,
    pub(crate) limits: Vec<RuleLimit>,
    pub(crate) cost: Option<Cost>,
    pub(crate) count: Option<Condition>,
    /// The attributes of the answer that `count` and `cost.settle` look at.
    pub(crate) outcome: Box<[Box<str>]>,
    pub(crate) then: Then,
    /// The counters behind `then: ban`.
    pub(crate) ladder: Option<Box<Ladder>>,
    pub(crate) mode: Mode,
    pub(crate) during: Option<Schedule>,
    pub(crate) on_error: OnError,
    pub(crate) missing_key: MissingKey,
    pub(crate) priority: PriorityOf,
    pub(crate) consistency: Consistency,
    /// Who has a share of its limits.
    pub(crate) fair: Option<KeyPart>,
    pub(crate) dedupe: Option<Box<Dedupe>>,
}

impl Rule {
    /// Whether it counts outcomes, or settles costs by them.
    pub(crate) fn has_outcome(&self) -> bool {
        !self.outcome.is_empty() || self.settle().is_some()
    }

    /// What a request turned out to cost.
    pub(crate) fn settle(&self) -> Option<&Expr> {
        self.cost.as_ref()?.settle.as_ref()
    }

    /// How long after its decision a charge may still go back.
    pub(crate) fn expire(&self) -> Duration {
        self.cost.as_ref().and_then(|cost| cost.expire).unwrap_or(DEFAULT_HOLD)
    }
}

/// How important a request is.
#[derive(Clone, Debug)]
pub(crate) enum PriorityOf {
    Fixed(Priority),
    /// Says the word; anything else is normal.
    Value(Expr),
}

/// One element of `per`.
#[derive(Clone, Debug)]
pub(crate) enum KeyPart {
    Value(Expr),
    /// An address, as part of a network of so many bits.
    Ip {
        of: Attribute,
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
    Fixed(Bound),
    /// By plan number; a plan that has no such limit does not limit.
    Plan {
        name: Box<str>,
        by_plan: Vec<Vec<Bound>>,
    },
    Distinct(Box<Distinct>),
}

/// A limit and the bucket its counters are in.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) limit: Limit,
    pub(crate) bucket: Bucket,
}

/// So many different values: one counter remembers each value seen, another how many there were.
#[derive(Clone, Debug)]
pub(crate) struct Distinct {
    /// What the values are of, as it was written.
    pub(crate) name: Box<str>,
    pub(crate) of: Expr,
    pub(crate) seen: Bound,
    pub(crate) count: Bound,
}

/// What a request costs.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    pub(crate) reserve: CostOf,
    /// What is reserved where the expression has no number.
    pub(crate) otherwise: Option<u64>,
    pub(crate) settle: Option<Expr>,
    pub(crate) expire: Option<Duration>,
}

#[derive(Clone, Debug)]
pub(crate) enum CostOf {
    Fixed(u64),
    Value(Expr),
}

/// What an override gives to those it is about.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) gives: Gives,
    pub(crate) until: Option<Time>,
}

#[derive(Clone, Debug)]
pub(crate) enum Gives {
    /// Instead of all limits of the rule.
    Limits(Vec<Bound>),
    /// Instead of the plan the request says.
    Plan(u32),
}
