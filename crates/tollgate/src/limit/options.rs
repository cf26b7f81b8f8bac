//! Parses the options of a limit: keywords, some with a number, a length of time or a zone.

use std::ops::Range;

use super::grammar_error::GrammarError;
use super::hints;
use super::keyword::{ArgumentKind, Keyword};
use super::number;
use super::parse::Parser;
use super::spec::{OptionValue, Spec};

/// The options that were read, each with the byte range of its keyword and argument.
pub(super) struct Options(Vec<(Keyword, Range<usize>)>);

impl Options {
    /// Reads all options up to the end of the text into `spec`.
    pub(super) fn read(parser: &mut Parser<'_>, spec: &mut Spec) -> Result<Options, GrammarError> {
        let mut options = Vec::new();
        loop {
            let (range, text) = parser.word();
            if text.is_empty() {
                return Ok(Options(options));
            }
            let keyword = Keyword::from_text(text)
                .ok_or_else(|| hints::unknown_option(range.clone(), text))?;
            if spec.has(keyword) {
                let message = format!("\"{}\" is given twice", keyword.as_str());
                return Err(GrammarError::new(range, message));
            }
            let (value, end) = argument(parser, keyword, range.end)?;
            spec.set(keyword, value);
            options.push((keyword, range.start..end));
        }
    }

    /// Returns the byte range of an option.
    pub(super) fn find(&self, keyword: Keyword) -> Option<Range<usize>> {
        self.0.iter().find(|(read, _)| *read == keyword).map(|(_, range)| range.clone())
    }

    /// Returns the byte range from the first option to the last.
    pub(super) fn range(&self) -> Option<Range<usize>> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        Some(first.1.start..last.1.end)
    }
}

/// Reads the argument of `keyword`, which ends at `end`; returns it and the end of both.
fn argument(
    parser: &mut Parser<'_>,
    keyword: Keyword,
    end: usize,
) -> Result<(OptionValue, usize), GrammarError> {
    match keyword.argument() {
        ArgumentKind::Nothing => Ok((OptionValue::Nothing, end)),
        ArgumentKind::Span => {
            let missing = format!("\"{}\" needs a length of time such as 3s", keyword.as_str());
            let span = parser.span(&missing)?;
            Ok((OptionValue::Span(span), parser.position))
        }
        ArgumentKind::Number => {
            let (range, text) = parser.word();
            if text.is_empty() || Keyword::from_text(text).is_some() {
                let message = format!("\"{}\" needs a number", keyword.as_str());
                return Err(GrammarError::new(range, message));
            }
            let read = number::parse(text);
            let number =
                read.map_err(|reason| hints::invalid_number(range.clone(), text, reason))?;
            Ok((OptionValue::Number(number), range.end))
        }
        ArgumentKind::Zone => {
            let (range, text) = parser.word();
            if text.is_empty() {
                let message =
                    format!("\"{}\" needs a time zone such as Europe/Berlin", keyword.as_str());
                return Err(GrammarError::new(range, message));
            }
            Ok((OptionValue::Zone(text.into()), range.end))
        }
    }
}
