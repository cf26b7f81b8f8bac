//! The grammar of a limit, read from left to right.
//!
//! ```text
//! limit  = N [label] "/" [count] unit { option }
//!        | N "concurrent" { option }
//!        | "adaptive" N ".." N "concurrent" { option }
//!        | "unlimited"
//! ```
//!
//! The first thing wrong ends it, with a [`Fault`] that knows where. What is wrong with the
//! limit as a whole is found by the same check that constructors go through, and pointed at here.

use std::ops::Range;

use tollgate_core::Span;

use super::error::MAX_LABEL;
use super::fault::Fault;
use super::number::{self, NotANumber};
use super::options::Options;
use super::spec::{Measure, Spec};
use super::unit::{Period, Unit};
use super::words::Word;
use super::{InvalidLimit, Limit, ParseLimitError, hints};

/// The longest text, in bytes; any limit is shorter.
pub(super) const MAX_LEN: usize = 200;

pub(super) fn limit(text: &str) -> Result<Limit, ParseLimitError> {
    if text.len() > MAX_LEN {
        let at = text.floor_char_boundary(MAX_LEN);
        let message = format!("a limit is at most {MAX_LEN} bytes long, this is {}", text.len());
        let input = format!("{}…", &text[..at]);
        return Err(ParseLimitError { at, len: 0, message, suggestion: None, input });
    }
    read(text).map_err(|fault| fault.about(text))
}

/// Reads `text`; what is wrong is not yet put to words.
pub(super) fn read(text: &str) -> Result<Limit, Fault> {
    let mut parser = Parser::new(text);
    let mut spec = parser.measure()?;
    let options = Options::read(&mut parser, &mut spec)?;
    Limit::from_spec(spec).map_err(|error| hints::blame(&error, &parser, &options))
}

/// Whether `word` can stand between an amount and its `/`.
pub(super) fn is_label(word: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let reserved = ["concurrent", "distinct", "per"];
    word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.len() <= MAX_LABEL
        && word.chars().all(inner)
        && !reserved.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
}

/// A place in the text, and where the parts already read were.
pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) amount: Range<usize>,
    pub(super) period: Range<usize>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Parser<'a> {
        Parser { text, at: 0, amount: 0..0, period: 0..0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Steps over `token`, in either case, if it is next.
    pub(super) fn skip(&mut self, token: &str) -> bool {
        let next = self.rest().get(..token.len());
        let found = next.is_some_and(|next| next.eq_ignore_ascii_case(token));
        self.at += if found { token.len() } else { 0 };
        found
    }

    /// What stands before `end` is true of the rest; blanks before it are skipped.
    fn take_until(&mut self, end: impl Fn(&str) -> bool) -> (Range<usize>, &'a str) {
        self.skip_blanks();
        let rest = self.rest();
        let stop = rest.char_indices().map(|(i, _)| i).find(|i| end(&rest[*i..]));
        let start = self.at;
        self.at += stop.unwrap_or(rest.len());
        (start..self.at, &self.text[start..self.at])
    }

    /// The next word: up to a blank.
    pub(super) fn word(&mut self) -> (Range<usize>, &'a str) {
        self.take_until(is_blank)
    }

    /// The next word of an amount or a label: up to a blank, `/` or `..`.
    pub(super) fn token(&mut self) -> (Range<usize>, &'a str) {
        self.take_until(|rest| is_blank(rest) || rest.starts_with('/') || rest.starts_with(".."))
    }

    /// Everything up to the options.
    fn measure(&mut self) -> Result<Spec, Fault> {
        let (range, word) = self.token();
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        if self.text.trim().is_empty() {
            let message = "a limit is missing: write one such as \"10/s\" or \"100 concurrent\"";
            return Err(Fault::new(0..0, message));
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
            return Err(Fault::new(range, message));
        }
        self.amount = range.clone();
        let amount = match number::parse(word) {
            Ok(amount) => amount,
            Err(why) => return Err(hints::no_amount(self, range, word, why)),
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
            return Err(Fault::new(range, message));
        }
        self.skip_blanks();
        if !self.skip("/") {
            return Err(hints::no_period(self, range, word));
        }
        if !is_label(word) {
            let message = InvalidLimit::Label(word.into()).to_string();
            return Err(Fault::new(range, message));
        }
        let mut spec = Spec::new(amount, Measure::Rate(self.period()?));
        spec.label = Some(word.into());
        Ok(spec)
    }

    fn adaptive(&mut self) -> Result<Spec, Fault> {
        let (low, word) = self.token();
        let min = number::parse(word).map_err(|why| hints::not_a_number(low.clone(), word, why))?;
        self.skip_blanks();
        if !self.skip("..") {
            let message = "expected \"..\" and the most at a time, as in \"adaptive 20..500\"";
            return Err(Fault::new(self.at..self.at, message));
        }
        let (high, word) = self.token();
        let max =
            number::parse(word).map_err(|why| hints::not_a_number(high.clone(), word, why))?;
        self.amount = low.start..high.end;
        let (range, word) = self.token();
        if !word.eq_ignore_ascii_case("concurrent") {
            let message = "expected \"concurrent\": an adaptive limit is of so many at a time";
            let fix = if word.is_empty() { " concurrent" } else { "concurrent" };
            return Err(Fault::new(range, message).fix(fix));
        }
        Ok(Spec::new(max, Measure::Adaptive { min }))
    }

    /// What follows the `/`.
    pub(super) fn period(&mut self) -> Result<Period, Fault> {
        let (range, count) = self.count();
        let (unit_range, word) = self.word();
        self.period = range.start..unit_range.end;
        if word.is_empty() || Word::option(word).is_some() {
            return Err(hints::no_unit(range, count));
        }
        let unit = Unit::named(word).ok_or_else(|| hints::no_such_unit(unit_range, word))?;
        if count.is_empty() {
            return Ok(Period { count: 1, unit });
        }
        let whole = number::parse(count).map(u32::try_from);
        match whole {
            Ok(Ok(count)) => Ok(Period { count, unit }),
            Ok(Err(_)) | Err(NotANumber::TooLarge) => {
                Err(Fault::new(range, format!("a period is at most {} units long", u32::MAX)))
            }
            Err(why) => Err(hints::no_count(range, self.period.clone(), count, unit, why)),
        }
    }

    /// A length of time: `500ms`, `3s`, `1min`. What to say if there is none is `missing`.
    pub(super) fn span(&mut self, missing: &str) -> Result<Span, Fault> {
        let (range, count) = self.count();
        if count.is_empty() {
            let (range, _) = self.word();
            return Err(Fault::new(range, missing));
        }
        let (unit_range, word) = self.word();
        if word.is_empty() || Word::option(word).is_some() {
            return Err(hints::no_unit(range, count));
        }
        let whole = range.start..unit_range.end;
        let unit = Unit::named(word).ok_or_else(|| hints::no_such_unit(unit_range, word))?;
        match number::parse(count) {
            Ok(count) => Ok(unit.span().times(count)),
            Err(why) => Err(hints::no_count(range, whole, count, unit, why)),
        }
    }

    /// The digits before a unit; they may be missing.
    fn count(&mut self) -> (Range<usize>, &'a str) {
        self.take_until(|rest| {
            !rest.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '_' | '.'))
        })
    }
}

fn is_blank(rest: &str) -> bool {
    rest.starts_with(char::is_whitespace)
}
