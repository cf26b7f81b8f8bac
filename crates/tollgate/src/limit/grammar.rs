//! The grammar and its parts, for rules: they know better how to show where a text goes wrong.

use std::ops::Range;

use tollgate_core::Span;

use super::fault::Fault;
use super::options::Options;
use super::parse::{self, MAX_LEN, Parser};
use super::spec::{Measure, Spec};
use super::unit::{Period, Unit};
use super::{Limit, calendar, hints, number};

/// What is wrong with a text: where, why, and what to put in place of which stretch.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) range: Range<usize>,
    pub(crate) message: String,
    pub(crate) fix: Option<(Range<usize>, String)>,
}

impl From<Fault> for Mistake {
    fn from(fault: Fault) -> Mistake {
        let Fault { range, message, fix } = fault;
        Mistake { range, message, fix }
    }
}

/// A whole limit: `10/s burst 20`.
pub(crate) fn limit(text: &str) -> Result<Limit, Mistake> {
    if text.len() > MAX_LEN {
        let message = format!("a limit is at most {MAX_LEN} bytes long, this is {}", text.len());
        return Err(Mistake { range: 0..text.len(), message, fix: None });
    }
    Ok(parse::read(text)?)
}

/// The options behind a limit by themselves, each read but not yet held against a limit.
pub(crate) fn options(text: &str) -> Result<(), Mistake> {
    let mut spec = Spec::new(1, Measure::Rate(Period { count: 1, unit: Unit::Day }));
    Options::read(&mut Parser::new(text), &mut spec)?;
    Ok(())
}

/// A number: `10`, `1_000`, `10k`, `5M`.
pub(crate) fn number(text: &str) -> Result<u64, Mistake> {
    Ok(number::parse(text).map_err(|why| hints::not_a_number(0..text.len(), text, why))?)
}

/// A length of time: `500ms`, `2s`, `10min`.
pub(crate) fn span(text: &str) -> Result<Span, Mistake> {
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
            Err(Fault::new(range, message).into())
        }
    }
}

/// A period: `h`, `10s`, `month`.
pub(crate) fn period(text: &str) -> Result<Period, Mistake> {
    let mut parser = Parser::new(text);
    let period = parser.period()?;
    match parser.word() {
        (_, "") => Ok(period),
        (range, word) => {
            let message = format!("{word:?} is too much: a period is a number and a unit");
            Err(Fault::new(range, message).into())
        }
    }
}

/// The time zone of that name as it is spelled, or the name that was probably meant.
pub(crate) fn zone(name: &str) -> Result<String, Mistake> {
    match calendar::zone(name) {
        Ok(zone) => Ok(zone.iana_name().unwrap_or(name).to_owned()),
        Err(error) => {
            let fault = Fault::new(0..name.len(), error.to_string());
            Err(match hints::zone_meant(name) {
                Some(zone) => fault.fix(zone),
                None => fault,
            }
            .into())
        }
    }
}

/// The unit of time spelled `word`.
pub(crate) fn unit(word: &str) -> Option<Unit> {
    Unit::named(word)
}
