//! What a request asks of the limits: the rules it matches, turned into checks.

mod build;

use std::ops::Range;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Span, Time};

use super::compiled::{Bound, Domain, Rule};
use super::expr::On;
use super::facts::Facts;
use super::key::KeyBytes;
use super::ladder;
use super::matcher::Hit;
use super::policy::{Mode, Priority, Then};
use super::request::Follow;
use super::room::Turn;
use crate::{Check, Consistency, Former, Key, Reserve};
use build::{Added, Builder};

pub(super) use build::write_part;

/// What a domain's rules make of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matched {
    /// No rule is about it.
    Nothing,
    /// Those that are about it are switched off.
    SwitchedOff,
    /// A rule lets it pass, whatever others say.
    Allowed { rule: u32 },
    /// A rule refuses it outright.
    Denied { rule: u32 },
    /// It lacks an attribute that a rule insists on.
    KeyMissing { rule: u32 },
    /// Limits decide.
    Limited,
}

/// One rule's claim on a request.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    pub(crate) rule: u32,
    /// Where its key is in the bytes.
    pub(crate) key: Range<usize>,
    pub(crate) cost: u64,
    pub(crate) mode: Mode,
    pub(crate) priority: Priority,
    /// Where the name of who has a share of it is in the bytes, if it is shared fairly.
    pub(crate) tenant: Option<Range<usize>>,
    /// Whether its refusal counts.
    pub(crate) enforced: bool,
    /// Whether it is charged; otherwise it is only asked whether it would allow the request.
    pub(crate) charged: bool,
}

/// One limit of a demand.
#[derive(Clone, Debug)]
pub(crate) struct Line<'d> {
    pub(crate) demand: usize,
    pub(crate) bound: &'d Bound,
    pub(crate) key: Range<usize>,
    pub(crate) cost: u64,
    pub(crate) kind: LineKind,
    pub(crate) origin: Origin,
    /// What it must leave for others.
    pub(crate) reserve: Reserve,
}

/// Where a limit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Rule,
    /// A plan, by its number.
    Plan(u32),
    Override,
}

/// What a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// A limit like any other.
    Limit,
    /// Whether a value was seen before; `CountOf` follows it.
    Seen,
    /// How many values were seen: asked only for one that was not.
    CountOf,
    /// Whether the key is banned.
    Ban,
    /// Whether a request with the same id was charged before: then this one is not.
    Once,
}

impl LineKind {
    /// Whether it is asked beside the limits, and not told of among them.
    pub(crate) fn is_aside(self) -> bool {
        matches!(self, LineKind::Ban | LineKind::Once)
    }
}

/// All demands of a request, with their keys.
pub(crate) struct Demands<'d> {
    pub(crate) keys: KeyBytes,
    pub(crate) demands: SmallVec<[Demand; 4]>,
    pub(crate) lines: SmallVec<[Line<'d>; 6]>,
    /// Every limit is enforced and charged: one call decides.
    pub(crate) is_simple: bool,
    /// Some lines are asked beside the limits.
    pub(crate) has_asides: bool,
    /// Some limit is shared fairly.
    pub(crate) is_fair: bool,
    /// How long the request may be held back, whatever its rules say.
    pub(crate) patience: Duration,
    /// Who asks for its outcome.
    pub(crate) follow: Follow,
    /// On what occasion it asks.
    pub(crate) turn: Turn,
}

impl<'d> Demands<'d> {
    pub(crate) fn none() -> Demands<'d> {
        Demands {
            keys: KeyBytes::new(),
            demands: SmallVec::new(),
            lines: SmallVec::new(),
            is_simple: true,
            has_asides: false,
            is_fair: false,
            patience: Duration::ZERO,
            follow: Follow::ByRules,
            turn: Turn::Asked,
        }
    }

    /// The check of a line.
    pub(crate) fn check<'c>(
        &'c self,
        line: &Line<'c>,
        rules: &[Rule],
        lease: u64,
        former: Option<&'c Former>,
    ) -> Check<'c> {
        let demand = &self.demands[line.demand];
        let rule = &rules[demand.rule as usize];
        let (patience, consistency) = match line.kind {
            // Nobody waits for the end of a ban.
            LineKind::Ban => (Span::ZERO, ladder::consistency(rule.consistency)),
            LineKind::Once => (Span::ZERO, Consistency::Strict),
            _ => {
                let patience = rule.then.patience().max(self.patience);
                (self.turn.patience_left(rule, line, patience.into()), rule.consistency)
            }
        };
        let key = Key::Bytes(&self.keys[line.key.clone()]);
        let check = Check::new(line.bound.bucket, key, &line.bound.limit, line.cost);
        let reserve = line.reserve;
        Check { lease, former, patience, reserve, consistency, ..check }
    }

    /// The text of a demand's key.
    pub(crate) fn key(&self, demand: &Demand) -> &str {
        std::str::from_utf8(&self.keys[demand.key.clone()]).unwrap_or_default()
    }
}

/// What a request asks of the limits, if limits decide.
pub(crate) fn of<'d>(domain: &'d Domain, facts: &Facts<'_>, now: Time) -> Option<Demands<'d>> {
    let mut demands = Demands::none();
    (find(domain, facts, now, &mut demands) == Matched::Limited).then_some(demands)
}

/// Matches a request and works out what it asks of each limit. Demands are large: they are written
/// where they will be read.
pub(crate) fn find<'d>(
    domain: &'d Domain,
    facts: &Facts<'_>,
    now: Time,
    demands: &mut Demands<'d>,
) -> Matched {
    demands.patience = facts.patience;
    demands.follow = facts.follow;
    let compiled = &*domain.compiled;
    let mut hits = compiled.matcher.find(facts, &domain.lists);
    let rule_of = |hit: &Hit| &compiled.rules[hit.rule as usize];
    let mut any_off = false;
    hits.retain(|hit| {
        let is_off = domain.mode_of(hit.rule, now) == Mode::Off;
        any_off |= is_off;
        !is_off && rule_of(hit).during.as_ref().is_none_or(|during| during.covers(now))
    });
    if hits.is_empty() {
        let is_off = any_off || domain.modes.are_all_off(now);
        return if is_off { Matched::SwitchedOff } else { Matched::Nothing };
    }
    if let Some(hit) = hits.iter().find(|hit| rule_of(hit).then == Then::Allow) {
        return Matched::Allowed { rule: hit.rule };
    }
    let is_enforced = |hit: &Hit| domain.mode_of(hit.rule, now) == Mode::Enforce;
    if let Some(hit) = hits.iter().find(|hit| rule_of(hit).limits.is_empty() && is_enforced(hit)) {
        return Matched::Denied { rule: hit.rule };
    }
    let mut plan = None;
    for hit in hits.iter().filter(|hit| !rule_of(hit).limits.is_empty()) {
        let on = On { facts, route: compiled.matcher.route(*hit), lists: &domain.lists };
        let mut builder = Builder { domain, on, now, plan: &mut plan, into: demands };
        if builder.add(hit.rule) == Added::KeyMissing {
            return Matched::KeyMissing { rule: hit.rule };
        }
    }
    Matched::Limited
}
