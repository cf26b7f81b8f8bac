//! The limit grammar and its parts, for the rule language.
//!
//! All functions return a [`GrammarError`] with byte ranges, so that the rule language can
//! show errors at their position in a rules file.

use tollgate_core::Span;

use super::options::Options;
use super::parse::{self, MAX_LEN, Parser};
use super::spec::{Measure, Spec};
use super::unit::{Period, Unit};
use super::{Limit, calendar, hints, number};

pub use super::grammar_error::GrammarError;

/// Parses a whole limit: `10/s burst 20`.
pub fn limit(text: &str) -> Result<Limit, GrammarError> {
    if text.len() > MAX_LEN {
        let message = format!("a limit is at most {MAX_LEN} bytes long, this is {}", text.len());
        return Err(GrammarError::new(0..text.len(), message));
    }
    parse::read(text)
}

/// Checks the options of a limit on their own, without the amount they belong to.
pub fn options(text: &str) -> Result<(), GrammarError> {
    let mut spec = Spec::new(1, Measure::Rate(Period { count: 1, unit: Unit::Day }));
    Options::read(&mut Parser::new(text), &mut spec)?;
    Ok(())
}

/// Parses a number: `10`, `1_000`, `10k`, `5M`.
pub fn number(text: &str) -> Result<u64, GrammarError> {
    number::parse(text).map_err(|reason| hints::invalid_number(0..text.len(), text, reason))
}

/// Parses a length of time: `500ms`, `2s`, `10min`.
pub fn span(text: &str) -> Result<Span, GrammarError> {
    const USE: &str = "write one such as 500ms, 10s or 5min";
    let missing = match text.trim() {
        "" => format!("a length of time is missing: {USE}"),
        text => format!("{text:?} is no length of time: {USE}"),
    };
    let mut parser = Parser::new(text);
    let span = parser.span(&missing)?;
    match parser.word() {
        (_, "") => Ok(span),
        (range, word) => {
            let message = format!("{word:?} is too much: one number and one unit, as in 90min");
            Err(GrammarError::new(range, message))
        }
    }
}

/// Parses a period: `h`, `10s`, `month`.
pub fn period(text: &str) -> Result<Period, GrammarError> {
    let mut parser = Parser::new(text);
    let period = parser.period()?;
    match parser.word() {
        (_, "") => Ok(period),
        (range, word) => {
            let message = format!("{word:?} is too much: a period is a number and a unit");
            Err(GrammarError::new(range, message))
        }
    }
}

/// Returns the IANA spelling of the time zone `name`, or an error that suggests a similar name.
pub fn zone(name: &str) -> Result<String, GrammarError> {
    match calendar::zone(name) {
        Ok(zone) => Ok(zone.iana_name().unwrap_or(name).to_owned()),
        Err(error) => {
            let error = GrammarError::new(0..name.len(), error.to_string());
            Err(match hints::nearest_zone(name) {
                Some(zone) => error.with_fix(zone),
                None => error,
            })
        }
    }
}

/// Returns the unit of time spelled `word`.
pub fn unit(word: &str) -> Option<Unit> {
    Unit::from_name(word)
}
