//! Builds the checks of one rule for a request: its key, its cost, its limits.

use std::ops::Range;

use tollgate_core::Time;

use super::{LimitCheck, LimitCheckKind, LimitOrigin, RuleCheck, RuleChecks};
use crate::actions::dedupe::write_key_within;
use crate::compile::attribute::Attribute;
use crate::compile::domain::{
    BoundLimit, CompiledRule, CostSource, Domain, KeyPart, OverrideEffect, PrioritySource,
    RuleLimit,
};
use crate::compile::expr::Activation;
use crate::compile::policy::{MissingKey, Mode, Priority, Then};
use crate::decide::held_charges::holds_permits;
use crate::decide::incomplete_key::IncompleteKeyParts;
use crate::matching::key::KeyWriter;
use crate::matching::key_hasher::KeyHasher;
use crate::matching::request::OutcomeTracking;
use crate::matching::request_facts::Identity;
use tollgate::Reserve;
use tollgate::state::stable_hash;

/// The outcome of adding a rule.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AddOutcome {
    Done,
    KeyMissing,
}

/// Adds the checks of one rule.
pub(super) struct CheckBuilder<'b, 'd, 'f, 'r> {
    pub(super) domain: &'d Domain,
    pub(super) activation: Activation<'f, 'r>,
    pub(super) date: Time,
    /// The request's plan, once it is looked up.
    pub(super) plan: &'b mut Option<Option<u32>>,
    pub(super) into: &'b mut RuleChecks<'d>,
}

