//! The checks of a request: one for each limit of the rules it matches.

mod check_builder;
mod pending;

use std::ops::Range;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Span, Time};

use crate::actions::ladder;
use crate::actions::queue::AttemptKind;
use crate::compile::domain::{BoundLimit, CompiledRule, Domain};
use crate::compile::expr::Activation;
use crate::compile::policy::{Mode, Priority, Then};
use crate::decide::incomplete_key::IncompleteKeyParts;
use crate::matching::key::KeyBytes;
use crate::matching::matcher::Hit;
use crate::matching::request::OutcomeTracking;
use crate::matching::request_facts::RequestFacts;
use check_builder::{AddOutcome, CheckBuilder};
use tollgate::{Check, Consistency, Key, PreviousLimit, Reserve};

pub(crate) use check_builder::write_part;

/// The outcome of matching a request to the rules of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchOutcome {
    /// No rule matches.
    Nothing,
    /// The rules that match are switched off.
    SwitchedOff,
    /// A rule allows the request, whatever others decide.
    Allowed { rule: u32 },
    /// A rule refuses the request outright.
    Denied { rule: u32 },
    /// The request lacks an attribute that a rule requires.
    KeyMissing { rule: u32 },
    /// Limits decide.
    Limited,
}

/// The check of one rule: its key, its cost and how it is enforced.
#[derive(Clone, Debug)]
pub(crate) struct RuleCheck {
    pub(crate) rule: u32,
    /// The range of its key in [`RuleChecks::keys`].
    pub(crate) key: Range<usize>,
    pub(crate) cost: u64,
    pub(crate) mode: Mode,
    pub(crate) priority: Priority,
    /// The range of the tenant's name in [`RuleChecks::keys`], if the rule is fair.
    pub(crate) tenant: Option<Range<usize>>,
    /// Whether a refusal is enforced.
    pub(crate) enforced: bool,
    /// Whether the request is charged; otherwise the limits are only tried.
    pub(crate) charged: bool,
}

/// The check of one limit of a rule.
#[derive(Clone, Debug)]
pub(crate) struct LimitCheck<'d> {
    /// The index of its rule in [`RuleChecks::rule_checks`].
    pub(crate) rule_check: usize,
    pub(crate) bound: &'d BoundLimit,
    pub(crate) key: Range<usize>,
    pub(crate) cost: u64,
    pub(crate) kind: LimitCheckKind,
    pub(crate) origin: LimitOrigin,
    /// The part of the limit that is reserved for other requests.
    pub(crate) reserve: Reserve,
}

/// The origin of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitOrigin {
    Rule,
    /// A plan, by its number.
    Plan(u32),
    Override,
}

/// The purpose of a limit check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitCheckKind {
    /// A limit like any other.
    Limit,
    /// Whether a value was seen before; `DistinctCount` follows it.
    DistinctSeen,
    /// The number of values seen; checked only for a new one.
    DistinctCount,
    /// Whether the key is banned.
    Ban,
    /// Whether a request with the same id was charged before: then this one is not.
    Dedupe,
}

impl LimitCheckKind {
    /// Whether it is decided together with the limits but not reported to clients.
    pub(crate) fn is_auxiliary(self) -> bool {
        matches!(self, LimitCheckKind::Ban | LimitCheckKind::Dedupe)
    }
}

/// The checks of a request, with their keys.
pub(crate) struct RuleChecks<'d> {
    pub(crate) keys: KeyBytes,
    pub(crate) rule_checks: SmallVec<[RuleCheck; 4]>,
    pub(crate) limit_checks: SmallVec<[LimitCheck<'d>; 6]>,
    /// Whether every limit is enforced and charged, so that one call decides.
    pub(crate) is_simple: bool,
    /// Whether some checks are auxiliary: bans and dedupe ids.
    pub(crate) has_auxiliary: bool,
    /// Whether some rule is fair.
    pub(crate) is_fair: bool,
    /// The rules whose keys have missing parts, so that requests share their counters.
    pub(crate) incomplete_keys: Vec<IncompleteKeyParts>,
    /// The maximum wait that the request itself accepts.
    pub(crate) patience: Duration,
    /// Whether the outcome of the request will be reported.
    pub(crate) tracking: OutcomeTracking,
    /// The occasion of the decision.
    pub(crate) attempt: AttemptKind<'d>,
}

