//! The parser of limits.
//!
//! ```text
//! limit  = N [label] "/" [count] unit { option }
//!        | N "concurrent" { option }
//!        | "adaptive" N ".." N "concurrent" { option }
//!        | "unlimited"
//! ```
//!
//! The first error ends parsing, with a [`GrammarError`] that has its position. The limit as a
//! whole is checked by `Limit::from_spec`, as for the constructors; this file adds the position.

use std::ops::Range;

use tollgate_core::Span;

use super::error::MAX_LABEL;
use super::grammar_error::GrammarError;
use super::keyword::Keyword;
use super::number::{self, NumberError};
use super::options::Options;
use super::spec::{Measure, Spec};
use super::unit::{Period, Unit};
use super::{InvalidLimit, Limit, ParseLimitError, hints};

/// The maximum length of a text in bytes; every valid limit is shorter.
pub(super) const MAX_LEN: usize = 200;

/// Parses a limit.
pub(super) fn limit(text: &str) -> Result<Limit, ParseLimitError> {
    if text.len() > MAX_LEN {
        let at = text.floor_char_boundary(MAX_LEN);
        let message = format!("a limit is at most {MAX_LEN} bytes long, this is {}", text.len());
        let input = format!("{}…", &text[..at]);
        return Err(ParseLimitError { at, len: 0, message, suggestion: None, input });
    }
    read(text).map_err(|error| error.into_parse_error(text))
}

/// Parses a limit; the error has byte ranges for further processing.
pub(super) fn read(text: &str) -> Result<Limit, GrammarError> {
    let mut parser = Parser::new(text);
    let mut spec = parser.measure()?;
    let options = Options::read(&mut parser, &mut spec)?;
    Limit::from_spec(spec).map_err(|error| hints::locate(&error, &parser, &options))
}

/// Returns whether `word` is a valid label, between an amount and its `/`.
pub(super) fn is_label(word: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let reserved = ["concurrent", "distinct", "per"];
    word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.len() <= MAX_LABEL
        && word.chars().all(inner)
        && !reserved.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
}

