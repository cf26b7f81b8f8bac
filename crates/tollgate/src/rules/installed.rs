//! Rules in force, and what became of the limits they replaced.

use std::collections::HashMap;

use tollgate_core::{Carry, Time};

use super::Rules;
use super::compiled::{Bound, Domain, RuleLimit};
use crate::{Bucket, Former};

/// A set of rules in force.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) rules: Rules,
    /// How often rules were replaced.
    pub(crate) generation: u64,
    /// Where counters were kept before their limit was edited, by their bucket now.
    formers: HashMap<u64, Former>,
    /// The limits that came after edited ones, by the buckets these had.
    successors: HashMap<u64, Bound>,
}

impl Installed {
    pub(crate) fn first(rules: Rules) -> Installed {
        Installed { rules, generation: 0, formers: HashMap::new(), successors: HashMap::new() }
    }

    /// The rules that come after these. Counters of edited limits carry on: what was spent stays
    /// spent.
    pub(crate) fn next(&self, rules: Rules, now: Time) -> Installed {
        let mut formers = HashMap::new();
        let mut successors = HashMap::new();
        let mut keep = |bound: &Bound, former: Former| {
            let mut older = Some(&former);
            while let Some(former) = older {
                successors.insert(former.bucket.number(), bound.clone());
                older = former.former.as_deref();
            }
            formers.entry(bound.bucket.number()).or_insert(former);
        };
        for domain in rules.domains() {
            let old = self.rules.domain(&domain.name);
            let old: HashMap<Group, Vec<&Bound>> = old.map(groups).into_iter().flatten().collect();
            for (group, limits) in groups(domain) {
                let before = old.get(&group).map_or(&[][..], Vec::as_slice);
                for limit in &limits {
                    if before.iter().any(|old| old.bucket == limit.bucket) {
                        // Unedited: what it replaced earlier may still be waiting.
                        let former = self.formers.get(&limit.bucket.number()).cloned();
                        if let Some(former) = former.and_then(|former| former.still_of_use(now, 0))
                        {
                            keep(limit, former);
                        }
                    }
                }
                for (limit, old) in edited(&limits, before) {
                    let older = self.formers.get(&old.bucket.number()).cloned();
                    let older = older.and_then(|older| older.still_of_use(now, 1));
                    let former = Former {
                        bucket: old.bucket,
                        limit: old.limit.clone(),
                        carry: Carry::Spent,
                        until: now,
                        former: older.and_then(|older| up_to(older, limit.bucket)).map(Box::new),
                    };
                    keep(limit, former);
                }
            }
        }
        Installed { rules, generation: self.generation + 1, formers, successors }
    }

    /// Where the counters of a bucket were kept before, if any may still be there.
    #[inline]
    pub(crate) fn former(&self, bucket: Bucket, now: Time) -> Option<&Former> {
        if self.formers.is_empty() {
            return None;
        }
        let former = self.formers.get(&bucket.number())?;
        former.is_of_use(now).then_some(former)
    }
}

impl Installed {
    /// The limit that took the place of one that was edited, if its counters may still matter.
    pub(crate) fn successor(&self, bucket: Bucket) -> Option<&Bound> {
        if self.successors.is_empty() {
            return None;
        }
        self.successors.get(&bucket.number())
    }
}

/// Limits that are variants of one thing: of one bucket, under one plan.
type Group = (Box<str>, Option<Box<str>>);

fn groups(domain: &Domain) -> Vec<(Group, Vec<&Bound>)> {
    let mut groups: Vec<(Group, Vec<&Bound>)> = Vec::new();
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

/// Pairs the limits that are new with those that are gone: first by what they measure, then in
/// the order they were written.
fn edited<'b>(now: &[&'b Bound], before: &[&'b Bound]) -> Vec<(&'b Bound, &'b Bound)> {
    let has = |all: &[&Bound], one: &Bound| all.iter().any(|other| other.bucket == one.bucket);
    let mut new: Vec<&Bound> = now.iter().copied().filter(|limit| !has(before, limit)).collect();
    let mut gone: Vec<&Bound> = before.iter().copied().filter(|limit| !has(now, limit)).collect();
    let mut pairs = Vec::new();
    let alike = |one: &Bound, other: &Bound| {
        let (one, other) = (one.limit.quota(), other.limit.quota());
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

/// The chain of formers up to `bucket`: what a limit that comes back left there earlier is found
/// without one.
fn up_to(former: Former, bucket: Bucket) -> Option<Former> {
    if former.bucket == bucket {
        return None;
    }
    let older = former.former.and_then(|older| up_to(*older, bucket));
    Some(Former { former: older.map(Box::new), ..former })
}
