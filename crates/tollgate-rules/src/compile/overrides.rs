//! The overrides of a domain: another limit or plan for some requests, found by one look-up.

use std::collections::HashMap;

use tollgate_core::Time;

use crate::compile::attribute::Attribute;
use crate::compile::domain::{BoundLimit, OverrideEffect, OverrideGrant};
use crate::compile::expr::{Activation, Condition, Expr, Scope};
use crate::matching::key::{KeyBytes, KeyWriter};
use crate::read::fault::Fault;
use crate::read::source::{SourceSpan, Spanned};

/// The overrides of a domain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    /// The overrides of the limits of a rule, by its number.
    by_rule: HashMap<u32, OverrideTable>,
    /// The overrides of the plan, for all rules.
    plans: OverrideTable,
}

/// Overrides by the attributes they match.
///
/// Exact ones take precedence over those with a `*`, and later ones over earlier ones.
#[derive(Clone, Debug, Default)]
struct OverrideTable {
    exact: Vec<ExactOverrides>,
    wild: Vec<(Condition, OverrideGrant)>,
}

/// Exact overrides that match the same attributes.
#[derive(Clone, Debug)]
struct ExactOverrides {
    names: Vec<Box<str>>,
    attributes: Vec<Expr>,
    /// The grants by the key of the values.
    grants: HashMap<Box<[u8]>, Vec<OverrideGrant>>,
}

impl Overrides {
    /// Adds an override; `rule` is the number of the rule whose limits it replaces, if it does.
    pub(crate) fn add(
        &mut self,
        rule: Option<u32>,
        matches: &[(Spanned<String>, Spanned<String>)],
        grant: OverrideGrant,
        scope: &Scope,
    ) -> Result<(), (SourceSpan, Fault)> {
        let table = match rule {
            Some(rule) => self.by_rule.entry(rule).or_default(),
            None => &mut self.plans,
        };
        table.add(matches, grant, scope)
    }

    /// Returns the override of a rule for this request.
    pub(crate) fn for_rule(
        &self,
        rule: u32,
        activation: Activation<'_, '_>,
        now: Time,
    ) -> Option<&OverrideEffect> {
        if self.by_rule.is_empty() {
            return None;
        }
        self.by_rule.get(&rule)?.find(activation, now)
    }

    /// Iterates over all limits that replace those of a rule for some requests.
    pub(crate) fn limits_of(&self, rule: u32) -> impl Iterator<Item = &BoundLimit> {
        let table = self.by_rule.get(&rule).into_iter();
        table.flat_map(OverrideTable::grants).flat_map(|grant| match &grant.effect {
            OverrideEffect::Limits(limits) => &limits[..],
            OverrideEffect::Plan(_) => &[],
        })
    }

    /// Whether an override gives some requests another plan.
    pub(crate) fn has_plans(&self) -> bool {
        self.plans.grants().next().is_some()
    }

    /// Returns the plan that replaces that of the request.
    pub(crate) fn plan(&self, activation: Activation<'_, '_>, now: Time) -> Option<u32> {
        match self.plans.find(activation, now)? {
            OverrideEffect::Plan(plan) => Some(*plan),
            OverrideEffect::Limits(_) => None,
        }
    }
}

impl OverrideTable {
    fn add(
        &mut self,
        matches: &[(Spanned<String>, Spanned<String>)],
        grant: OverrideGrant,
        scope: &Scope,
    ) -> Result<(), (SourceSpan, Fault)> {
        let mut sorted: Vec<&(Spanned<String>, Spanned<String>)> = matches.iter().collect();
        sorted.sort_by(|(left, _), (right, _)| left.value.cmp(&right.value));
        if sorted.iter().any(|(_, pattern)| pattern.contains(['*', '/'])) {
            let fields: Vec<_> = sorted
                .iter()
                .map(|(name, pattern)| (name.clone(), vec![pattern.clone()]))
                .collect();
            self.wild.insert(0, (Condition::fields(&fields, scope)?, grant));
            return Ok(());
        }
        let shape = self.shape(&sorted, scope)?;
        let mut key = KeyBytes::new();
        let mut writer = KeyWriter::new(&mut key);
        for ((_, value), attribute) in sorted.iter().zip(&shape.attributes) {
            let is_address = matches!(attribute.attribute(), Some(Attribute::Ip | Attribute::Peer));
            match value.parse().ok().filter(|_| is_address) {
                Some(address) => writer.ip(address, 32, 128),
                None => writer.text(&[value]),
            }
        }
        shape.grants.entry(key.to_vec().into()).or_default().insert(0, grant);
        Ok(())
    }

    fn grants(&self) -> impl Iterator<Item = &OverrideGrant> {
        let exact = self.exact.iter().flat_map(|shape| shape.grants.values().flatten());
        exact.chain(self.wild.iter().map(|(_, grant)| grant))
    }

    /// Returns the exact overrides that match the same attributes, created if there are none.
    fn shape(
        &mut self,
        sorted: &[&(Spanned<String>, Spanned<String>)],
        scope: &Scope,
    ) -> Result<&mut ExactOverrides, (SourceSpan, Fault)> {
        let same = |shape: &ExactOverrides| {
            shape.names.len() == sorted.len()
                && shape.names.iter().zip(sorted).all(|(known, (name, _))| **known == *name.value)
        };
        let index = match self.exact.iter().position(same) {
            Some(index) => index,
            None => {
                let compile = |(name, _): &&(Spanned<String>, Spanned<String>)| {
                    Expr::compile(name, scope).map_err(|fault| (name.span, fault))
                };
                let attributes = sorted.iter().map(compile).collect::<Result<_, _>>()?;
                let names = sorted.iter().map(|(name, _)| name.value.as_str().into()).collect();
                self.exact.push(ExactOverrides { names, attributes, grants: HashMap::new() });
                self.exact.len() - 1
            }
        };
        Ok(&mut self.exact[index])
    }

    fn find(&self, activation: Activation<'_, '_>, now: Time) -> Option<&OverrideEffect> {
        let valid = |grant: &&OverrideGrant| grant.until.is_none_or(|until| now < until);
        let exact = self.exact.iter().find_map(|shape| shape.find(activation)?.iter().find(valid));
        let grant = exact.or_else(|| {
            let mut wild = self.wild.iter().filter(|(_, grant)| valid(&grant));
            wild.find(|(when, _)| when.holds(activation)).map(|(_, grant)| grant)
        })?;
        Some(&grant.effect)
    }
}

impl ExactOverrides {
    fn find(&self, activation: Activation<'_, '_>) -> Option<&[OverrideGrant]> {
        let mut key = KeyBytes::new();
        let mut writer = KeyWriter::new(&mut key);
        for attribute in &self.attributes {
            writer.value(&attribute.value(activation)?);
        }
        self.grants.get(&key[..]).map(Vec::as_slice)
    }
}
