//! The index of rules by the value that an attribute must have.

use super::index_choice::{AttributeValues, ValueKey};
use super::{Candidate, KnownPart};
use crate::compile::attribute::Attribute;
use crate::compile::lists::Patterns;
use crate::matching::request_facts::RequestFacts;

/// For each attribute in use, the rules by its values.
#[derive(Clone, Debug, Default)]
pub(super) struct AttributeIndex {
    indexes: Vec<(Attribute, Patterns<Candidate>)>,
}

impl AttributeIndex {
    pub(super) fn insert(&mut self, values: AttributeValues, rule: u32) {
        let known = if values.exact { KnownPart::Holds(values.part) } else { KnownPart::Nothing };
        let candidate = Candidate { rule, known };
        let same = |(attribute, _): &(Attribute, _)| *attribute == values.attribute;
        let index = self.indexes.iter().position(same).unwrap_or_else(|| {
            self.indexes.push((values.attribute, Patterns::default()));
            self.indexes.len() - 1
        });
        let patterns = &mut self.indexes[index].1;
        for key in &values.keys {
            match key {
                ValueKey::Text(text) => patterns.insert_text(text, candidate),
                ValueKey::Number(number) => patterns.insert_number(*number, candidate),
                ValueKey::Glob(pattern) => patterns.insert_glob(pattern, candidate),
                ValueKey::Network(network) => patterns.insert_network(*network, candidate),
            }
        }
    }

    /// Visits the rules for which an attribute has one of their values; one may come twice.
    pub(super) fn find(&self, facts: &RequestFacts<'_>, visit: &mut impl FnMut(Candidate)) {
        for (attribute, patterns) in &self.indexes {
            facts.each_value(attribute, &mut |value| {
                patterns.find(value, &mut |candidate| visit(*candidate));
            });
        }
    }
}
