//! What the parser found wrong, before it is put to words for a reader.

use std::ops::Range;

use super::{ParseLimitError, parse};

/// A stretch of the text, what is wrong with it, and what would mend it.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) range: Range<usize>,
    pub(super) message: String,
    /// What to put in place of which stretch.
    pub(super) fix: Option<(Range<usize>, String)>,
}

impl Fault {
    pub(super) fn new(range: Range<usize>, message: impl Into<String>) -> Fault {
        Fault { range, message: message.into(), fix: None }
    }

    /// Would be right with `text` in place of what is wrong.
    pub(super) fn fix(self, text: impl Into<String>) -> Fault {
        let range = self.range.clone();
        self.fix_at(range, text)
    }

    /// Would be right with `text` in place of `range`.
    pub(super) fn fix_at(mut self, range: Range<usize>, text: impl Into<String>) -> Fault {
        self.fix = Some((range, text.into()));
        self
    }

    /// The error about `input`, whose suggestion is a whole limit if the fix makes it one.
    pub(super) fn about(self, input: &str) -> ParseLimitError {
        let suggestion = self.fix.map(|(range, text)| {
            let mut whole = input.to_owned();
            whole.replace_range(range, &text);
            let mended = if parse::read(&whole).is_ok() { whole } else { text };
            mended.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        let (at, len) = (self.range.start, self.range.len());
        let suggestion =
            suggestion.filter(|text| !text.is_empty() && !text.contains(char::is_control));
        ParseLimitError { at, len, message: self.message, suggestion, input: input.to_owned() }
    }
}
