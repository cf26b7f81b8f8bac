//! What a request asks of the limits: the rules it matches, turned into checks.

use std::ops::Range;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Span, Time};

use super::attribute::Attribute;
use super::compiled::{Bound, CostOf, Domain, Gives, KeyPart, Rule, RuleLimit};
use super::dedupe::write_part;
use super::expr::On;
use super::facts::{Facts, Identity};
use super::key::{KeyBytes, KeyWriter};
use super::ladder;
use super::matcher::Hit;
use super::policy::{MissingKey, Mode, Then};
use crate::identity::stable_hash;
use crate::{Check, Consistency, Former, Key};

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
    /// How long the request may be held back, whatever its rules say.
    pub(crate) patience: Duration,
}

impl<'d> Demands<'d> {
    pub(crate) fn none() -> Demands<'d> {
        Demands {
            keys: KeyBytes::new(),
            demands: SmallVec::new(),
            lines: SmallVec::new(),
            is_simple: true,
            has_asides: false,
            patience: Duration::ZERO,
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
            _ => (rule.then.patience().max(self.patience).into(), rule.consistency),
        };
        let key = Key::Bytes(&self.keys[line.key.clone()]);
        let check = Check::new(line.bound.bucket, key, &line.bound.limit, line.cost);
        Check { lease, former, patience, consistency, ..check }
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Added {
    Done,
    KeyMissing,
}

/// Adds the demand of one rule.
struct Builder<'b, 'd, 'f, 'r> {
    domain: &'d Domain,
    on: On<'f, 'r>,
    now: Time,
    /// The request's plan, once it was looked up.
    plan: &'b mut Option<Option<u32>>,
    into: &'b mut Demands<'d>,
}

impl<'d> Builder<'_, 'd, '_, '_> {
    fn add(&mut self, number: u32) -> Added {
        let rule = &self.domain.compiled.rules[number as usize];
        let start = self.into.keys.len();
        let complete = self.write_key(rule);
        let mode = self.domain.mode_of(number, self.now);
        match (complete, rule.missing_key) {
            (true, _) | (false, MissingKey::Shared) => {}
            (false, MissingKey::Skip) => {
                self.into.keys.truncate(start);
                return Added::Done;
            }
            (false, MissingKey::Deny) if mode == Mode::Enforce => return Added::KeyMissing,
            (false, MissingKey::Deny) => {}
        }
        let key = start..self.into.keys.len();
        let enforced = match mode {
            Mode::Enforce => true,
            Mode::Shadow | Mode::Off => false,
            Mode::Share(percent) => self.share_of(rule, key.clone()) < percent,
        };
        let demand = Demand {
            rule: number,
            key: key.clone(),
            cost: self.cost(rule),
            mode,
            enforced,
            charged: self.is_charged(rule),
        };
        let index = self.into.demands.len();
        self.into.is_simple &= demand.enforced && demand.charged;
        self.add_lines(number, rule, index, &demand);
        self.into.demands.push(demand);
        Added::Done
    }

    /// Writes the rule's key; whether every part of it was there.
    fn write_key(&mut self, rule: &Rule) -> bool {
        let (on, facts) = (self.on, self.on.facts);
        let mut writer = KeyWriter::new(&mut self.into.keys);
        let mut complete = true;
        for part in &rule.per {
            let written = match part {
                KeyPart::Endpoint => facts.path().map(|path| {
                    let pattern = on.route.map_or(path, |route| route.path());
                    writer.text(&[facts.method().unwrap_or("*"), " ", pattern]);
                }),
                KeyPart::Ip { of, bits4, bits6 } => facts
                    .get(of, on.route)
                    .and_then(|value| value.ip())
                    .map(|ip| writer.ip(ip, *bits4, *bits6)),
                KeyPart::Value(expr) => match expr.attribute() {
                    Some(Attribute::Header(name)) => {
                        facts.identity_in_header(name).map(|identity| match identity {
                            Identity::One(value) => writer.value(&value),
                            Identity::Several => writer.several(),
                        })
                    }
                    _ => expr.value(on).map(|value| writer.value(&value)),
                },
            };
            if written.is_none() {
                writer.missing();
                complete = false;
            }
        }
        complete
    }