impl<'d> CheckBuilder<'_, 'd, '_, '_> {
    pub(super) fn add(&mut self, number: u32) -> AddOutcome {
        let rule = &self.domain.compiled.rules[number as usize];
        let start = self.into.keys.len();
        let missing = self.write_key(rule);
        let mode = self.domain.mode_of(number, self.date);
        match (missing, rule.missing_key) {
            (0, _) | (_, MissingKey::Shared) => {}
            (_, MissingKey::Skip) => {
                self.into.keys.truncate(start);
                return AddOutcome::Done;
            }
            (_, MissingKey::Deny) if mode == Mode::Enforce => return AddOutcome::KeyMissing,
            (_, MissingKey::Deny) => {}
        }
        let key = start..self.into.keys.len();
        let enforced = match mode {
            Mode::Enforce => true,
            Mode::Shadow | Mode::Off => false,
            Mode::Share(percent) => self.share_of(rule, key.clone()) < percent,
        };
        if missing != 0 {
            let incomplete = IncompleteKeyParts { rule: number, parts: missing, enforced };
            self.into.incomplete_keys.push(incomplete);
        }
        let cost = self.cost(rule);
        let mut rule_check = RuleCheck {
            rule: number,
            key: key.clone(),
            cost: cost.unwrap_or(1),
            mode,
            priority: self.priority(rule),
            tenant: rule.fair.as_ref().map(|by| self.tenant(by)),
            enforced,
            charged: self.is_charged(rule),
        };
        let index = self.into.rule_checks.len();
        self.into.is_simple &= rule_check.enforced && rule_check.charged;
        self.into.is_fair |= rule_check.tenant.is_some();
        self.add_lines(number, rule, index, &rule_check);
        if cost.is_none() {
            rule_check.cost = self.take_whole_limit(index);
        }
        self.into.rule_checks.push(rule_check);
        AddOutcome::Done
    }

    /// Writes the rule's key, and returns its missing parts as bits; a rule has at most 16.
    fn write_key(&mut self, rule: &CompiledRule) -> u16 {
        let mut writer = KeyWriter::new(&mut self.into.keys);
        let (mut missing, mut bit) = (0, 1_u16);
        for part in &rule.per {
            if !write_part(&self.domain.hasher, self.activation, part, &mut writer) {
                missing |= bit;
            }
            bit = bit.wrapping_shl(1);
        }
        missing
    }

    /// Writes the name of the tenant as a key of its own.
    fn tenant(&mut self, by: &KeyPart) -> Range<usize> {
        let start = self.into.keys.len();
        let mut writer = KeyWriter::new(&mut self.into.keys);
        write_part(&self.domain.hasher, self.activation, by, &mut writer);
        start..self.into.keys.len()
    }

    /// Returns the hundredth of all keys that this one is in, always the same.
    fn share_of(&self, rule: &CompiledRule, key: Range<usize>) -> u8 {
        let key = std::str::from_utf8(&self.into.keys[key]).unwrap_or_default();
        (stable_hash(&[&self.domain.name, &rule.bucket, key]) % 100) as u8
    }

    /// Returns the cost; none if it is unknown and may be any.
    fn cost(&self, rule: &CompiledRule) -> Option<u64> {
        let Some(cost) = &rule.cost else { return Some(self.activation.facts.cost) };
        let expr = match &cost.reserve {
            CostSource::Fixed(cost) => return Some(*cost),
            CostSource::Value(expr) => expr,
        };
        let number = expr.value(self.activation).and_then(|value| value.number());
        let number = number.and_then(|number| u64::try_from(number).ok());
        // A missing estimate reserves the whole limit, and so does an estimate of 0.
        let least = u64::from(cost.settle.is_some() || cost.otherwise.is_some());
        if let Some(number) = number.filter(|number| *number >= least) {
            return Some(number);
        }
        // A cost that cannot be read, or is no number, must not be cheaper than one that is.
        let facts = self.activation.facts;
        let is_doubtful = |attribute: &&Attribute| {
            facts.is_unknown(attribute)
                || cost.settle.is_some() && facts.get(attribute, self.activation.route).is_some()
        };
        match cost.otherwise {
            Some(otherwise) => Some(otherwise),
            None if expr.attributes().iter().any(is_doubtful) => None,
            // Without an attribute, or with a negative number, the cost is 1.
            None => Some(1),
        }
    }

    /// Makes the limit checks of a rule cost the capacity of its smallest limit.
    #[cold]
    fn take_whole_limit(&mut self, rule_check: usize) -> u64 {
        let is_rate = |limit_check: &&mut LimitCheck<'_>| {
            limit_check.rule_check == rule_check
                && limit_check.kind == LimitCheckKind::Limit
                && !holds_permits(limit_check.bound)
        };
        let limit_checks = &mut self.into.limit_checks;
        let capacity = |limit_check: &mut LimitCheck<'_>| limit_check.bound.limit.capacity();
        let whole = limit_checks.iter_mut().filter(is_rate).map(capacity).min().unwrap_or(1);
        limit_checks.iter_mut().filter(is_rate).for_each(|limit_check| limit_check.cost = whole);
        whole
    }

    fn priority(&self, rule: &CompiledRule) -> Priority {
        match &rule.priority {
            PrioritySource::Fixed(priority) => *priority,
            PrioritySource::Value(expr) => {
                let word = expr.value(self.activation);
                word.map_or_else(Priority::default, |word| Priority::named(&word.text()))
            }
        }
    }

    /// Whether a request counts. Where that depends on its outcome, it counts until it is known
    /// not to, so that requests in flight cannot exceed the limit together.
    fn is_charged(&self, rule: &CompiledRule) -> bool {
        let Some(count) = &rule.count else { return true };
        let awaited =
            !rule.outcome.is_empty() && self.activation.facts.tracking != OutcomeTracking::Never;
        let before = self.activation.facts.contradictions();
        let counts = count.truth(self.activation);
        // A request that some server reads so that it counts does count.
        self.activation.facts.contradictions() > before || counts.unwrap_or(awaited)
    }

    fn add_lines(
        &mut self,
        number: u32,
        rule: &'d CompiledRule,
        index: usize,
        rule_check: &RuleCheck,
    ) {
        let domain = self.domain;
        let reserve = match &rule.then {
            Then::Shed(shed) => shed.reserve(rule_check.priority),
            _ => Reserve::None,
        };
        let limit_check = |bound: &'d BoundLimit| LimitCheck {
            rule_check: index,
            bound,
            key: rule_check.key.clone(),
            cost: rule_check.cost,
            kind: LimitCheckKind::Limit,
            origin: LimitOrigin::Rule,
            reserve,
        };
        if let Some(ladder) = rule.ladder.as_ref().filter(|_| rule_check.enforced) {
            self.into.has_auxiliary = true;
            let ban = LimitCheck {
                kind: LimitCheckKind::Ban,
                cost: 0,
                reserve: Reserve::None,
                ..limit_check(&ladder.ban)
            };
            self.into.limit_checks.push(ban);
        }
        if let Some(dedupe) = &rule.dedupe
            && let Some(id) = dedupe.id.value(self.activation)
        {
            (self.into.has_auxiliary, self.into.is_simple) = (true, false);
            let start = self.into.keys.len();
            let hasher = dedupe.id.is_secret().then_some(&*domain.hasher);
            write_key_within(&mut self.into.keys, rule_check.key.clone(), Some(&id), hasher);
            let key = start..self.into.keys.len();
            let reserve = Reserve::None;
            let once = LimitCheck {
                kind: LimitCheckKind::Dedupe,
                key,
                cost: 1,
                reserve,
                ..limit_check(&dedupe.seen)
            };
            self.into.limit_checks.push(once);
        }
        let granted = domain.overrides.for_rule(number, self.activation, self.date);
        if let Some(OverrideEffect::Limits(limits)) = granted {
            let granted =
                |bound| LimitCheck { origin: LimitOrigin::Override, ..limit_check(bound) };
            self.into.limit_checks.extend(limits.iter().map(granted));
            return;
        }
        for limit in &rule.limits {
            match limit {
                RuleLimit::Fixed(bound) => self.into.limit_checks.push(limit_check(bound)),
                RuleLimit::Plan { by_plan, .. } => {
                    let plan = match granted {
                        Some(OverrideEffect::Plan(plan)) => Some(*plan),
                        _ => self.plan(),
                    };
                    let Some(plan) = plan else { continue };
                    let limits = by_plan.get(plan as usize).into_iter().flatten();
                    let planned = |bound| LimitCheck {
                        origin: LimitOrigin::Plan(plan),
                        ..limit_check(bound)
                    };
                    self.into.limit_checks.extend(limits.map(planned));
                }
                RuleLimit::Distinct(distinct) => {
                    self.into.is_simple = false;
                    let start = self.into.keys.len();
                    let value = distinct.value.value(self.activation);
                    let hasher = distinct.value.is_secret().then_some(&*domain.hasher);
                    let (keys, key) = (&mut self.into.keys, rule_check.key.clone());
                    write_key_within(keys, key, value.as_ref(), hasher);
                    let key = start..self.into.keys.len();
                    let reserve = Reserve::None;
                    let seen = LimitCheck {
                        kind: LimitCheckKind::DistinctSeen,
                        key,
                        cost: 1,
                        reserve,
                        ..limit_check(&distinct.seen)
                    };
                    let count = LimitCheck {
                        kind: LimitCheckKind::DistinctCount,
                        cost: 1,
                        ..limit_check(&distinct.count)
                    };
                    self.into.limit_checks.extend([seen, count]);
                }
            }
        }
    }

    /// Returns the request's plan: by override, by its attribute, or the default.
    fn plan(&mut self) -> Option<u32> {
        let plans = &self.domain.compiled.plans;
        *self.plan.get_or_insert_with(|| {
            let granted = self.domain.overrides.plan(self.activation, self.date);
            let own = || plans.named(&plans.selector.as_ref()?.value(self.activation)?.text());
            granted.or_else(own).or(plans.default)
        })
    }
}

