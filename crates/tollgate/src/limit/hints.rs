//! The errors of the parser, each with a message and a suggested fix.

use std::ops::Range;
use std::sync::LazyLock;

use tollgate_core::{InvalidLimit as CoreInvalidLimit, MAX_AMOUNT, Span};

use super::InvalidLimit;
use super::calendar::zone_names;
use super::display::NumberText;
use super::grammar_error::GrammarError;
use super::keyword::{Keyword, nearest};
use super::number::{self, NumberError, split};
use super::options::Options;
use super::parse::Parser;
use super::unit::{Period, SpanText, Unit};

const UNITS: &str = "use ms, s, min, h, day, week, month or year";
const OPTIONS: &str =
    "the usual ones are burst, sliding, fixed, log, leaky, gcra, calendar, warmup and interval";

/// Returns the error for a word that is not a number.
pub(super) fn invalid_number(range: Range<usize>, word: &str, reason: NumberError) -> GrammarError {
    let error = |message: String| GrammarError::new(range.clone(), message);
    match reason {
        NumberError::Negative => {
            let error = error(format!("{word:?} is negative: use at least 1"));
            match word.trim_start_matches(['-', '0', '_']) {
                "" => error,
                _ => error.with_fix(word.trim_start_matches('-')),
            }
        }
        NumberError::Fraction(value @ 1.., 1) => {
            error(format!("{word:?} has a decimal point: write it out")).with_fix(value.to_string())
        }
        NumberError::Fraction(..) => error(format!("{word:?} is not a whole number")),
        NumberError::Commas(value) => error(format!("{word:?} has commas: write \"_\" or nothing"))
            .with_fix(NumberText(value).to_string()),
        NumberError::TooLarge => {
            error(format!("{word:?} is above the largest amount, {MAX_AMOUNT}"))
        }
        NumberError::Suffix(len) if &word[len..] == "m" => {
            error(format!("{word:?}: a million is \"M\"")).with_fix(format!("{}M", &word[..len]))
        }
        NumberError::Malformed if word.is_empty() => error("a number is missing".to_owned()),
        NumberError::Suffix(_) | NumberError::Malformed => {
            error(format!("expected a number such as 10, 1_000, 10k or 5M, not {word:?}"))
        }
    }
}

/// Returns the error for a text that does not begin with an amount.
pub(super) fn invalid_amount(
    parser: &mut Parser<'_>,
    range: Range<usize>,
    word: &str,
    reason: NumberError,
) -> GrammarError {
    match reason {
        NumberError::Fraction(value, of) if of > 1 => {
            let error = invalid_number(range.clone(), word, reason);
            parser.skip_blanks();
            let rate = parser.skip("/").then(|| parser.period().ok()).flatten();
            let slower = rate.and_then(|Period { count, unit }| {
                Some(Period { count: count.checked_mul(u32::try_from(of).ok()?)?, unit })
            });
            match slower {
                Some(period) if value > 0 => {
                    error.with_fix_at(range.start..parser.period.end, format!("{value}/{period}"))
                }
                _ => error,
            }
        }
        NumberError::Suffix(len) => {
            let (amount, rest) = word.split_at(len);
            parser.skip_blanks();
            if parser.skip("/") {
                return match rest {
                    "m" => invalid_number(range, word, reason),
                    _ => GrammarError::new(
                        range,
                        format!("expected a blank between {amount:?} and {rest:?}"),
                    )
                    .with_fix(format!("{amount} {rest}")),
                };
            }
            missing_period(parser, range.start + len..range.end, rest)
        }
        NumberError::Malformed => {
            let begins = ["unlimited", "adaptive"].into_iter();
            match nearest(word, begins) {
                Some(meant) => {
                    GrammarError::new(range, format!("unknown word {word:?}")).with_fix(meant)
                }
                None => invalid_number(range, word, reason),
            }
        }
        reason => invalid_number(range, word, reason),
    }
}

