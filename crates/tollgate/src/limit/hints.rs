//! How the parser puts a mistake: where it is, what is wrong, what was probably meant.

use std::ops::Range;
use std::sync::LazyLock;

use tollgate_core::{InvalidLimit as Bounds, MAX_AMOUNT, Span};

use super::InvalidLimit;
use super::calendar::zone_names;
use super::display::Number;
use super::fault::Fault;
use super::number::{self, NotANumber, split};
use super::options::Options;
use super::parse::Parser;
use super::unit::{Period, SpanText, Unit};
use super::words::{Word, nearest};

const UNITS: &str = "use ms, s, min, h, day, week, month or year";
const OPTIONS: &str =
    "the usual ones are burst, sliding, fixed, log, leaky, gcra, calendar, warmup and interval";

/// `word` is no number.
pub(super) fn not_a_number(range: Range<usize>, word: &str, why: NotANumber) -> Fault {
    let fault = |message: String| Fault::new(range.clone(), message);
    match why {
        NotANumber::Negative => {
            let fault = fault(format!("{word:?} is negative: use at least 1"));
            match word.trim_start_matches(['-', '0', '_']) {
                "" => fault,
                _ => fault.fix(word.trim_start_matches('-')),
            }
        }
        NotANumber::Fraction(value @ 1.., 1) => {
            fault(format!("{word:?} has a decimal point: write it out")).fix(value.to_string())
        }
        NotANumber::Fraction(..) => fault(format!("{word:?} is not a whole number")),
        NotANumber::Commas(value) => fault(format!("{word:?} has commas: write \"_\" or nothing"))
            .fix(Number(value).to_string()),
        NotANumber::TooLarge => {
            fault(format!("{word:?} is above the largest amount, {MAX_AMOUNT}"))
        }
        NotANumber::Followed(len) if &word[len..] == "m" => {
            fault(format!("{word:?}: a million is \"M\"")).fix(format!("{}M", &word[..len]))
        }
        NotANumber::Other if word.is_empty() => fault("a number is missing".to_owned()),
        NotANumber::Followed(_) | NotANumber::Other => {
            fault(format!("expected a number such as 10, 1_000, 10k or 5M, not {word:?}"))
        }
    }
}

/// The text does not begin with an amount.
pub(super) fn no_amount(
    parser: &mut Parser<'_>,
    range: Range<usize>,
    word: &str,
    why: NotANumber,
) -> Fault {
    match why {
        NotANumber::Fraction(value, of) if of > 1 => {
            let fault = not_a_number(range.clone(), word, why);
            parser.skip_blanks();
            let rate = parser.skip("/").then(|| parser.period().ok()).flatten();
            let slower = rate.and_then(|Period { count, unit }| {
                Some(Period { count: count.checked_mul(u32::try_from(of).ok()?)?, unit })
            });
            match slower {
                Some(period) if value > 0 => {
                    fault.fix_at(range.start..parser.period.end, format!("{value}/{period}"))
                }
                _ => fault,
            }
        }
        NotANumber::Followed(len) => {
            let (amount, rest) = word.split_at(len);
            parser.skip_blanks();
            if parser.skip("/") {
                return match rest {
                    "m" => not_a_number(range, word, why),
                    _ => Fault::new(
                        range,
                        format!("expected a blank between {amount:?} and {rest:?}"),
                    )
                    .fix(format!("{amount} {rest}")),
                };
            }
            no_period(parser, range.start + len..range.end, rest)
        }
        NotANumber::Other => {
            let begins = ["unlimited", "adaptive"].into_iter();
            match nearest(word, begins) {
                Some(meant) => Fault::new(range, format!("unknown word {word:?}")).fix(meant),
                None => not_a_number(range, word, why),
            }
        }
        why => not_a_number(range, word, why),
    }
}

/// An amount is followed by `word`, and no `/` by that.
pub(super) fn no_period(parser: &mut Parser<'_>, range: Range<usize>, word: &str) -> Fault {
    let message = "expected \"/\" and a period after the amount";
    let end = parser.amount.end.min(range.start);
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    // `10 s`, `10s`, `10 rps`, `10 per s`, `10 requests per s`
    let unit = match word {
        _ if is("m") => Some("min".to_owned()),
        _ if is("rps") || is("qps") => Some("s".to_owned()),
        _ if is("rpm") => Some("min".to_owned()),
        _ if is("per") => Unit::named(parser.token().1).map(|unit| unit.to_string()),
        _ => Unit::named(word).map(|unit| unit.to_string()),
    };
    if let Some(unit) = unit {
        let stop = if is("per") { parser.at } else { range.end };
        return Fault::new(range, message).fix_at(end..stop, format!("/{unit}"));
    }
    if word.is_empty() {
        return Fault::new(end..end, message).fix("/s");
    }
    if nearest(word, ["concurrent"].into_iter()).is_some() {
        return Fault::new(range, message).fix("concurrent");
    }
    if Word::option(word).is_some() {
        return Fault::new(range.clone(), message).fix_at(end..end, "/s");
    }
    let (per, next) = parser.token();
    match next.eq_ignore_ascii_case("per").then(|| Unit::named(parser.token().1)).flatten() {
        Some(unit) => Fault::new(per, message).fix_at(range.end..parser.at, format!("/{unit}")),
        None => Fault::new(range.end..range.end, message),
    }
}

