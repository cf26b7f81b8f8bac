//! What one rule asks of its limits for a request: its key, its cost, its lines.

use std::ops::Range;

use tollgate_core::Time;

use super::super::attribute::Attribute;
use super::super::compiled::{Bound, CostOf, Domain, Gives, KeyPart, PriorityOf, Rule, RuleLimit};
use super::super::dedupe::write_key_within;
use super::super::expr::On;
use super::super::facts::Identity;
use super::super::held::is_place;
use super::super::key::KeyWriter;
use super::super::policy::{MissingKey, Mode, Priority, Then};
use super::super::request::Follow;
use super::{Demand, Demands, Line, LineKind, Origin};
use crate::Reserve;
use crate::identity::stable_hash;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    Done,
    KeyMissing,
}

/// Adds the demand of one rule.
pub(super) struct Builder<'b, 'd, 'f, 'r> {
    pub(super) domain: &'d Domain,
    pub(super) on: On<'f, 'r>,
    pub(super) now: Time,
    /// The request's plan, once it was looked up.
    pub(super) plan: &'b mut Option<Option<u32>>,
    pub(super) into: &'b mut Demands<'d>,
}

impl<'d> Builder<'_, 'd, '_, '_> {
    pub(super) fn add(&mut self, number: u32) -> Added {
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
        let cost = self.cost(rule);
        let mut demand = Demand {
            rule: number,
            key: key.clone(),
            cost: cost.unwrap_or(1),
            mode,
            priority: self.priority(rule),
            tenant: rule.fair.as_ref().map(|by| self.tenant(by)),
            enforced,
            charged: self.is_charged(rule),
        };
        let index = self.into.demands.len();
        self.into.is_simple &= demand.enforced && demand.charged;
        self.into.is_fair |= demand.tenant.is_some();
        self.add_lines(number, rule, index, &demand);
        if cost.is_none() {
            demand.cost = self.take_whole_limit(index);
        }
        self.into.demands.push(demand);
        Added::Done
    }

    /// Writes the rule's key; whether every part of it was there.
    fn write_key(&mut self, rule: &Rule) -> bool {
        let mut writer = KeyWriter::new(&mut self.into.keys);
        let mut complete = true;
        for part in &rule.per {
            complete &= write_part(self.on, part, &mut writer);
        }
        complete
    }

    /// Writes who has a share, as a key of its own.
    fn tenant(&mut self, by: &KeyPart) -> Range<usize> {
        let start = self.into.keys.len();
        write_part(self.on, by, &mut KeyWriter::new(&mut self.into.keys));
        start..self.into.keys.len()
    }

    /// Which hundredth of all keys this one is in, always the same.
    fn share_of(&self, rule: &Rule, key: Range<usize>) -> u8 {
        let key = std::str::from_utf8(&self.into.keys[key]).unwrap_or_default();
        (stable_hash(&[&self.domain.name, &rule.bucket, key]) % 100) as u8
    }

    /// What it costs; none if it may cost anything.
    fn cost(&self, rule: &Rule) -> Option<u64> {
        let Some(cost) = &rule.cost else { return Some(self.on.facts.cost) };
        let expr = match &cost.reserve {
            CostOf::Fixed(cost) => return Some(*cost),
            CostOf::Value(expr) => expr,
        };
        let number = expr.value(self.on).and_then(|value| value.number());
        let number = number.and_then(|number| u64::try_from(number).ok());
        // Nothing is no estimate: whoever reads the same may take it for as much as there is.
        let least = u64::from(cost.settle.is_some() || cost.otherwise.is_some());
        if let Some(number) = number.filter(|number| *number >= least) {
            return Some(number);
        }
        // What cannot be read, or is there and no number, must not be cheaper than what is.
        let facts = self.on.facts;
        let is_doubtful = |attribute: &&Attribute| {
            facts.is_unknown(attribute)
                || cost.settle.is_some() && facts.get(attribute, self.on.route).is_some()
        };
        match cost.otherwise {
            Some(otherwise) => Some(otherwise),
            None if expr.attributes().iter().any(is_doubtful) => None,
            // A cost that cannot be told, or is less than nothing, is that of any request.
            None => Some(1),
        }
    }

    /// The lines of a demand cost all that the smallest of their limits holds.
    #[cold]
    fn take_whole_limit(&mut self, demand: usize) -> u64 {
        let is_rate = |line: &&mut Line<'_>| {
            line.demand == demand && line.kind == LineKind::Limit && !is_place(line.bound)
        };
        let lines = &mut self.into.lines;
        let capacity = |line: &mut Line<'_>| line.bound.limit.capacity();
        let whole = lines.iter_mut().filter(is_rate).map(capacity).min().unwrap_or(1);
        lines.iter_mut().filter(is_rate).for_each(|line| line.cost = whole);
        whole
    }

    fn priority(&self, rule: &Rule) -> Priority {
        match &rule.priority {
            PriorityOf::Fixed(priority) => *priority,
            PriorityOf::Value(expr) => {
                let said = expr.value(self.on);
                said.map_or_else(Priority::default, |said| Priority::named(&said.text()))
            }
        }
    }

    /// Whether a request counts. Where that depends on its outcome, it counts until it is known
    /// not to: those in flight cannot together exceed the limit.
    fn is_charged(&self, rule: &Rule) -> bool {
        let Some(count) = &rule.count else { return true };
        let awaited = !rule.outcome.is_empty() && self.on.facts.follow != Follow::Never;
        count.truth(self.on).unwrap_or(awaited)
    }

    fn add_lines(&mut self, number: u32, rule: &'d Rule, index: usize, demand: &Demand) {
        let domain = self.domain;
        let reserve = match &rule.then {
            Then::Shed(shed) => shed.reserve(demand.priority),
            _ => Reserve::None,
        };
        let line = |bound: &'d Bound| Line {
            demand: index,
            bound,
            key: demand.key.clone(),
            cost: demand.cost,
            kind: LineKind::Limit,
            origin: Origin::Rule,
            reserve,
        };
        if let Some(ladder) = rule.ladder.as_ref().filter(|_| demand.enforced) {
            self.into.has_asides = true;
            let ban =
                Line { kind: LineKind::Ban, cost: 0, reserve: Reserve::None, ..line(&ladder.ban) };
            self.into.lines.push(ban);
        }
        if let Some(dedupe) = &rule.dedupe
            && let Some(id) = dedupe.of.value(self.on)
        {
            (self.into.has_asides, self.into.is_simple) = (true, false);
            let start = self.into.keys.len();
            write_key_within(&mut self.into.keys, demand.key.clone(), Some(&id));
            let key = start..self.into.keys.len();
            let reserve = Reserve::None;
            let once = Line { kind: LineKind::Once, key, cost: 1, reserve, ..line(&dedupe.seen) };
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
                    write_key_within(&mut self.into.keys, demand.key.clone(), value.as_ref());
                    let key = start..self.into.keys.len();
                    let reserve = Reserve::None;
                    let seen = Line {
                        kind: LineKind::Seen,
                        key,
                        cost: 1,
                        reserve,
                        ..line(&distinct.seen)
                    };
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

/// Writes one part of a key; whether it was there.
pub(in super::super) fn write_part(
    on: On<'_, '_>,
    part: &KeyPart,
    writer: &mut KeyWriter<'_>,
) -> bool {
    let facts = on.facts;
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
    }
    written.is_some()
}
