//! The texts rules are read from, and places in them that a message can point at.

use std::ops::Range;
use std::sync::Arc;

/// One text: usually a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What messages call it: the path as it was given.
    pub name: String,
    /// What it says.
    pub text: String,
}

impl Source {
    /// A text under a name.
    ///
    /// ```
    /// use tollgate::rules::{Rules, Source};
    /// let source = Source::new("shop.yaml", "rules: [{ name: all, limit: 10/s }]");
    /// assert!(Rules::read([source]).is_ok());
    /// ```
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        Source { name: name.into(), text: text.into() }
    }
}

/// All texts of one set of rules; a [`Place`] is a place in one of them.
pub(crate) type Sources = Arc<[Source]>;

/// Where something stands: bytes `start..end` of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) source: u32,
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Whether the source says the value letter by letter, so that a part of the value can be
    /// pointed at. Escapes, folded lines and aliases do not.
    verbatim: bool,
}

impl Place {
    pub(crate) fn new(source: u32, start: usize, end: usize) -> Place {
        Place { source, start: start as u32, end: end as u32, verbatim: false }
    }

    /// The same place, of a value that is written there letter by letter.
    pub(crate) fn verbatim(self) -> Place {
        Place { verbatim: true, ..self }
    }

    pub(crate) fn is_verbatim(self) -> bool {
        self.verbatim
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// A part of this place: `range` counts from its start. All of it where counting would lie.
    pub(crate) fn part(self, range: Range<usize>) -> Place {
        if !self.verbatim {
            return self;
        }
        let at = |offset: usize| self.start.saturating_add(offset as u32).min(self.end);
        Place { start: at(range.start), end: at(range.end), ..self }
    }
}

/// A value, and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

impl<T> At<T> {
    pub(crate) fn new(value: T, place: Place) -> At<T> {
        At { value, place }
    }

    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> At<U> {
        At { value: change(self.value), place: self.place }
    }
}

impl<T> std::ops::Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
