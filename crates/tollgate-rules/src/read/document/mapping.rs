//! Reads mappings with known fields or with free names, and their merge keys.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::DocumentReader;
use super::scalar::excerpt;
use crate::read::diagnostic::Diagnostic;
use crate::read::source::{SourceSpan, Spanned};
use crate::read::suggest::{closest, listed, synonym};
use crate::read::yaml::{YamlNode, YamlValue};

/// The fields of a mapping, all of which are known.
pub(super) struct MappingFields<'n, 'a> {
    /// The span for an error about a missing field: the first key.
    pub(super) span: SourceSpan,
    slots: Vec<(&'static str, Option<FieldPair<'n, 'a>>)>,
}

#[derive(Clone, Copy)]
struct FieldPair<'n, 'a> {
    key: &'n YamlNode<'a>,
    value: &'n YamlNode<'a>,
    /// Whether a merge key brings it; fields of the mapping itself take precedence.
    merged: bool,
}

impl<'n, 'a> MappingFields<'n, 'a> {
    /// Returns the value of a field.
    pub(super) fn get(&self, name: &str) -> Option<&'n YamlNode<'a>> {
        self.pair(name).map(|pair| pair.value)
    }

    /// Returns the span of a field's name.
    pub(super) fn key(&self, name: &str) -> Option<SourceSpan> {
        self.pair(name).map(|pair| pair.key.span)
    }

    /// Iterates over the fields that are present, in the order of the known fields.
    pub(super) fn present(&self) -> impl Iterator<Item = (&'static str, SourceSpan)> {
        self.slots.iter().filter_map(|(name, pair)| Some((*name, pair.as_ref()?.key.span)))
    }

