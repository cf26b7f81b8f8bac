//! Rules by the value an attribute must have.

use super::super::attribute::Attribute;
use super::super::facts::Facts;
use super::super::lists::Patterns;
use super::place::{Key, Values};

/// For each attribute in use: what is written about its values, and by which rule.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes {
    indexes: Vec<(Attribute, Patterns<u32>)>,
}

impl Attributes {
    pub(super) fn insert(&mut self, values: &Values, rule: u32) {
        let known = self.indexes.iter().position(|(known, _)| *known == values.attribute);
        let index = known.unwrap_or_else(|| {
            self.indexes.push((values.attribute.clone(), Patterns::default()));
            self.indexes.len() - 1
        });
        let patterns = &mut self.indexes[index].1;
        for key in &values.keys {
            match key {
                Key::Text(text) => patterns.insert_text(text, rule),
                Key::Number(number) => patterns.insert_number(*number, rule),
                Key::Glob(pattern) => patterns.insert_glob(pattern, rule),
                Key::Network(network) => patterns.insert_network(*network, rule),
            }
        }
    }

    /// The rules for which an attribute has one of the values they ask for; one may come twice.
    pub(super) fn find(&self, facts: &Facts<'_>, found: &mut impl FnMut(u32)) {
        for (attribute, patterns) in &self.indexes {
            if let Some(value) = facts.get(attribute, None) {
                patterns.find(&value, &mut |rule| found(*rule));
            }
        }
    }
}