    /// Which hundredth of all keys this one is in, always the same.
    fn share_of(&self, rule: &Rule, key: Range<usize>) -> u8 {
        let key = std::str::from_utf8(&self.into.keys[key]).unwrap_or_default();
        (stable_hash(&[&self.domain.name, &rule.bucket, key]) % 100) as u8
    }

    fn cost(&self, rule: &Rule) -> u64 {
        match rule.cost.as_ref().map(|cost| &cost.reserve) {
            None => self.on.facts.cost,
            Some(CostOf::Fixed(cost)) => *cost,
            // A cost that cannot be told, or is less than nothing, is that of any request.
            Some(CostOf::Value(expr)) => {
                let number = expr.value(self.on).and_then(|value| value.number());
                number.and_then(|number| u64::try_from(number).ok()).unwrap_or(1)
            }
        }
    }

    /// A rule that counts outcomes is charged once the outcome is known, if it counts.
    fn is_charged(&self, rule: &Rule) -> bool {
        rule.count.as_ref().is_none_or(|count| count.holds(self.on))
    }

    fn add_lines(&mut self, number: u32, rule: &'d Rule, index: usize, demand: &Demand) {
        let domain = self.domain;
        let line = |bound: &'d Bound| Line {
            demand: index,
            bound,
            key: demand.key.clone(),
            cost: demand.cost,
            kind: LineKind::Limit,
            origin: Origin::Rule,
        };
        if let Some(ladder) = rule.ladder.as_ref().filter(|_| demand.enforced) {
            self.into.has_asides = true;
            let ban = Line { kind: LineKind::Ban, cost: 0, ..line(&ladder.ban) };
            self.into.lines.push(ban);
        }
        if let Some(dedupe) = &rule.dedupe
            && let Some(id) = dedupe.of.value(self.on)
        {
            (self.into.has_asides, self.into.is_simple) = (true, false);
            let start = self.into.keys.len();
            write_part(&mut self.into.keys, demand.key.clone(), Some(&id));
            let key = start..self.into.keys.len();
            let once = Line { kind: LineKind::Once, key, cost: 1, ..line(&dedupe.seen) };
            self.into.lines.push(once);
        }
        let granted = domain.overrides.of_rule(number, self.on, self.now);
        if let Some(Gives::Limits(limits)) = granted {
            let granted = |bound| Line { origin: Origin::Override, ..line(bound) };
            self.into.lines.extend(limits.iter().map(granted));
            return;
        }
        for limit in &rule.limits {
            match limit {
                RuleLimit::Fixed(bound) => self.into.lines.push(line(bound)),
                RuleLimit::Plan { by_plan, .. } => {
                    let plan = match granted {
                        Some(Gives::Plan(plan)) => Some(*plan),
                        _ => self.plan(),
                    };
                    let Some(plan) = plan else { continue };
                    let limits = by_plan.get(plan as usize).into_iter().flatten();
                    let planned = |bound| Line { origin: Origin::Plan(plan), ..line(bound) };
                    self.into.lines.extend(limits.map(planned));
                }
                RuleLimit::Distinct(distinct) => {
                    self.into.is_simple = false;
                    let start = self.into.keys.len();
                    let value = distinct.of.value(self.on);
                    write_part(&mut self.into.keys, demand.key.clone(), value.as_ref());
                    let key = start..self.into.keys.len();
                    let seen = Line { kind: LineKind::Seen, key, cost: 1, ..line(&distinct.seen) };
                    let count = Line { kind: LineKind::CountOf, cost: 1, ..line(&distinct.count) };
                    self.into.lines.extend([seen, count]);
                }
            }
        }
    }

    /// The request's plan: by override, by what it says itself, or the default.
    fn plan(&mut self) -> Option<u32> {
        let plans = &self.domain.compiled.plans;
        *self.plan.get_or_insert_with(|| {
            let granted = self.domain.overrides.plan(self.on, self.now);
            let said = || plans.named(&plans.of.as_ref()?.value(self.on)?.text());
            granted.or_else(said).or(plans.default)
        })
    }
}