    fn pair(&self, name: &str) -> Option<&FieldPair<'n, 'a>> {
        debug_assert!(self.slots.iter().any(|(known, _)| *known == name), "{name} is not known");
        self.slots.iter().find(|(known, _)| *known == name)?.1.as_ref()
    }
}

impl DocumentReader<'_> {
    /// Reads the fields of a mapping, which messages call `what`.
    ///
    /// A misspelled field is read as the field it resembles, so that one error does not cause others.
    pub(super) fn fields<'n, 'a>(
        &mut self,
        node: &'n YamlNode<'a>,
        what: &str,
        known: &[&'static str],
    ) -> Option<MappingFields<'n, 'a>> {
        let Some(pairs) = self.pairs(node, what) else {
            let known = listed(known.iter().copied());
            self.help(format!("{what} is a mapping with the fields {known}"));
            return None;
        };
        let span = pairs.first().map_or(node.span, |pair| pair.key.span);
        let slots = known.iter().map(|name| (*name, None)).collect();
        let mut fields = MappingFields { span, slots };
        for pair in pairs {
            if self.diagnostics.is_full() {
                break;
            }
            let Some(name) = self.key(pair.key) else { continue };
            match fields.slots.iter_mut().find(|(known, _)| *known == name) {
                Some((_, slot @ None)) => *slot = Some(pair),
                Some((_, Some(first))) if !pair.merged => {
                    self.duplicate(name, pair, first.key.span)
                }
                Some(_) => {}
                None => {
                    let meant =
                        synonym(name, known).or_else(|| closest(name, known.iter().copied()));
                    self.unknown_field(name, pair.key, what, known, meant);
                    let slot = fields.slots.iter_mut().find(|(known, _)| Some(*known) == meant);
                    if let Some((_, slot @ None)) = slot {
                        *slot = Some(pair);
                    }
                }
            }
        }
        Some(fields)
    }

    /// Reads the entries of a mapping whose names are free.
    pub(super) fn entries<'n, 'a>(
        &mut self,
        node: &'n YamlNode<'a>,
        what: &str,
    ) -> Vec<(Spanned<&'n str>, &'n YamlNode<'a>)> {
        let pairs = self.pairs(node, what).unwrap_or_default();
        let mut seen: HashMap<&str, SourceSpan> = HashMap::with_capacity(pairs.len());
        let mut entries = Vec::with_capacity(pairs.len());
        for pair in pairs {
            if self.diagnostics.is_full() {
                break;
            }
            let Some(name) = self.key(pair.key) else { continue };
            match seen.entry(name) {
                Entry::Occupied(_) if pair.merged => {}
                Entry::Occupied(first) => self.duplicate(name, pair, *first.get()),
                Entry::Vacant(free) => {
                    free.insert(pair.key.span);
                    entries.push((Spanned::new(name, pair.key.span), pair.value));
                }
            }
        }
        entries
    }

    /// Returns a required field, or reports that it is missing.
    pub(super) fn require<'n, 'a>(
        &mut self,
        fields: &MappingFields<'n, 'a>,
        name: &str,
        what: &str,
        example: &str,
    ) -> Option<&'n YamlNode<'a>> {
        let node = fields.get(name);
        if node.is_none() {
            let message = format!("{what} needs `{name}`");
            let diagnostic = Diagnostic::error("missing-field", fields.span, message);
            self.diagnostics.push(diagnostic.help(format!("add `{example}`")));
        }
        node
    }

    /// Returns the pairs of a mapping: its own first, then those of merge keys.
    fn pairs<'n, 'a>(
        &mut self,
        node: &'n YamlNode<'a>,
        what: &str,
    ) -> Option<Vec<FieldPair<'n, 'a>>> {
        let YamlValue::Map(map) = &node.value else {
            self.wrong_kind(node, what);
            return None;
        };
        let mut pairs = Vec::with_capacity(map.len());
        let mut merged = Vec::new();
        for (key, value) in map.iter() {
            match &key.value {
                YamlValue::Scalar { text, plain: true } if text == "<<" => merged.push(value),
                _ => pairs.push(FieldPair { key, value, merged: false }),
            }
        }
        for value in merged {
            let maps = match &value.value {
                YamlValue::List(maps) => maps.as_slice(),
                _ => std::slice::from_ref(value),
            };
            for map in maps {
                if !matches!(map.value, YamlValue::Map(_)) {
                    let message = format!("`<<` takes in a mapping, found {}", map.kind());
                    let diagnostic = Diagnostic::error("merge-key", map.span, message);
                    self.diagnostics.push(
                        diagnostic.help("write `<<: *name` for a mapping that is marked `&name`"),
                    );
                    continue;
                }
                let more = self.pairs(map, what).unwrap_or_default();
                pairs.extend(more.into_iter().map(|pair| FieldPair { merged: true, ..pair }));
            }
        }
        Some(pairs)
    }

    fn key<'n>(&mut self, key: &'n YamlNode<'_>) -> Option<&'n str> {
        let name = key.text();
        if name.is_none() {
            let message = format!("a field's name is a text, found {}", key.kind());
            self.diagnostics.push(Diagnostic::error("bad-key", key.span, message));
        }
        name
    }

    fn duplicate(&mut self, name: &str, pair: FieldPair<'_, '_>, first: SourceSpan) {
        let message = format!("{} is written twice", excerpt(name));
        let diagnostic = Diagnostic::error("duplicate-key", pair.key.span, message);
        let diagnostic = diagnostic.label("again here").related(first, "first here");
        self.diagnostics.push(diagnostic.help("keep one of them"));
    }

    fn unknown_field(
        &mut self,
        name: &str,
        key: &YamlNode<'_>,
        what: &str,
        known: &[&'static str],
        meant: Option<&str>,
    ) {
        let message = format!("{what} has no field {}", excerpt(name));
        let diagnostic = Diagnostic::error("unknown-field", key.span, message);
        self.diagnostics.push(match meant {
            Some(meant) => diagnostic.fix(meant),
            None => diagnostic.help(format!("the fields are {}", listed(known.iter().copied()))),
        });
    }
}
