//! A set of patterns: finds those that match a text without trying each.

use foldhash::HashMap;

use super::matches;

/// A set of patterns, each with a value.
///
/// A pattern is indexed by its prefix before the first star, or, if it begins with a star, by its
/// suffix after the last. A text is looked up once for each length of these, and the patterns found
/// are tried. Only patterns that begin and end with a star are tried on every text.
#[derive(Clone, Debug)]
pub(crate) struct Globs<T> {
    by_prefix: AffixIndex<T>,
    by_suffix: AffixIndex<T>,
    anywhere: Vec<(Box<str>, T)>,
}

/// Patterns by their prefix or suffix.
#[derive(Clone, Debug)]
struct AffixIndex<T> {
    /// The lengths of all prefixes or suffixes, each once.
    lengths: Vec<usize>,
    patterns: HashMap<Box<str>, Vec<(Box<str>, T)>>,
}

impl<T> Default for AffixIndex<T> {
    fn default() -> Self {
        AffixIndex { lengths: Vec::new(), patterns: HashMap::default() }
    }
}

impl<T> Default for Globs<T> {
    fn default() -> Self {
        Globs {
            by_prefix: AffixIndex::default(),
            by_suffix: AffixIndex::default(),
            anywhere: Vec::new(),
        }
    }
}

impl<T> AffixIndex<T> {
    fn insert(&mut self, piece: &str, pattern: &str, attached: T) {
        if !self.lengths.contains(&piece.len()) {
            self.lengths.push(piece.len());
        }
        self.patterns.entry(piece.into()).or_default().push((pattern.into(), attached));
    }

    fn find<'s>(&'s self, piece: Option<&str>) -> impl Iterator<Item = &'s (Box<str>, T)> {
        piece.and_then(|piece| self.patterns.get(piece)).into_iter().flatten()
    }
}

impl<T> Globs<T> {
    pub(crate) fn insert(&mut self, pattern: &str, attached: T) {
        let prefix = pattern.split('*').next().unwrap_or_default();
        let suffix = pattern.rsplit('*').next().unwrap_or_default();
        match (prefix.is_empty(), suffix.is_empty()) {
            (false, _) => self.by_prefix.insert(prefix, pattern, attached),
            (true, false) => self.by_suffix.insert(suffix, pattern, attached),
            (true, true) => self.anywhere.push((pattern.into(), attached)),
        }
    }

    /// Iterates over the values of the patterns that match, in no particular order.
    pub(crate) fn find<'s>(&'s self, text: &'s str) -> impl Iterator<Item = &'s T> {
        let prefixes = self.by_prefix.lengths.iter();
        let prefixed = prefixes.flat_map(|&length| self.by_prefix.find(text.get(..length)));
        let suffixes = self.by_suffix.lengths.iter();
        let suffixed = suffixes.flat_map(|&length| {
            let start = text.len().checked_sub(length);
            self.by_suffix.find(start.and_then(|start| text.get(start..)))
        });
        let all = prefixed.chain(suffixed).chain(&self.anywhere);
        all.filter(|(pattern, _)| matches(pattern, text)).map(|(_, attached)| attached)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_prefix.lengths.is_empty()
            && self.by_suffix.lengths.is_empty()
            && self.anywhere.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_what_trying_each_finds(
            patterns in prop::collection::vec("[ab*é]{0,4}\\*[abé]{0,3}", 0..20),
            text in "[abé]{0,8}",
        ) {
            let mut globs = Globs::default();
            for (index, pattern) in patterns.iter().enumerate() {
                globs.insert(pattern, index);
            }
            let mut found: Vec<usize> = globs.find(&text).copied().collect();
            found.sort_unstable();
            let tried = (0..patterns.len()).filter(|&index| matches(&patterns[index], &text));
            prop_assert_eq!(found, tried.collect::<Vec<_>>());
        }
    }
}
