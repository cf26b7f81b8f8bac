//! The options behind a limit: a word each, some with a number, a length of time or a zone.

use std::ops::Range;

use super::fault::Fault;
use super::hints;
use super::number;
use super::parse::Parser;
use super::spec::{Spec, Value};
use super::words::{Argument, Word};

/// Which options were read, and where, with their arguments.
pub(super) struct Options(Vec<(Word, Range<usize>)>);

impl Options {
    /// Reads all options up to the end of the text into `spec`.
    pub(super) fn read(parser: &mut Parser<'_>, spec: &mut Spec) -> Result<Options, Fault> {
        let mut options = Vec::new();
        loop {
            let (range, text) = parser.word();
            if text.is_empty() {
                return Ok(Options(options));
            }
            let word = Word::option(text).ok_or_else(|| hints::no_option(range.clone(), text))?;
            if spec.has(word) {
                let message = format!("\"{}\" is given twice", word.as_str());
                return Err(Fault::new(range, message));
            }
            let (value, end) = argument(parser, word, range.end)?;
            spec.set(word, value);
            options.push((word, range.start..end));
        }
    }

    /// Where the option of that name stands.
    pub(super) fn find(&self, word: Word) -> Option<Range<usize>> {
        self.0.iter().find(|(read, _)| *read == word).map(|(_, range)| range.clone())
    }
}

/// What follows `word`, which ends at `end`, and where that ends.
fn argument(parser: &mut Parser<'_>, word: Word, end: usize) -> Result<(Value, usize), Fault> {
    match word.takes() {
        Argument::Nothing => Ok((Value::Nothing, end)),
        Argument::Span => {
            let missing = format!("\"{}\" needs a length of time such as 3s", word.as_str());
            let span = parser.span(&missing)?;
            Ok((Value::Span(span), parser.at))
        }
        Argument::Number => {
            let (range, text) = parser.word();
            if text.is_empty() || Word::option(text).is_some() {
                let message = format!("\"{}\" needs a number", word.as_str());
                return Err(Fault::new(range, message));
            }
            let read = number::parse(text);
            let number = read.map_err(|why| hints::not_a_number(range.clone(), text, why))?;
            Ok((Value::Number(number), range.end))
        }
        Argument::Zone => {
            let (range, text) = parser.word();
            if text.is_empty() {
                let message =
                    format!("\"{}\" needs a time zone such as Europe/Berlin", word.as_str());
                return Err(Fault::new(range, message));
            }
            Ok((Value::Zone(text.into()), range.end))
        }
    }
}
