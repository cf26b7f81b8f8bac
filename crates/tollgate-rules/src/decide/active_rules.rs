//! The active rules, and the limits that they replaced.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{Carry, Time};

use crate::Rules;
use crate::compile::domain::{BoundLimit, Domain, RuleLimit};
use crate::matching::key_hasher::KeyHasher;
use tollgate::{CounterId, PreviousLimit};

/// The rules that are active.
#[derive(Debug)]
pub(crate) struct ActiveRules {
    pub(crate) rules: Rules,
    /// Hashes the secrets in keys; the rules have it too.
    pub(crate) hasher: Arc<KeyHasher>,
    /// How often the rules were replaced.
    pub(crate) generation: u64,
    /// The previous limits of edited limits, by the id of the current counter.
    previous_limits: HashMap<u64, PreviousLimit>,
    /// The current limits that replaced edited ones, by the id of the previous counter.
    successors: HashMap<u64, BoundLimit>,
}

impl ActiveRules {
    pub(crate) fn first(rules: Rules, hasher: Arc<KeyHasher>) -> ActiveRules {
        ActiveRules {
            rules: rules.with_hasher(&hasher),
            hasher,
            generation: 0,
            previous_limits: HashMap::new(),
            successors: HashMap::new(),
        }
    }

    /// Returns the active rules after a replacement. Counters of edited limits continue, so what
    /// was spent stays spent.
    pub(crate) fn next(&self, rules: Rules, hasher: Arc<KeyHasher>, now: Time) -> ActiveRules {
        let rules = rules.with_hasher(&hasher);
        let old = |name: &str| self.rules.domain(name).map(owned_groups);
        let (previous_limits, successors) = carry_over(&rules, old, &self.previous_limits, now);
        let generation = self.generation + 1;
        ActiveRules { rules, hasher, generation, previous_limits, successors }
    }

    /// Returns these rules as the successors of limits that another process had.
    pub(crate) fn continuing(
        &self,
        limits: &HashMap<Box<str>, LimitGroups>,
        previous: &HashMap<u64, PreviousLimit>,
        now: Time,
    ) -> ActiveRules {
        let rules = self.rules.clone();
        let old = |name: &str| limits.get(name).cloned();
        let (previous_limits, successors) = carry_over(&rules, old, previous, now);
        let (hasher, generation) = (self.hasher.clone(), self.generation);
        ActiveRules { rules, hasher, generation, previous_limits, successors }
    }

    /// Returns the previous limit of a counter, if its state may still be relevant.
    #[inline]
    pub(crate) fn previous(&self, counter: CounterId, now: Time) -> Option<&PreviousLimit> {
        if self.previous_limits.is_empty() {
            return None;
        }
        let previous = self.previous_limits.get(&counter.number())?;
        previous.is_relevant(now).then_some(previous)
    }
}

impl ActiveRules {
    /// Returns the limit that replaced an edited one, if its counters may still be relevant.
    pub(crate) fn successor(&self, counter: CounterId) -> Option<&BoundLimit> {
        if self.successors.is_empty() {
            return None;
        }
        self.successors.get(&counter.number())
    }
}

/// Returns the previous limits of edited limits and the successors of previous ones.
fn carry_over(
    rules: &Rules,
    old: impl Fn(&str) -> Option<LimitGroups>,
    old_previous: &HashMap<u64, PreviousLimit>,
    now: Time,
) -> (HashMap<u64, PreviousLimit>, HashMap<u64, BoundLimit>) {
    let mut previous_limits = HashMap::new();
    let mut successors = HashMap::new();
    let mut keep = |bound: &BoundLimit, previous: PreviousLimit| {
        let mut older = Some(&previous);
        while let Some(previous) = older {
            successors.insert(previous.counter.number(), bound.clone());
            older = previous.previous.as_deref();
        }
        previous_limits.entry(bound.counter.number()).or_insert(previous);
    };
    for domain in rules.domains() {
        let old = old(&domain.name).unwrap_or_default();
        for (group, limits) in groups(domain) {
            let before: Vec<&BoundLimit> = old.get(&group).into_iter().flatten().collect();
            for limit in &limits {
                if before.iter().any(|old| old.counter == limit.counter) {
                    // The limit is unchanged, but counters of an earlier replacement may still
                    // be relevant.
                    let previous = old_previous.get(&limit.counter.number()).cloned();
                    if let Some(previous) = previous.and_then(|previous| previous.pruned(now, 0)) {
                        keep(limit, previous);
                    }
                }
            }
            for (limit, old) in edited(&limits, &before) {
                let older = old_previous.get(&old.counter.number()).cloned();
                let older = older.and_then(|older| older.pruned(now, 1));
                let previous = PreviousLimit {
                    counter: old.counter,
                    limit: old.limit.clone(),
                    carry: Carry::Spent,
                    until: now,
                    previous: older.and_then(|older| up_to(older, limit.counter)).map(Box::new),
                };
                keep(limit, previous);
            }
        }
    }
    (previous_limits, successors)
}

