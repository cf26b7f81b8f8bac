//! Texts with brackets between brackets, as in `{ settle: response.header["x-tokens"] }`: YAML wants
//! quotes around them, people forget. What was meant is plain, so it is read, and said.
//!
//! Places stay those of the text as it was written: whoever looks there, or applies a fix, has that
//! text and no other.

use std::borrow::Cow;
use std::rc::Rc;

use super::diagnostic::Diagnostic;
use super::source::Place;
use super::yaml::{self, Node, Value};

/// The code of what is mended here.
pub(crate) const UNQUOTED: &str = "unquoted";
/// The longest text that is mended; each mend reads it once more.
const MAX_BYTES: usize = 64 << 10;
/// The most mends in one text.
const MAX_MENDS: usize = 32;

/// A text with the quotes that YAML missed.
pub(crate) struct Mended<'t> {
    text: Cow<'t, str>,
    /// Where it has a byte that was not written, in order.
    added: Vec<usize>,
    /// What was done.
    pub(crate) found: Vec<Diagnostic>,
}

impl<'t> Mended<'t> {
    /// Puts quotes where they are missing.
    pub(crate) fn new(text: &'t str, source: u32) -> Mended<'t> {
        let mut mended = Mended { text: Cow::Borrowed(text), added: Vec::new(), found: Vec::new() };
        while text.len() <= MAX_BYTES && mended.found.len() < MAX_MENDS && mended.mend(source) {}
        mended
    }

    /// Mends one place; whether there was one to mend.
    fn mend(&mut self, source: u32) -> bool {
        let Err(problem) = yaml::parse(&self.text, source) else { return false };
        let (true, Some(quoted)) = (problem.code == UNQUOTED, &problem.fix) else { return false };
        let range = problem.place.range();
        let message =
            format!("read as {quoted}: between {{ }} and [ ] a text with brackets goes in quotes");
        self.found.push(Diagnostic::warning(UNQUOTED, self.written(problem.place), message));
        let mut added = Vec::new();
        let mut before = self.text[range.clone()].bytes().peekable();
        for (offset, byte) in quoted.bytes().enumerate() {
            if before.next_if_eq(&byte).is_none() {
                added.push(range.start + offset);
            }
        }
        let grown = added.len();
        let later = self.added.iter_mut().filter(|at| **at >= range.end);
        later.for_each(|at| *at += grown);
        self.added.extend(added);
        self.added.sort_unstable();
        self.text.to_mut().replace_range(range, quoted);
        true
    }

    /// Reads it; places are those of the text as it was written.
    pub(crate) fn parse(&self, source: u32) -> Result<Node<'_>, Diagnostic> {
        let parsed = yaml::parse(&self.text, source);
        if self.added.is_empty() {
            return parsed;
        }
        let mut root = parsed.map_err(|problem| problem.moved(|place| self.written(place)))?;
        self.move_node(&mut root);
        Ok(root)
    }

    fn move_node(&self, node: &mut Node<'_>) {
        node.place = self.written(node.place);
        match &mut node.value {
            Value::Scalar { .. } => {}
            Value::List(items) => {
                Rc::make_mut(items).iter_mut().for_each(|item| self.move_node(item));
            }
            Value::Map(pairs) => {
                for (key, value) in Rc::make_mut(pairs) {
                    self.move_node(key);
                    self.move_node(value);
                }
            }
        }
    }

    /// A place of the mended text, in the text as it was written.
    fn written(&self, place: Place) -> Place {
        let written =
            |at: u32| at - self.added.partition_point(|added| *added < at as usize) as u32;
        let (start, end) = (written(place.start), written(place.end));
        let moved = Place::new(place.source, start as usize, end as usize);
        if place.is_verbatim() { moved.verbatim() } else { moved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_text_as_it_was_written() {
        let text = "a: { b: c[\"it's\"], d: e[1] }\nf: g";
        let mended = Mended::new(text, 0);
        assert_eq!(mended.text, "a: { b: 'c[\"it''s\"]', d: \"e[1]\" }\nf: g");
        let at = |found: &Diagnostic| &text[found.place.range()];
        assert_eq!(mended.found.iter().map(at).collect::<Vec<_>>(), ["c[\"it's\"]", "e[1]"]);
        let root = mended.parse(0).unwrap();
        let Value::Map(pairs) = &root.value else { panic!("{root:?}") };
        assert_eq!(&text[pairs[1].1.place.range()], "g");
        let Value::Map(inner) = &pairs[0].1.value else { panic!("{root:?}") };
        assert_eq!(inner[0].1.text(), Some("c[\"it's\"]"));
        assert_eq!(&text[inner[1].0.place.range()], "d");
        assert_eq!(&text[inner[1].1.place.range()], "e[1]");
    }
}
