//! Mappings: known fields, free names, and what can be wrong with either.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Reader;
use super::scalar::shown;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::source::{At, Place};
use crate::rules::suggest::{closest, listed, synonym};
use crate::rules::yaml::{Node, Value};

/// A mapping all of whose fields are known.
pub(super) struct Fields<'n, 'a> {
    /// Where to say that one is missing: the first key.
    pub(super) place: Place,
    slots: Vec<(&'static str, Option<Pair<'n, 'a>>)>,
}

#[derive(Clone, Copy)]
struct Pair<'n, 'a> {
    key: &'n Node<'a>,
    value: &'n Node<'a>,
    /// It came with a merge key: what is written out goes first.
    merged: bool,
}

impl<'n, 'a> Fields<'n, 'a> {
    /// The value of a field.
    pub(super) fn get(&self, name: &str) -> Option<&'n Node<'a>> {
        self.pair(name).map(|pair| pair.value)
    }

    /// Where a field's name stands.
    pub(super) fn key(&self, name: &str) -> Option<Place> {
        self.pair(name).map(|pair| pair.key.place)
    }

    /// The fields that are there, in the order they are known.
    pub(super) fn present(&self) -> impl Iterator<Item = (&'static str, Place)> {
        self.slots.iter().filter_map(|(name, pair)| Some((*name, pair.as_ref()?.key.place)))
    }

    fn pair(&self, name: &str) -> Option<&Pair<'n, 'a>> {
        debug_assert!(self.slots.iter().any(|(known, _)| *known == name), "{name} is not known");
        self.slots.iter().find(|(known, _)| *known == name)?.1.as_ref()
    }
}

impl Reader<'_> {
    /// The fields of a mapping, which is `what`. A field with a typing error is taken for the one
    /// that was meant, so that nothing follows from it.
    pub(super) fn fields<'n, 'a>(
        &mut self,
        node: &'n Node<'a>,
        what: &str,
        known: &[&'static str],
    ) -> Option<Fields<'n, 'a>> {
        let Some(pairs) = self.pairs(node, what) else {
            let known = listed(known.iter().copied());
            self.help(format!("{what} is a mapping with the fields {known}"));
            return None;
        };
        let place = pairs.first().map_or(node.place, |pair| pair.key.place);
        let slots = known.iter().map(|name| (*name, None)).collect();
        let mut fields = Fields { place, slots };
        for pair in pairs {
            if self.found.is_full() {
                break;
            }
            let Some(name) = self.key(pair.key) else { continue };
            match fields.slots.iter_mut().find(|(known, _)| *known == name) {
                Some((_, slot @ None)) => *slot = Some(pair),
                Some((_, Some(first))) if !pair.merged => {
                    self.duplicate(name, pair, first.key.place)
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

    /// The entries of a mapping whose names are free.
    pub(super) fn entries<'n, 'a>(
        &mut self,
        node: &'n Node<'a>,
        what: &str,
    ) -> Vec<(At<&'n str>, &'n Node<'a>)> {
        let pairs = self.pairs(node, what).unwrap_or_default();
        let mut seen: HashMap<&str, Place> = HashMap::with_capacity(pairs.len());
        let mut entries = Vec::with_capacity(pairs.len());
        for pair in pairs {
            if self.found.is_full() {
                break;
            }
            let Some(name) = self.key(pair.key) else { continue };
            match seen.entry(name) {
                Entry::Occupied(_) if pair.merged => {}
                Entry::Occupied(first) => self.duplicate(name, pair, *first.get()),
                Entry::Vacant(free) => {
                    free.insert(pair.key.place);
                    entries.push((At::new(name, pair.key.place), pair.value));
                }
            }
        }
        entries
    }

    /// A field that has to be there.
    pub(super) fn require<'n, 'a>(
        &mut self,
        fields: &Fields<'n, 'a>,
        name: &str,
        what: &str,
        example: &str,
    ) -> Option<&'n Node<'a>> {
        let node = fields.get(name);
        if node.is_none() {
            let message = format!("{what} needs `{name}`");
            let found = Diagnostic::error("missing-field", fields.place, message);
            self.found.push(found.help(format!("add `{example}`")));
        }
        node
    }

    /// The pairs of a mapping: those written out first, then those of merge keys.
    fn pairs<'n, 'a>(&mut self, node: &'n Node<'a>, what: &str) -> Option<Vec<Pair<'n, 'a>>> {
        let Value::Map(map) = &node.value else {
            self.wrong_kind(node, what);
            return None;
        };
        let mut pairs = Vec::with_capacity(map.len());
        let mut merged = Vec::new();
        for (key, value) in map.iter() {
            match &key.value {
                Value::Scalar { text, plain: true } if text == "<<" => merged.push(value),
                _ => pairs.push(Pair { key, value, merged: false }),
            }
        }
        for value in merged {
            let maps = match &value.value {
                Value::List(maps) => maps.as_slice(),
                _ => std::slice::from_ref(value),
            };
            for map in maps {
                if !matches!(map.value, Value::Map(_)) {
                    let message = format!("`<<` takes in a mapping, found {}", map.kind());
                    let found = Diagnostic::error("merge-key", map.place, message);
                    self.found
                        .push(found.help("write `<<: *name` for a mapping that is marked `&name`"));
                    continue;
                }
                let more = self.pairs(map, what).unwrap_or_default();
                pairs.extend(more.into_iter().map(|pair| Pair { merged: true, ..pair }));
            }
        }
        Some(pairs)
    }

    fn key<'n>(&mut self, key: &'n Node<'_>) -> Option<&'n str> {
        let name = key.text();
        if name.is_none() {
            let message = format!("a field's name is a text, found {}", key.kind());
            self.found.push(Diagnostic::error("bad-key", key.place, message));
        }
        name
    }

    fn duplicate(&mut self, name: &str, pair: Pair<'_, '_>, first: Place) {
        let message = format!("{} is written twice", shown(name));
        let found = Diagnostic::error("duplicate-key", pair.key.place, message);
        let found = found.label("again here").related(first, "first here");
        self.found.push(found.help("keep one of them"));
    }

    fn unknown_field(
        &mut self,
        name: &str,
        key: &Node<'_>,
        what: &str,
        known: &[&'static str],
        meant: Option<&str>,
    ) {
        let message = format!("{what} has no field {}", shown(name));
        let found = Diagnostic::error("unknown-field", key.place, message);
        self.found.push(match meant {
            Some(meant) => found.fix(meant),
            None => found.help(format!("the fields are {}", listed(known.iter().copied()))),
        });
    }
}
