//! Why a limit was refused: what a constructor says, and what the parser says about a text.

use std::fmt;
use std::time::Duration;

use super::unit::Period;
use super::words::Word;

/// Parameters that make no limit. The message says what is wrong and what would do.
///
/// ```
/// use tollgate::Limit;
/// let error = Limit::per_second(0).unwrap_err();
/// assert_eq!(error.to_string(), "a limit of 0 would never let anything pass: use at least 1");
/// let error = Limit::per_hour(100)?.fixed()?.sliding().unwrap_err();
/// assert_eq!(error.to_string(), r#""fixed" and "sliding" contradict each other: keep one"#);
/// # Ok::<(), tollgate::limit::InvalidLimit>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidLimit {
    /// A number no algorithm could honour.
    Engine(tollgate_core::InvalidLimit),
    /// Two algorithms for one limit.
    Contradiction {
        /// One of them.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// An option that means nothing for this kind of limit.
    Misfit {
        /// The option.
        option: &'static str,
        /// What it does not go with.
        with: &'static str,
    },
    /// An option's number is too small or too large.
    OutOfRange {
        /// The option.
        option: &'static str,
        /// Its number.
        value: u64,
        /// The smallest that would do.
        least: u64,
        /// The largest that would do.
        most: u64,
    },
    /// A calendar has days, weeks, months and years, one at a time.
    CalendarPeriod(Period),
    /// A time zone that is not in the IANA database.
    UnknownTimeZone(String),
    /// A length of time that is no whole number (of 32 bits) of any unit.
    PeriodTooFine(Duration),
    /// A label that could not be read back.
    Label(String),
}

impl fmt::Display for InvalidLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidLimit::Engine(error) => error.fmt(f),
            InvalidLimit::Contradiction { first, second } => {
                write!(f, "\"{first}\" and \"{second}\" contradict each other: keep one")
            }
            InvalidLimit::Misfit { option, with } => {
                match Word::option(option).map_or(&[][..], Word::refines) {
                    [] => write!(f, "\"{option}\" does not go with \"{with}\""),
                    [first, rest @ ..] => {
                        write!(f, "\"{option}\" goes with \"{}\"", first.as_str())?;
                        rest.iter().try_for_each(|word| write!(f, ", \"{}\"", word.as_str()))?;
                        write!(f, "; not with \"{with}\"")
                    }
                }
            }
            InvalidLimit::OutOfRange { option, value, least, most } => {
                write!(f, "{option} {value}: use between {least} and {most}")
            }
            InvalidLimit::CalendarPeriod(period) => write!(
                f,
                "a calendar has no period of \"{period}\": use one day, week, month or year"
            ),
            InvalidLimit::UnknownTimeZone(name) => write!(
                f,
                "unknown time zone {name:?}: use an IANA name such as \"Europe/Berlin\" or \"UTC\""
            ),
            InvalidLimit::PeriodTooFine(length) => {
                write!(f, "a period of {length:?} is too fine for its length: round it")
            }
            InvalidLimit::Label(label) => write!(
                f,
                "{label:?} is no label: use up to {MAX_LABEL} letters, digits, \"_\" or \"-\", \
                 a letter first, and no word of the grammar"
            ),
        }
    }
}

impl std::error::Error for InvalidLimit {}

impl From<tollgate_core::InvalidLimit> for InvalidLimit {
    fn from(error: tollgate_core::InvalidLimit) -> InvalidLimit {
        InvalidLimit::Engine(error)
    }
}

/// The longest label, in bytes.
pub(super) const MAX_LABEL: usize = 32;

/// A text that is no limit: where, why, and what was probably meant.
///
/// ```
/// use tollgate::Limit;
/// let error = "10/mn".parse::<Limit>().unwrap_err();
/// assert_eq!((error.at, error.len), (3, 2));
/// assert_eq!(error.suggestion.as_deref(), Some("10/min"));
/// assert_eq!(
///     error.to_string(),
///     r#"unknown unit "mn": use ms, s, min, h, day, week, month or year
///   10/mn
///      ^^
/// did you mean "10/min"?"#
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseLimitError {
    /// Where it goes wrong: an offset in bytes, always at a character's start.
    pub at: usize,
    /// How many bytes are wrong; none if something is missing.
    pub len: usize,
    /// What is wrong.
    pub message: String,
    /// What was probably meant: the whole limit if mending this makes it one, else a part.
    pub suggestion: Option<String>,
    /// The text, cut if it was overlong.
    pub input: String,
}

impl ParseLimitError {
    /// The column of the first wrong character, counted from 1.
    ///
    /// ```
    /// let error = "10/mn".parse::<tollgate::Limit>().unwrap_err();
    /// assert_eq!(error.column(), 4);
    /// ```
    pub fn column(&self) -> usize {
        1 + self.input.get(..self.at).map_or(0, |before| before.chars().count())
    }
}

impl fmt::Display for ParseLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wrong = self.input.get(self.at..self.at + self.len).unwrap_or_default();
        let (indent, carets) = (self.column() + 1, wrong.chars().count().max(1));
        // One column for each character, whatever it is, so that the carets stay below.
        let shown = self.input.chars().map(|c| match c {
            c if c.is_whitespace() => ' ',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        });
        let shown: String = shown.collect();
        if shown.trim().is_empty() {
            return f.write_str(&self.message);
        }
        writeln!(f, "{}\n  {}", self.message, shown.trim_end())?;
        write!(f, "{:indent$}{}", "", "^".repeat(carets))?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "\ndid you mean \"{suggestion}\"?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ParseLimitError {}
