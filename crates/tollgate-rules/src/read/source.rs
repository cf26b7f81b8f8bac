//! The texts that rules are read from, and the spans in them that messages point at.

use std::ops::Range;
use std::sync::Arc;

/// A text that rules are read from, usually a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name used in messages: the path as it was given.
    pub name: String,
    /// The content.
    pub text: String,
}

impl Source {
    /// Creates a source from a name and a text.
    ///
    /// ```
    /// use tollgate_rules::{Rules, Source};
    /// let source = Source::new("shop.yaml", "rules: [{ name: all, limit: 10/s }]");
    /// assert!(Rules::read([source]).is_ok());
    /// ```
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        Source { name: name.into(), text: text.into() }
    }
}

/// The sources of one rule set; a [`SourceSpan`] points into one of them.
pub(crate) type Sources = Arc<[Source]>;

/// A range of bytes, `start..end`, of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceSpan {
    pub(crate) source: u32,
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Whether the source spells the value letter by letter, so that a part of the value can be
    /// pointed at. Escapes, folded lines and aliases do not.
    verbatim: bool,
}

impl SourceSpan {
    pub(crate) fn new(source: u32, start: usize, end: usize) -> SourceSpan {
        SourceSpan { source, start: start as u32, end: end as u32, verbatim: false }
    }

    /// Marks the span of a value that the source spells letter by letter.
    pub(crate) fn verbatim(self) -> SourceSpan {
        SourceSpan { verbatim: true, ..self }
    }

    pub(crate) fn is_verbatim(self) -> bool {
        self.verbatim
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns a part of this span; `range` counts from its start.
    ///
    /// Where the source does not spell the value letter by letter, this is the whole span.
    pub(crate) fn subspan(self, range: Range<usize>) -> SourceSpan {
        if !self.verbatim {
            return self;
        }
        let at = |offset: usize| self.start.saturating_add(offset as u32).min(self.end);
        SourceSpan { start: at(range.start), end: at(range.end), ..self }
    }
}

/// A value and the span it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) span: SourceSpan,
}

impl<T> Spanned<T> {
    pub(crate) fn new(value: T, span: SourceSpan) -> Spanned<T> {
        Spanned { value, span }
    }

    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Spanned<U> {
        Spanned { value: change(self.value), span: self.span }
    }
}

impl<T> std::ops::Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