/// Writes one part of a key, and returns whether the request has it.
pub(crate) fn write_part(
    hasher: &KeyHasher,
    activation: Activation<'_, '_>,
    part: &KeyPart,
    writer: &mut KeyWriter<'_>,
) -> bool {
    let facts = activation.facts;
    let present = match part {
        KeyPart::Endpoint => facts.path().map(|path| {
            let pattern = activation.route.map_or(path, |route| route.path());
            writer.text(&[facts.method().unwrap_or("*"), " ", pattern]);
        }),
        KeyPart::Ip { attribute, bits4, bits6 } => facts
            .get(attribute, activation.route)
            .and_then(|value| value.ip())
            .map(|ip| writer.ip(ip, *bits4, *bits6)),
        KeyPart::Value(expr) => {
            let start = writer.next_part();
            let present = match expr.attribute() {
                Some(attribute) if attribute.is_client_controlled() => {
                    facts.identity(attribute).map(|identity| match identity {
                        Identity::One(value) => writer.value(&value),
                        Identity::Several => writer.several(),
                    })
                }
                _ => {
                    let before = facts.contradictions();
                    let value = expr.value(activation);
                    if facts.contradictions() > before {
                        writer.several();
                        Some(())
                    } else {
                        value.map(|value| writer.value(&value))
                    }
                }
            };
            if expr.is_secret() && present.is_some() {
                writer.hash_part(start, hasher);
            }
            present
        }
    };
    if present.is_none() {
        writer.missing();
    }
    present.is_some()
}