/// Returns the error for an amount that `word` follows instead of `/` and a period.
pub(super) fn missing_period(
    parser: &mut Parser<'_>,
    range: Range<usize>,
    word: &str,
) -> GrammarError {
    let message = "expected \"/\" and a period after the amount";
    let end = parser.amount.end.min(range.start);
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    // `10 s`, `10s`, `10 rps`, `10 per s`, `10 requests per s`
    let unit = match word {
        _ if is("m") => Some("min".to_owned()),
        _ if is("rps") || is("qps") => Some("s".to_owned()),
        _ if is("rpm") => Some("min".to_owned()),
        _ if is("per") => Unit::from_name(parser.token().1).map(|unit| unit.to_string()),
        _ => Unit::from_name(word).map(|unit| unit.to_string()),
    };
    if let Some(unit) = unit {
        let stop = if is("per") { parser.position } else { range.end };
        return GrammarError::new(range, message).with_fix_at(end..stop, format!("/{unit}"));
    }
    if word.is_empty() {
        return GrammarError::new(end..end, message).with_fix("/s");
    }
    if nearest(word, ["concurrent"].into_iter()).is_some() {
        return GrammarError::new(range, message).with_fix("concurrent");
    }
    if Keyword::from_text(word).is_some() {
        return GrammarError::new(range.clone(), message).with_fix_at(end..end, "/s");
    }
    let (per, next) = parser.token();
    match next.eq_ignore_ascii_case("per").then(|| Unit::from_name(parser.token().1)).flatten() {
        Some(unit) => GrammarError::new(per, message)
            .with_fix_at(range.end..parser.position, format!("/{unit}")),
        None => GrammarError::new(range.end..range.end, message),
    }
}

/// Returns the error for a count without a unit.
pub(super) fn missing_unit(range: Range<usize>, count: &str) -> GrammarError {
    match count {
        "" => GrammarError::new(range, format!("a unit of time is missing: {UNITS}")),
        _ => GrammarError::new(range, format!("{count:?} of what? {UNITS}"))
            .with_fix(format!("{count}s")),
    }
}

/// Returns the error for a word that is not a unit.
pub(super) fn unknown_unit(range: Range<usize>, word: &str) -> GrammarError {
    if word.eq_ignore_ascii_case("m") {
        let message = format!("{word:?} could be a minute or a month: write \"min\" or \"month\"");
        return GrammarError::new(range, message).with_fix("min");
    }
    if split(word.trim_start_matches('-')).0.is_empty() {
        let error = GrammarError::new(range, format!("unknown unit {word:?}: {UNITS}"));
        return match nearest(word, Unit::spellings()).and_then(Unit::from_name) {
            Some(unit) => error.with_fix(unit.to_string()),
            None => error,
        };
    }
    GrammarError::new(range, format!("{word:?} is no period: use at least 1 of a unit"))
}

/// Returns the error for a count that is not a whole number.
///
/// `whole` is the range of the count and its unit, which a fix in a smaller unit replaces.
pub(super) fn invalid_count(
    range: Range<usize>,
    whole: Range<usize>,
    count: &str,
    unit: Unit,
    reason: NumberError,
) -> GrammarError {
    let NumberError::Fraction(value, of) = reason else {
        return invalid_number(range, count, reason);
    };
    let error = invalid_number(range, count, reason);
    match unit.span().as_nanos().checked_mul(value) {
        Some(nanos) if nanos > 0 && nanos % of == 0 => {
            error.with_fix_at(whole, SpanText(Span::from_nanos(nanos / of)).to_string())
        }
        _ => error,
    }
}

/// Returns the error for a word that is not an option.
pub(super) fn unknown_option(range: Range<usize>, word: &str) -> GrammarError {
    let error = GrammarError::new(range, format!("unknown option {word:?}: {OPTIONS}"));
    let spaced = word.replacen(['=', ':'], " ", 1);
    if let Some(meant) = nearest(word, Keyword::spellings()) {
        return error.with_fix(Keyword::from_text(meant).map_or(meant, Keyword::as_str));
    }
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return error.with_fix(format!("burst {word}"));
    }
    match spaced.split_once(' ').and_then(|(name, _)| Keyword::from_text(name)) {
        Some(_) => error.with_fix(spaced),
        None => error,
    }
}

