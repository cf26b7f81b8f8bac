//! Errors of limits: of the constructors, and of the parser about a text.

use std::fmt;
use std::time::Duration;

use super::keyword::Keyword;
use super::size::MAX_ENTRIES;
use super::unit::Period;

/// An error in the parameters of a limit. The message describes it and how to fix it.
///
/// ```
/// use tollgate::Limit;
/// let error = Limit::per_second(0).unwrap_err();
/// assert_eq!(error.to_string(), "a limit of 0 would never let anything pass: use at least 1");
/// let error = Limit::per_hour(100)?.fixed()?.sliding().unwrap_err();
/// assert_eq!(error.to_string(), r#""fixed" and "sliding" contradict each other: keep one"#);
/// # Ok::<(), tollgate::limit::InvalidLimit>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidLimit {
    /// A parameter that the algorithm does not accept.
    Algorithm(tollgate_core::InvalidLimit),
    /// Two keywords that exclude each other, such as two algorithms.
    Contradiction {
        /// The keyword that was first in the limit.
        first: &'static str,
        /// The keyword that contradicts `first`.
        second: &'static str,
    },
    /// An option that does not apply to this algorithm.
    IncompatibleOption {
        /// The option.
        option: &'static str,
        /// The keyword that the option does not go with.
        with: &'static str,
    },
    /// An option's number is too small or too large.
    OutOfRange {
        /// The option.
        option: &'static str,
        /// The number given.
        value: u64,
        /// The smallest valid number.
        least: u64,
        /// The largest valid number.
        most: u64,
    },
    /// A calendar period other than one day, week, month or year.
    CalendarPeriod(Period),
    /// A time zone that is not in the IANA database.
    UnknownTimeZone(String),
    /// A period that is not a whole number (of 32 bits) of any unit.
    PeriodTooFine(Duration),
    /// A label that is not valid in the text of a limit.
    Label(String),
    /// A limit whose counters could have more than [`MAX_ENTRIES`] entries.
    TooManyEntries {
        /// The keyword of the algorithm, which stores an entry for each request or permit.
        algorithm: &'static str,
        /// The amount of the limit.
        amount: u64,
    },
}

impl fmt::Display for InvalidLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidLimit::Algorithm(error) => error.fmt(f),
            InvalidLimit::Contradiction { first, second } => {
                write!(f, "\"{first}\" and \"{second}\" contradict each other: keep one")
            }
            InvalidLimit::IncompatibleOption { option, with } => {
                match Keyword::from_text(option).map_or(&[][..], Keyword::refines) {
                    [] => write!(f, "\"{option}\" does not go with \"{with}\""),
                    [first, rest @ ..] => {
                        write!(f, "\"{option}\" goes with \"{}\"", first.as_str())?;
                        rest.iter()
                            .try_for_each(|keyword| write!(f, ", \"{}\"", keyword.as_str()))?;
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
            InvalidLimit::TooManyEntries { algorithm: "log", amount } => write!(
                f,
                "a log stores every request of its window, at most {MAX_ENTRIES} and not {amount}: \
                 use a sliding window"
            ),
            InvalidLimit::TooManyEntries { algorithm, amount } => write!(
                f,
                "\"{algorithm}\" stores a lease for every permit, at most {MAX_ENTRIES} and not \
                 {amount}: count in larger units, or limit each key by itself"
            ),
        }
    }
}

/// Formats the message as `Display` does, because `main` prints a returned error with `Debug`.
impl fmt::Debug for InvalidLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for InvalidLimit {}

impl From<tollgate_core::InvalidLimit> for InvalidLimit {
    fn from(error: tollgate_core::InvalidLimit) -> InvalidLimit {
        InvalidLimit::Algorithm(error)
    }
}

/// The maximum length of a label in bytes.
pub(super) const MAX_LABEL: usize = 32;

/// An error in the text of a limit: its position, a message and a suggestion.
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
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseLimitError {
    /// The byte offset of the error, always at the start of a character.
    pub at: usize,
    /// The number of wrong bytes; 0 if something is missing.
    pub len: usize,
    /// Describes the error and what to use instead.
    pub message: String,
    /// A suggestion: the whole limit if fixing this error makes it valid, else the fixed part.
    pub suggestion: Option<String>,
    /// The text, truncated if it was too long.
    pub input: String,
}

impl ParseLimitError {
    /// Returns the column of the first wrong character, counted from 1.
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
        // Shows every character as one column, so that the carets stay below the error.
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

/// Formats the message as `Display` does, because `main` prints a returned error with `Debug`.
impl fmt::Debug for ParseLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ParseLimitError {}
