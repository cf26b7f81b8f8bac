//! Parses schedules.

use std::ops::Range;

use jiff::tz::TimeZone;

use super::{Days, Hours, ScheduleSpan};
use crate::read::fault::Fault;
use crate::read::suggest;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const EXAMPLE: &str = "write days, hours or both, as in `mon-fri 09:00-17:00`";

pub(super) fn spans(text: &str) -> Result<Vec<ScheduleSpan>, Fault> {
    let mut at = 0;
    let mut spans = Vec::new();
    for part in text.split(';') {
        let words = words(part, at);
        at += part.len() + 1;
        // A `;` at the end is allowed.
        if !words.is_empty() || spans.is_empty() {
            spans.push(span(text, &words)?);
        }
    }
    Ok(spans)
}

/// Returns the ranges of the words of `part`, which begins at `start`.
fn words(part: &str, start: usize) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut at = start;
    for word in part.split(|letter: char| letter.is_ascii_whitespace()) {
        if !word.is_empty() {
            words.push(at..at + word.len());
        }
        at += word.len() + 1;
    }
    words
}

fn span(text: &str, words: &[Range<usize>]) -> Result<ScheduleSpan, Fault> {
    let (mut days, mut hours, mut zone) = (None, None, None);
    let mut rest = words.iter();
    while let Some(range) = rest.next() {
        let word = &text[range.clone()];
        let twice = if word.eq_ignore_ascii_case("zone") {
            let name = rest.next().ok_or_else(|| Fault::new(range.clone(), "a zone is missing"))?;
            zone.replace(zone_named(text, name)?).is_some()
        } else if word.starts_with(|first: char| first.is_ascii_digit()) {
            hours.replace(hours_of(text, range)?).is_some()
        } else {
            days.replace(days_of(text, range)?).is_some()
        };
        if twice {
            return Err(Fault::new(range.clone(), "a span has one set of days and one of hours")
                .help("separate spans with `;`, and days with `,`"));
        }
    }
    if days.is_none() && hours.is_none() {
        return Err(Fault::new(0..text.len(), "a schedule is missing").help(EXAMPLE));
    }
    Ok(ScheduleSpan { days: days.unwrap_or(Days::ALL), hours: hours.unwrap_or(Hours::ALL), zone })
}

fn zone_named(text: &str, range: &Range<usize>) -> Result<TimeZone, Fault> {
    let name = &text[range.clone()];
    TimeZone::get(name).map_err(|_| {
        let known: Vec<String> =
            jiff::tz::db().available().map(|zone| zone.as_str().to_owned()).collect();
        let fault = Fault::new(range.clone(), format!("there is no time zone {name:?}"));
        did_you_mean(fault, name, known.iter().map(String::as_str))
    })
}

fn did_you_mean<'k>(fault: Fault, word: &str, known: impl IntoIterator<Item = &'k str>) -> Fault {
    match suggest::closest(word, known) {
        Some(close) => fault.help(format!("did you mean `{close}`?")).fix(close),
        None => fault,
    }
}

fn days_of(text: &str, range: &Range<usize>) -> Result<Days, Fault> {
    let mut days = 0;
    let mut at = range.start;
    for part in text[range.clone()].split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let from = day(first, at)?;
        let to = day(last, at + part.len() - last.len())?;
        at += part.len() + 1;
        // `fri-mon` goes past Sunday.
        days |= (0..=(to + 7 - from) % 7).fold(0, |days, more| days | 1 << ((from + more) % 7));
    }
    Ok(Days(days))
}

fn day(word: &str, start: usize) -> Result<u8, Fault> {
    let lower = word.to_lowercase();
    let full = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let known = |index: &usize| DAYS[*index] == lower || full[*index] == lower;
    (0..7).find(known).map(|index| index as u8).ok_or_else(|| {
        let fault =
            Fault::new(start..start + word.len(), format!("{word:?} is no day")).help(EXAMPLE);
        did_you_mean(fault, word, DAYS)
    })
}

fn hours_of(text: &str, range: &Range<usize>) -> Result<Hours, Fault> {
    let word = &text[range.clone()];
    let Some((from, to)) = word.split_once('-') else {
        return Err(Fault::new(range.clone(), "hours are from a time to a time")
            .help("write them as in `09:00-17:00`"));
    };
    let from = minute(from, range.start)?;
    let to = minute(to, range.end - to.len())?;
    if from == to || from == Hours::ALL.to {
        return Err(Fault::new(range.clone(), "these hours end when they begin")
            .help("leave them out for the whole day"));
    }
    Ok(Hours { from, to })
}

/// Parses `HH:MM` and returns the minute of the day; midnight at its end is 24:00.
fn minute(text: &str, start: usize) -> Result<u16, Fault> {
    let two = |digits: &str| -> Option<u16> {
        let is_short = digits.len() <= 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
        is_short.then(|| digits.parse().ok()).flatten()
    };
    let read = || {
        let (hour, minute) = text.split_once(':')?;
        let minutes =
            two(hour)? * 60 + two(minute).filter(|minute| *minute < 60 && text.len() > 3)?;
        (minutes <= Hours::ALL.to).then_some(minutes)
    };
    read().ok_or_else(|| {
        let fault = Fault::new(start..start + text.len(), format!("{text:?} is no time of day"));
        match two(text).filter(|hour| *hour <= 24) {
            Some(hour) => fault.fix(format!("{hour:02}:00")),
            None => fault.help("write it as in 09:00, up to 24:00"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_point_at_the_wrong_part() {
        for (text, range, fix) in [
            ("", "", None),
            ("mno", "mno", Some("mon")),
            ("mon-fry", "fry", Some("fri")),
            ("mon,", "", None),
            ("9-17", "9", Some("09:00")),
            ("09:00-25:00", "25:00", None),
            ("09:00-17:60", "17:60", None),
            ("09:00", "09:00", None),
            ("09:00-09:00", "09:00-09:00", None),
            ("mon tue", "tue", None),
            ("09:00-10:00 zone", "zone", None),
            ("09:00-10:00 zone Europe/Berln", "Europe/Berln", Some("Europe/Berlin")),
            ("mon 09:00-10:00; foo", "foo", None),
        ] {
            let fault = spans(text).expect_err(text);
            assert_eq!(&text[fault.range.clone()], range, "{text}: {}", fault.message);
            assert_eq!(fault.fix.as_deref(), fix, "{text}: {}", fault.message);
        }
    }

    #[test]
    fn spaces_and_a_last_separator_do_not_matter() {
        assert_eq!(spans(" mon  09:00-10:00 ; ").unwrap(), spans("mon 9:00-10:00").unwrap());
    }
}
