//! Exceptions for some: another limit, or another plan. Thousands of them cost one look-up.

use std::collections::HashMap;

use tollgate_core::Time;

use super::attribute::Attribute;
use super::compiled::{Bound, Gives, Grant};
use super::expr::{Condition, Expr, On, Scope};
use super::fault::Fault;
use super::key::{KeyBytes, KeyWriter};
use super::source::{At, Place};

/// The overrides of a domain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    /// Of one rule, by its number.
    of_rules: HashMap<u32, Table>,
    /// Of the plan, whatever the rule.
    of_plan: Table,
}

/// Overrides by whom they are about. What is exact goes before what has a `*`, and the latest
/// written before those before it.
#[derive(Clone, Debug, Default)]
struct Table {
    exact: Vec<Shape>,
    wild: Vec<(Condition, Grant)>,
}

/// Exact overrides that look at the same attributes.
#[derive(Clone, Debug)]
struct Shape {
    names: Vec<Box<str>>,
    attributes: Vec<Expr>,
    /// By the key of the values.
    grants: HashMap<Box<[u8]>, Vec<Grant>>,
}

impl Overrides {
    /// Adds one; `rule` is the number of the rule it is about, if it is about one.
    pub(crate) fn add(
        &mut self,
        rule: Option<u32>,
        matches: &[(At<String>, At<String>)],
        grant: Grant,
        scope: &Scope,
    ) -> Result<(), (Place, Fault)> {
        let table = match rule {
            Some(rule) => self.of_rules.entry(rule).or_default(),
            None => &mut self.of_plan,
        };
        table.add(matches, grant, scope)
    }

    /// What a rule's limits or plan are replaced by for this request.
    pub(crate) fn of_rule(&self, rule: u32, on: On<'_, '_>, now: Time) -> Option<&Gives> {
        if self.of_rules.is_empty() {
            return None;
        }
        self.of_rules.get(&rule)?.find(on, now)
    }

    /// All limits that stand in for a rule's, for whomever.
    pub(crate) fn limits_of(&self, rule: u32) -> impl Iterator<Item = &Bound> {
        let table = self.of_rules.get(&rule).into_iter();
        table.flat_map(Table::grants).flat_map(|grant| match &grant.gives {
            Gives::Limits(limits) => &limits[..],
            Gives::Plan(_) => &[],
        })
    }

    /// The plan that replaces the one the request says.
    pub(crate) fn plan(&self, on: On<'_, '_>, now: Time) -> Option<u32> {
        match self.of_plan.find(on, now)? {
            Gives::Plan(plan) => Some(*plan),
            Gives::Limits(_) => None,
        }
    }
}

impl Table {
    fn add(
        &mut self,
        matches: &[(At<String>, At<String>)],
        grant: Grant,
        scope: &Scope,
    ) -> Result<(), (Place, Fault)> {
        let mut sorted: Vec<&(At<String>, At<String>)> = matches.iter().collect();
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

    fn grants(&self) -> impl Iterator<Item = &Grant> {
        let exact = self.exact.iter().flat_map(|shape| shape.grants.values().flatten());
        exact.chain(self.wild.iter().map(|(_, grant)| grant))
    }

    /// The table of those who look at the same attributes.
    fn shape(
        &mut self,
        sorted: &[&(At<String>, At<String>)],
        scope: &Scope,
    ) -> Result<&mut Shape, (Place, Fault)> {
        let same = |shape: &Shape| {
            shape.names.len() == sorted.len()
                && shape.names.iter().zip(sorted).all(|(known, (name, _))| **known == *name.value)
        };
        let index = match self.exact.iter().position(same) {
            Some(index) => index,
            None => {
                let compile = |(name, _): &&(At<String>, At<String>)| {
                    Expr::compile(name, scope).map_err(|fault| (name.place, fault))
                };
                let attributes = sorted.iter().map(compile).collect::<Result<_, _>>()?;
                let names = sorted.iter().map(|(name, _)| name.value.as_str().into()).collect();
                self.exact.push(Shape { names, attributes, grants: HashMap::new() });
                self.exact.len() - 1
            }
        };
        Ok(&mut self.exact[index])
    }

    fn find(&self, on: On<'_, '_>, now: Time) -> Option<&Gives> {
        let valid = |grant: &&Grant| grant.until.is_none_or(|until| now < until);
        let exact = self.exact.iter().find_map(|shape| shape.find(on)?.iter().find(valid));
        let found = exact.or_else(|| {
            let mut wild = self.wild.iter().filter(|(_, grant)| valid(&grant));
            wild.find(|(when, _)| when.holds(on)).map(|(_, grant)| grant)
        })?;
        Some(&found.gives)
    }
}

impl Shape {
    fn find(&self, on: On<'_, '_>) -> Option<&[Grant]> {
        let mut key = KeyBytes::new();
        let mut writer = KeyWriter::new(&mut key);
        for attribute in &self.attributes {
            writer.value(&attribute.value(on)?);
        }
        self.grants.get(&key[..]).map(Vec::as_slice)
    }
}