/// Limits that are variants of each other: the counter name and the plan.
pub(crate) type Group = (Box<str>, Option<Box<str>>);
/// The limits of a domain by group.
pub(crate) type LimitGroups = HashMap<Group, Vec<BoundLimit>>;

fn owned_groups(domain: &Domain) -> LimitGroups {
    let owned = |limits: Vec<&BoundLimit>| limits.into_iter().cloned().collect();
    groups(domain).into_iter().map(|(group, limits)| (group, owned(limits))).collect()
}

pub(crate) fn groups(domain: &Domain) -> Vec<(Group, Vec<&BoundLimit>)> {
    let mut groups: Vec<(Group, Vec<&BoundLimit>)> = Vec::new();
    let mut index: HashMap<Group, usize> = HashMap::new();
    let mut add = |group: Group, bound| {
        let at = *index.entry(group.clone()).or_insert_with(|| {
            groups.push((group, Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(bound);
    };
    let compiled = &domain.compiled;
    for rule in &compiled.rules {
        for limit in &rule.limits {
            match limit {
                RuleLimit::Fixed(bound) => add((rule.bucket.clone(), None), bound),
                RuleLimit::Distinct(distinct) => {
                    add((format!("{} seen", rule.bucket).into(), None), &distinct.seen);
                    add((format!("{} distinct", rule.bucket).into(), None), &distinct.count);
                }
                RuleLimit::Plan { by_plan, .. } => {
                    for (plan, bounds) in compiled.plans.names.iter().zip(by_plan) {
                        let group = (rule.bucket.clone(), Some(plan.clone()));
                        bounds.iter().for_each(|bound| add(group.clone(), bound));
                    }
                }
            }
        }
    }
    groups
}

/// Pairs new limits with removed ones: first by period and algorithm, then in order.
fn edited<'b>(
    now: &[&'b BoundLimit],
    before: &[&'b BoundLimit],
) -> Vec<(&'b BoundLimit, &'b BoundLimit)> {
    let has = |all: &[&BoundLimit], one: &BoundLimit| {
        all.iter().any(|other| other.counter == one.counter)
    };
    let mut new: Vec<&BoundLimit> =
        now.iter().copied().filter(|limit| !has(before, limit)).collect();
    let mut gone: Vec<&BoundLimit> =
        before.iter().copied().filter(|limit| !has(now, limit)).collect();
    let mut pairs = Vec::new();
    let alike = |one: &BoundLimit, other: &BoundLimit| {
        let (one, other) = (one.limit.summary(), other.limit.summary());
        (one.period, one.algorithm) == (other.period, other.algorithm)
    };
    new.retain(|limit| match gone.iter().position(|old| alike(limit, old)) {
        Some(index) => {
            pairs.push((*limit, gone.remove(index)));
            false
        }
        None => true,
    });
    pairs.extend(new.into_iter().zip(gone));
    pairs
}

/// Returns the chain of previous limits up to `counter`. A limit that is restored finds its own
/// counters without the chain.
fn up_to(previous: PreviousLimit, counter: CounterId) -> Option<PreviousLimit> {
    if previous.counter == counter {
        return None;
    }
    let older = previous.previous.and_then(|older| up_to(*older, counter));
    Some(PreviousLimit { previous: older.map(Box::new), ..previous })
}
