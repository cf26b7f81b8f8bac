//! An error in a limit's text: the wrong bytes, a message and a suggested fix.

use std::ops::Range;

use super::{ParseLimitError, parse};

/// An error in a limit's text: where it is, what is wrong, and what would fix it.
#[derive(Debug)]
pub struct GrammarError {
    /// The bytes of the text that are wrong.
    pub range: Range<usize>,
    /// Describes the error for a reader.
    pub message: String,
    /// A replacement, and the bytes it replaces.
    pub fix: Option<(Range<usize>, String)>,
}

impl GrammarError {
    pub(super) fn new(range: Range<usize>, message: impl Into<String>) -> GrammarError {
        GrammarError { range, message: message.into(), fix: None }
    }

    /// Suggests `text` in place of the wrong bytes.
    pub(super) fn with_fix(self, text: impl Into<String>) -> GrammarError {
        let range = self.range.clone();
        self.with_fix_at(range, text)
    }

    /// Suggests `text` in place of `range`.
    pub(super) fn with_fix_at(
        mut self,
        range: Range<usize>,
        text: impl Into<String>,
    ) -> GrammarError {
        self.fix = Some((range, text.into()));
        self
    }

    /// Converts to the public error about `input`.
    ///
    /// The suggestion is a whole limit if the fix makes `input` one, else the fix alone.
    pub(super) fn into_parse_error(self, input: &str) -> ParseLimitError {
        let suggestion = self.fix.map(|(range, text)| {
            let mut whole = input.to_owned();
            whole.replace_range(range, &text);
            let fixed = if parse::read(&whole).is_ok() { whole } else { text };
            fixed.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        let (at, len) = (self.range.start, self.range.len());
        let suggestion =
            suggestion.filter(|text| !text.is_empty() && !text.contains(char::is_control));
        ParseLimitError { at, len, message: self.message, suggestion, input: input.to_owned() }
    }
}