/// The position of the parser in the text, and the ranges of the parts read so far.
pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) position: usize,
    pub(super) amount: Range<usize>,
    pub(super) period: Range<usize>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Parser<'a> {
        Parser { text, position: 0, amount: 0..0, period: 0..0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    pub(super) fn skip_blanks(&mut self) {
        self.position = self.text.len() - self.rest().trim_start().len();
    }

    /// Skips `token`, ignoring case, if it is next; returns whether it was.
    pub(super) fn skip(&mut self, token: &str) -> bool {
        let next = self.rest().get(..token.len());
        let found = next.is_some_and(|next| next.eq_ignore_ascii_case(token));
        self.position += if found { token.len() } else { 0 };
        found
    }

    /// Skips blanks and takes the text up to where `end` is true of the rest.
    fn take_until(&mut self, end: impl Fn(&str) -> bool) -> (Range<usize>, &'a str) {
        self.skip_blanks();
        let rest = self.rest();
        let stop = rest.char_indices().map(|(i, _)| i).find(|i| end(&rest[*i..]));
        let start = self.position;
        self.position += stop.unwrap_or(rest.len());
        (start..self.position, &self.text[start..self.position])
    }

    /// Takes the next word, up to a blank.
    pub(super) fn word(&mut self) -> (Range<usize>, &'a str) {
        self.take_until(is_blank)
    }

    /// Takes the next word of an amount or a label, up to a blank, `/` or `..`.
    pub(super) fn token(&mut self) -> (Range<usize>, &'a str) {
        self.take_until(|rest| is_blank(rest) || rest.starts_with('/') || rest.starts_with(".."))
    }

    /// Parses everything before the options.
    fn measure(&mut self) -> Result<Spec, GrammarError> {
        let (range, word) = self.token();
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        if self.text.trim().is_empty() {
            let message = "a limit is missing: write one such as \"10/s\" or \"100 concurrent\"";
            return Err(GrammarError::new(0..0, message));
        }
        if is("unlimited") {
            return Ok(Spec::new(u64::MAX, Measure::Unlimited));
        }
        if is("adaptive") {
            return self.adaptive();
        }
        if word.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("plan.")) {
            let message =
                format!("{word:?} takes the limit from a plan: valid only in a rules file");
            return Err(GrammarError::new(range, message));
        }
        self.amount = range.clone();
        let amount = match number::parse(word) {
            Ok(amount) => amount,
            Err(reason) => return Err(hints::invalid_amount(self, range, word, reason)),
        };
        self.skip_blanks();
        if self.skip("/") {
            return Ok(Spec::new(amount, Measure::Rate(self.period()?)));
        }
        let (range, word) = self.token();
        if word.eq_ignore_ascii_case("concurrent") {
            return Ok(Spec::new(amount, Measure::Concurrent));
        }
        if word.eq_ignore_ascii_case("distinct") {
            let message = "counting distinct values is valid only in a rules file";
            return Err(GrammarError::new(range, message));
        }
        self.skip_blanks();
        if !self.skip("/") {
            return Err(hints::missing_period(self, range, word));
        }
        if !is_label(word) {
            let message = InvalidLimit::Label(word.into()).to_string();
            return Err(GrammarError::new(range, message));
        }
        let mut spec = Spec::new(amount, Measure::Rate(self.period()?));
        spec.label = Some(word.into());
        Ok(spec)
    }

    /// Parses the range of an adaptive limit: `20..500 concurrent`.
    fn adaptive(&mut self) -> Result<Spec, GrammarError> {
        let (low, word) = self.token();
        let min = number::parse(word)
            .map_err(|reason| hints::invalid_number(low.clone(), word, reason))?;
        self.skip_blanks();
        if !self.skip("..") {
            let message = "expected \"..\" and the most at a time, as in \"adaptive 20..500\"";
            return Err(GrammarError::new(self.position..self.position, message));
        }
        let (high, word) = self.token();
        let max = number::parse(word)
            .map_err(|reason| hints::invalid_number(high.clone(), word, reason))?;
        self.amount = low.start..high.end;
        let (range, word) = self.token();
        if !word.eq_ignore_ascii_case("concurrent") {
            let message = "expected \"concurrent\": an adaptive limit is of so many at a time";
            let fix = if word.is_empty() { " concurrent" } else { "concurrent" };
            return Err(GrammarError::new(range, message).with_fix(fix));
        }
        Ok(Spec::new(max, Measure::Adaptive { min }))
    }

    /// Parses the period after the `/`.
    pub(super) fn period(&mut self) -> Result<Period, GrammarError> {
        let (range, count) = self.count();
        let (unit_range, word) = self.word();
        self.period = range.start..unit_range.end;
        if word.is_empty() || Keyword::from_text(word).is_some() {
            return Err(hints::missing_unit(range, count));
        }
        let unit = Unit::from_name(word).ok_or_else(|| hints::unknown_unit(unit_range, word))?;
        if count.is_empty() {
            return Ok(Period { count: 1, unit });
        }
        let whole = number::parse(count).map(u32::try_from);
        match whole {
            Ok(Ok(count)) => Ok(Period { count, unit }),
            Ok(Err(_)) | Err(NumberError::TooLarge) => Err(GrammarError::new(
                range,
                format!("a period is at most {} units long", u32::MAX),
            )),
            Err(reason) => {
                Err(hints::invalid_count(range, self.period.clone(), count, unit, reason))
            }
        }
    }

    /// Parses a length of time: `500ms`, `3s`, `1min`.
    ///
    /// `missing` is the error message if there is none.
    pub(super) fn span(&mut self, missing: &str) -> Result<Span, GrammarError> {
        let (range, count) = self.count();
        if count.is_empty() {
            let (range, _) = self.word();
            return Err(GrammarError::new(range, missing));
        }
        let (unit_range, word) = self.word();
        if word.is_empty() || Keyword::from_text(word).is_some() {
            return Err(hints::missing_unit(range, count));
        }
        let whole = range.start..unit_range.end;
        let unit = Unit::from_name(word).ok_or_else(|| hints::unknown_unit(unit_range, word))?;
        match number::parse(count) {
            Ok(count) => Ok(unit.span().times(count)),
            Err(reason) => Err(hints::invalid_count(range, whole, count, unit, reason)),
        }
    }

    /// Takes the digits before a unit, which may be missing.
    fn count(&mut self) -> (Range<usize>, &'a str) {
        self.take_until(|rest| {
            !rest.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '_' | '.'))
        })
    }
}

fn is_blank(rest: &str) -> bool {
    rest.starts_with(char::is_whitespace)
}