/// `count` is followed by no unit.
pub(super) fn no_unit(range: Range<usize>, count: &str) -> Fault {
    match count {
        "" => Fault::new(range, format!("a unit of time is missing: {UNITS}")),
        _ => Fault::new(range, format!("{count:?} of what? {UNITS}")).fix(format!("{count}s")),
    }
}

/// `word` is no unit.
pub(super) fn no_such_unit(range: Range<usize>, word: &str) -> Fault {
    if word.eq_ignore_ascii_case("m") {
        let message = format!("{word:?} could be a minute or a month: write \"min\" or \"month\"");
        return Fault::new(range, message).fix("min");
    }
    if split(word.trim_start_matches('-')).0.is_empty() {
        let fault = Fault::new(range, format!("unknown unit {word:?}: {UNITS}"));
        return match nearest(word, Unit::spellings()).and_then(Unit::named) {
            Some(unit) => fault.fix(unit.to_string()),
            None => fault,
        };
    }
    Fault::new(range, format!("{word:?} is no period: use at least 1 of a unit"))
}

/// `count` of `unit` is no whole number of it; `whole` is where both stand.
pub(super) fn no_count(
    range: Range<usize>,
    whole: Range<usize>,
    count: &str,
    unit: Unit,
    why: NotANumber,
) -> Fault {
    let NotANumber::Fraction(value, of) = why else { return not_a_number(range, count, why) };
    let fault = not_a_number(range, count, why);
    match unit.span().as_nanos().checked_mul(value) {
        Some(nanos) if nanos > 0 && nanos % of == 0 => {
            fault.fix_at(whole, SpanText(Span::from_nanos(nanos / of)).to_string())
        }
        _ => fault,
    }
}

/// `word` is no option.
pub(super) fn no_option(range: Range<usize>, word: &str) -> Fault {
    let fault = Fault::new(range, format!("unknown option {word:?}: {OPTIONS}"));
    let spaced = word.replacen(['=', ':'], " ", 1);
    if let Some(meant) = nearest(word, Word::spellings()) {
        return fault.fix(Word::option(meant).map_or(meant, Word::as_str));
    }
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return fault.fix(format!("burst {word}"));
    }
    match spaced.split_once(' ').and_then(|(name, _)| Word::option(name)) {
        Some(_) => fault.fix(spaced),
        None => fault,
    }
}

/// Every part can be read, but they make no limit: points at the one to blame.
pub(super) fn blame(error: &InvalidLimit, parser: &Parser<'_>, options: &Options) -> Fault {
    let named = |name: &str| Word::option(name).and_then(|word| options.find(word));
    let amount = &parser.text[parser.amount.clone()];
    let rate = parser.amount.start..parser.period.end.max(parser.amount.end);
    let range = match error {
        InvalidLimit::Contradiction { first, second } => {
            [named(first), named(second)].into_iter().flatten().max_by_key(|range| range.start)
        }
        InvalidLimit::Misfit { option, .. } | InvalidLimit::OutOfRange { option, .. } => {
            named(option)
        }
        InvalidLimit::CalendarPeriod(_) => Some(parser.period.clone()),
        InvalidLimit::UnknownTimeZone(_) => options.find(Word::Zone),
        InvalidLimit::Engine(bounds) => match bounds {
            Bounds::ZeroPeriod | Bounds::PeriodTooLong => {
                options.find(Word::Lease).or(Some(parser.period.clone()))
            }
            Bounds::ZeroBurst => options.find(Word::Burst),
            Bounds::FillsTooSlowly => options.find(Word::Burst).or(options.find(Word::WarmUp)),
            Bounds::InitialAboveBurst { .. } => options.find(Word::Initial),
            Bounds::UnevenSlots(_) => options.find(Word::Slots),
            Bounds::GapAboveWindow => options.find(Word::MinGap),
            Bounds::NoWarmUp => options.find(Word::WarmUp),
            Bounds::AmountTooLarge(n) if number::parse(amount) != Ok(*n) => {
                options.find(Word::Burst)
            }
            _ => Some(parser.amount.clone()),
        },
        _ => None,
    };
    let fault = Fault::new(range.unwrap_or(rate), error.to_string());
    match error {
        // `24h` is a day long, but not a day.
        InvalidLimit::CalendarPeriod(period) => match Period::exactly(period.span().into()) {
            Some(one @ Period { count: 1, unit: Unit::Day | Unit::Week }) => {
                fault.fix(one.to_string())
            }
            _ => fault,
        },
        InvalidLimit::UnknownTimeZone(name) => match zone_meant(name) {
            Some(zone) => fault.fix(format!("zone {zone}")),
            None => fault,
        },
        _ => fault,
    }
}

/// The time zone that `name` was probably meant to be.
pub(super) fn zone_meant(name: &str) -> Option<String> {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| zone_names().collect());
    let names = &*NAMES;
    let city = |zone: &&String| {
        let last = zone.rsplit('/').next().unwrap_or(zone);
        last.eq_ignore_ascii_case(name)
    };
    // Nobody gets the first letter wrong, and comparing with all would take long.
    let initial = name.chars().next();
    let alike = names.iter().filter(|zone| zone.chars().next() == initial);
    let meant = names.iter().find(city).map(String::as_str);
    meant.or_else(|| nearest(name, alike.map(String::as_str))).map(str::to_owned)
}