/// Returns the error for a limit whose parts are valid but do not go together.
///
/// The range is that of the part that causes `error`.
pub(super) fn locate(error: &InvalidLimit, parser: &Parser<'_>, options: &Options) -> GrammarError {
    let named = |name: &str| Keyword::from_text(name).and_then(|keyword| options.find(keyword));
    let amount = &parser.text[parser.amount.clone()];
    let rate = parser.amount.start..parser.period.end.max(parser.amount.end);
    let range = match error {
        InvalidLimit::Contradiction { first, second } => {
            [named(first), named(second)].into_iter().flatten().max_by_key(|range| range.start)
        }
        InvalidLimit::IncompatibleOption { option, .. }
        | InvalidLimit::OutOfRange { option, .. } => named(option),
        InvalidLimit::CalendarPeriod(_) => Some(parser.period.clone()),
        InvalidLimit::UnknownTimeZone(_) => options.find(Keyword::Zone),
        InvalidLimit::TooManyEntries { .. } => Some(parser.amount.clone()),
        InvalidLimit::Algorithm(error) => match error {
            CoreInvalidLimit::ZeroPeriod | CoreInvalidLimit::PeriodTooLong => {
                options.find(Keyword::Lease).or(Some(parser.period.clone()))
            }
            CoreInvalidLimit::ZeroBurst => options.find(Keyword::Burst),
            CoreInvalidLimit::FillsTooSlowly => {
                options.find(Keyword::Burst).or(options.find(Keyword::WarmUp))
            }
            CoreInvalidLimit::InitialAboveBurst { .. } => options.find(Keyword::Initial),
            CoreInvalidLimit::UnevenSlots(_) => options.find(Keyword::Slots),
            CoreInvalidLimit::GapAboveWindow => options.find(Keyword::MinGap),
            CoreInvalidLimit::NoWarmUp => options.find(Keyword::WarmUp),
            CoreInvalidLimit::AmountTooLarge(n) if number::parse(amount) != Ok(*n) => {
                options.find(Keyword::Burst)
            }
            _ => Some(parser.amount.clone()),
        },
        _ => None,
    };
    let located = GrammarError::new(range.unwrap_or(rate), error.to_string());
    match error {
        // `24h` has the length of a day but is not a calendar day.
        InvalidLimit::CalendarPeriod(period) => match Period::from_duration(period.span().into()) {
            Some(one @ Period { count: 1, unit: Unit::Day | Unit::Week }) => {
                located.with_fix(one.to_string())
            }
            _ => located,
        },
        InvalidLimit::UnknownTimeZone(name) => match nearest_zone(name) {
            Some(zone) => located.with_fix(format!("zone {zone}")),
            None => located,
        },
        InvalidLimit::TooManyEntries { algorithm, .. } if *algorithm == Keyword::Log.as_str() => {
            // A sliding window has no minimum gap, so all options of the log are replaced.
            let counts = options.find(Keyword::CountDenied).is_some();
            let fix = if counts { "sliding count_denied" } else { "sliding" };
            match options.range() {
                Some(range) => located.with_fix_at(range, fix),
                None => located,
            }
        }
        _ => located,
    }
}

/// Returns the time zone whose name or city is most similar to `name`.
pub(super) fn nearest_zone(name: &str) -> Option<String> {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| zone_names().collect());
    let names = &*NAMES;
    let city = |zone: &&String| {
        let last = zone.rsplit('/').next().unwrap_or(zone);
        last.eq_ignore_ascii_case(name)
    };
    // Compares only zones with the same first letter: comparing with all takes too long, and
    // the first letter is rarely wrong.
    let initial = name.chars().next();
    let alike = names.iter().filter(|zone| zone.chars().next() == initial);
    let meant = names.iter().find(city).map(String::as_str);
    meant.or_else(|| nearest(name, alike.map(String::as_str))).map(str::to_owned)
}