impl<'d> RuleChecks<'d> {
    pub(crate) fn none() -> RuleChecks<'d> {
        RuleChecks {
            keys: KeyBytes::new(),
            rule_checks: SmallVec::new(),
            limit_checks: SmallVec::new(),
            is_simple: true,
            has_auxiliary: false,
            is_fair: false,
            incomplete_keys: Vec::new(),
            patience: Duration::ZERO,
            tracking: OutcomeTracking::ByRules,
            attempt: AttemptKind::DecideOnly,
        }
    }

    /// Returns the check of a limit for the store.
    pub(crate) fn check<'c>(
        &'c self,
        limit_check: &LimitCheck<'c>,
        rules: &[CompiledRule],
        lease: u64,
        previous: Option<&'c PreviousLimit>,
    ) -> Check<'c> {
        let rule_check = &self.rule_checks[limit_check.rule_check];
        let rule = &rules[rule_check.rule as usize];
        let (patience, consistency) = match limit_check.kind {
            // A request does not wait for the end of a ban.
            LimitCheckKind::Ban => (Span::ZERO, ladder::consistency(rule.consistency)),
            LimitCheckKind::Dedupe => (Span::ZERO, Consistency::Strict),
            _ => {
                let patience = rule.then.patience().max(self.patience);
                (self.attempt.patience_left(rule, limit_check, patience.into()), rule.consistency)
            }
        };
        let key = Key::Bytes(&self.keys[limit_check.key.clone()]);
        let check =
            Check::new(limit_check.bound.counter, key, &limit_check.bound.limit, limit_check.cost);
        let reserve = limit_check.reserve;
        Check { lease, previous, patience, reserve, consistency, ..check }
    }

    /// Returns the text of a rule's key.
    pub(crate) fn key(&self, rule_check: &RuleCheck) -> &str {
        std::str::from_utf8(&self.keys[rule_check.key.clone()]).unwrap_or_default()
    }
}

/// Collects the checks of a request, if limits decide.
pub(crate) fn of_limits<'d>(
    domain: &'d Domain,
    facts: &RequestFacts<'_>,
    date: Time,
) -> Option<RuleChecks<'d>> {
    let mut checks = RuleChecks::none();
    (collect(domain, facts, date, &mut checks) == MatchOutcome::Limited).then_some(checks)
}

/// Matches a request and collects its checks at a `date`, by the wall clock. They are large, so they
/// are written in place.
pub(crate) fn collect<'d>(
    domain: &'d Domain,
    facts: &RequestFacts<'_>,
    date: Time,
    checks: &mut RuleChecks<'d>,
) -> MatchOutcome {
    checks.patience = facts.patience;
    checks.tracking = facts.tracking;
    let compiled = &*domain.compiled;
    let mut hits = compiled.matcher.find(facts, &domain.lists);
    if !facts.pending.is_empty() && !pending::leave_out(compiled, facts, &mut hits) {
        return MatchOutcome::Nothing;
    }
    let rule_of = |hit: &Hit| &compiled.rules[hit.rule as usize];
    let mut any_off = false;
    hits.retain(|hit| {
        let is_off = domain.mode_of(hit.rule, date) == Mode::Off;
        any_off |= is_off;
        !is_off && rule_of(hit).during.as_ref().is_none_or(|during| during.covers(date))
    });
    if hits.is_empty() {
        let is_off = any_off || domain.modes.are_all_off(date);
        return if is_off { MatchOutcome::SwitchedOff } else { MatchOutcome::Nothing };
    }
    if let Some(hit) = hits.iter().find(|hit| rule_of(hit).then == Then::Allow) {
        return MatchOutcome::Allowed { rule: hit.rule };
    }
    let is_enforced = |hit: &Hit| domain.mode_of(hit.rule, date) == Mode::Enforce;
    if let Some(hit) = hits.iter().find(|hit| rule_of(hit).limits.is_empty() && is_enforced(hit)) {
        return MatchOutcome::Denied { rule: hit.rule };
    }
    let mut plan = None;
    for hit in hits.iter().filter(|hit| !rule_of(hit).limits.is_empty()) {
        let activation =
            Activation { facts, route: compiled.matcher.route(*hit), lists: &domain.lists };
        let mut builder = CheckBuilder { domain, activation, date, plan: &mut plan, into: checks };
        if builder.add(hit.rule) == AddOutcome::KeyMissing {
            return MatchOutcome::KeyMissing { rule: hit.rule };
        }
    }
    MatchOutcome::Limited
}
