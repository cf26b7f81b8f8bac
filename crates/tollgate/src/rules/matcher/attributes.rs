//! Rules by the value an attribute must have.

use super::super::attribute::Attribute;
use super::super::facts::Facts;
use super::super::lists::Patterns;
use super::place::{Key, Values};
use super::{Candidate, Known};

/// For each attribute in use: what is written about its values, and by which rule.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes {
    indexes: Vec<(Attribute, Patterns<Candidate>)>,
}

impl Attributes {
    pub(super) fn insert(&mut self, values: Values, rule: u32) {
        let known = if values.exact { Known::Holds(values.part) } else { Known::Nothing };
        let candidate = Candidate { rule, known };
        let same = |(attribute, _): &(Attribute, _)| *attribute == values.attribute;
        let index = self.indexes.iter().position(same).unwrap_or_else(|| {
            self.indexes.push((values.attribute, Patterns::default()));
            self.indexes.len() - 1
        });
        let patterns = &mut self.indexes[index].1;
        for key in &values.keys {
            match key {
                Key::Text(text) => patterns.insert_text(text, candidate),
                Key::Number(number) => patterns.insert_number(*number, candidate),
                Key::Glob(pattern) => patterns.insert_glob(pattern, candidate),
                Key::Network(network) => patterns.insert_network(*network, candidate),
            }
        }
    }

    /// The rules for which an attribute has one of the values they ask for; one may come twice.
    pub(super) fn find(&self, facts: &Facts<'_>, found: &mut impl FnMut(Candidate)) {
        for (attribute, patterns) in &self.indexes {
            if let Some(value) = facts.get(attribute, None) {
                patterns.find(&value, &mut |candidate| found(*candidate));
            }
        }
    }
}
