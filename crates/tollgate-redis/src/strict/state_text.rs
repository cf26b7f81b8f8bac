//! The text of states, as Redis stores it and the Lua reads and writes it.
//!
//! The text consists of readable digits, except for the plain meter, whose digits would cost Redis more
//! than the decision.
//!
//! A state that is ahead of the limit, because it owes a debt, also has the time of writing, so that a
//! step of the server's clock is not taken for a debt nor a debt for a step (`tollgate::state::rewind`).
//! A counter whose limit varies always has it: the state may be ahead of the next limit.

use std::io::Write;
use std::str::FromStr;

use tollgate::state::{self, State};
use tollgate::{Check, Limit, LimitAlgorithm, Time};
use tollgate_core::{
    ConcurrencyState, FixedWindowState, Lease, MeterState, SlidingLogState, SlidingWindowState,
    WarmUpState,
};

use super::meter_units::{MAX, MeterUnits};

/// The number of digits of the sum in front of a list.
const SUM: usize = 24;
/// The number of digits of a number in a list.
const DIGITS: usize = 20;

/// The form of the texts of a counter: the limit that its states belong to, and whether it varies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateFormat<'a> {
    pub(crate) limit: &'a Limit,
    /// Whether checks with other limits use the counter.
    pub(crate) limit_varies: bool,
}

impl<'a> From<&Check<'a>> for StateFormat<'a> {
    fn from(check: &Check<'a>) -> StateFormat<'a> {
        StateFormat { limit: check.limit, limit_varies: check.limit_varies }
    }
}

impl<'a> From<&'a Limit> for StateFormat<'a> {
    fn from(limit: &'a Limit) -> StateFormat<'a> {
        StateFormat { limit, limit_varies: false }
    }
}

/// A decoded state, and when it was written if it was ahead of its limit then.
type WrittenState = (State, Option<Time>);

/// Returns the text of a state that is written at `now`; `None` if it is not stored in Redis.
pub(crate) fn encode<'a>(
    state: &State,
    format: impl Into<StateFormat<'a>>,
    now: Time,
) -> Option<Vec<u8>> {
    let StateFormat { limit, limit_varies } = format.into();
    let mut text = Vec::new();
    let has_time = limit_varies || state::is_ahead(state, limit, now);
    let written = has_time.then(|| micros(now));
    // Writing to memory does not fail.
    let _ = match (state, limit.algorithm()) {
        (State::Meter(state), LimitAlgorithm::Meter(meter)) => {
            let units = MeterUnits::new(meter, limit_varies);
            let (us, part) = units.map_or(state.parts(), |units| units.in_parts(state.parts()));
            match (units, part, written) {
                (Some(_), _, Some(written)) if us <= MAX => {
                    text.write_all(&[double(us), double(part), double(written)].concat())
                }
                (Some(_), 0, _) if us <= MAX => text.write_all(&double(us)),
                (Some(_), ..) if us <= MAX => text.write_all(&[double(us), double(part)].concat()),
                // Lua cannot represent the number.
                _ => {
                    let _ = write!(text, "{us:0DIGITS$}:{part:0DIGITS$}");
                    written.map_or(Ok(()), |written| write!(text, ":{written:0DIGITS$}"))
                }
            }
        }
        (State::FixedWindow(state), _) => {
            let (end, used) = state.parts();
            write!(text, "{}:{used}", micros(end))
        }
        (State::SlidingWindow(state), _) => {
            let (start, previous, current) = state.parts();
            write!(text, "{}:{previous}:{current}", micros(start))
        }
        (State::SlidingSlots(state) | State::SlidingLog(state), _) => {
            let sum: u128 = state.entries().map(|(_, cost)| u128::from(cost)).sum();
            let _ = write!(text, "{sum:0SUM$}");
            for (at, cost) in state.entries() {
                let _ = write!(text, "{:0DIGITS$}{cost:0DIGITS$}", micros(at));
            }
            written.map_or(Ok(()), |written| write!(text, "{written:0DIGITS$}"))
        }
        (State::WarmUp(state), LimitAlgorithm::WarmUp(limit)) => {
            let scale = u128::from(limit.scale());
            // Whole microseconds, and parts of the next one.
            let parts = |(ns, frac): (u64, u64)| {
                (ns / 1_000, u128::from(ns % 1_000) * scale + u128::from(frac))
            };
            let (stored, next_free) = state.parts();
            let ((stored, stored_part), (free, free_part)) = (parts(stored), parts(next_free));
            let _ = write!(text, "{stored}:{stored_part}:{free}:{free_part}");
            written.map_or(Ok(()), |written| write!(text, ":{written}"))
        }
        (State::Leases(state), _) => {
            let sum: u128 = state.leases().map(|lease| u128::from(lease.cost)).sum();
            let _ = write!(text, "{sum:0SUM$}");
            for Lease { id, cost, expires } in state.leases() {
                let _ = write!(text, "{:0DIGITS$}{cost:0DIGITS$}{id:0DIGITS$}", micros(expires));
            }
            written.map_or(Ok(()), |written| write!(text, "{written:0DIGITS$}"))
        }
        _ => return None,
    };
    Some(text)
}

/// Returns the text of a state after a call at `now`, given its text before. A state that has not
/// changed keeps its text, and with it the time of writing.
pub(crate) fn encode_after(
    before: Option<&[u8]>,
    state: &State,
    format: StateFormat<'_>,
    now: Time,
) -> Option<Vec<u8>> {
    let text = encode(state, format, now);
    match before {
        Some(old) if !is_stepped(old, format, now) => {
            let same = decode_written(old, format).and_then(|(old, _)| encode(&old, format, now));
            if same == text { Some(old.to_vec()) } else { text }
        }
        _ => text,
    }
}

/// Returns whether a text was written before the clock stepped back.
pub(crate) fn is_stepped<'a>(text: &[u8], format: impl Into<StateFormat<'a>>, now: Time) -> bool {
    let format = format.into();
    let decoded = decode_written(text, format);
    decoded
        .is_some_and(|(mut state, written)| state::rewind(&mut state, format.limit, written, now))
}

/// Returns the state of a text at `now`, moved back if it was written before the clock stepped back;
/// `None` if the text does not fit the limit.
pub(crate) fn decode<'a>(
    text: &[u8],
    format: impl Into<StateFormat<'a>>,
    now: Time,
) -> Option<State> {
    let format = format.into();
    let (mut state, written) = decode_written(text, format)?;
    state::rewind(&mut state, format.limit, written, now);
    Some(state)
}

/// Returns the state of a text as it was written.
pub(crate) fn decode_written<'a>(
    text: &[u8],
    format: impl Into<StateFormat<'a>>,
) -> Option<WrittenState> {
    let StateFormat { limit, limit_varies } = format.into();
    if let LimitAlgorithm::Meter(meter) = limit.algorithm() {
        let (state, written) = arrival(text, MeterUnits::new(meter, limit_varies))?;
        return Some((State::Meter(state), written));
    }
    let text = std::str::from_utf8(text).ok()?;
    let (text, written) = match limit.algorithm() {
        LimitAlgorithm::SlidingSlots(_) | LimitAlgorithm::SlidingLog(_) => split_time::<2>(text)?,
        LimitAlgorithm::Concurrent(_) => split_time::<3>(text)?,
        LimitAlgorithm::WarmUp(_) => match text.match_indices(':').nth(3) {
            Some((at, _)) => (&text[..at], Some(time(text[at + 1..].parse().ok()?))),
            None => (text, None),
        },
        _ => (text, None),
    };
    let state = match limit.algorithm() {
        LimitAlgorithm::FixedWindow(_) => {
            let [end, used] = numbers(text)?;
            State::FixedWindow(FixedWindowState::from_parts(time(end), used))
        }
        LimitAlgorithm::SlidingWindow(_) => {
            let [start, previous, current] = numbers(text)?;
            State::SlidingWindow(SlidingWindowState::from_parts(time(start), previous, current))
        }
        LimitAlgorithm::SlidingSlots(_) => State::SlidingSlots(Box::new(log(text)?)),
        LimitAlgorithm::SlidingLog(_) => State::SlidingLog(Box::new(log(text)?)),
        LimitAlgorithm::WarmUp(limit) => {
            let scale = u128::from(limit.scale());
            let nanos = |us: u128, part: u128| {
                let ns = u64::try_from(us * 1_000 + part / scale).unwrap_or(u64::MAX);
                (ns, (part % scale) as u64)
            };
            let [stored, stored_part, free, free_part] = numbers::<u128, 4>(text)?;
            let (stored, free) = (nanos(stored, stored_part), nanos(free, free_part));
            State::WarmUp(WarmUpState::from_parts(stored, free))
        }
        LimitAlgorithm::Concurrent(_) => {
            let leases = list::<3>(text)?;
            let lease = |[expires, cost, id]: [u64; 3]| Lease { id, cost, expires: time(expires) };
            State::Leases(Box::new(leases.map(lease).collect::<ConcurrencyState>()))
        }
        LimitAlgorithm::Meter(_) | LimitAlgorithm::Adaptive(_) | LimitAlgorithm::Unlimited => {
            return None;
        }
    };
    Some((state, written))
}

/// Splits the time of writing from a list with rows of `N` numbers.
fn split_time<const N: usize>(text: &str) -> Option<(&str, Option<Time>)> {
    match text.len().checked_sub(SUM)? % (N * DIGITS) {
        DIGITS => {
            let (list, written) = text.split_at_checked(text.len() - DIGITS)?;
            Some((list, Some(time(written.parse().ok()?))))
        }
        _ => Some((text, None)),
    }
}

/// Reads an arrival time, and the time of writing of a debt: up to three doubles, or digits.
fn arrival(text: &[u8], units: Option<MeterUnits>) -> Option<(MeterState, Option<Time>)> {
    let whole = |bytes: &[u8]| -> Option<u64> {
        let number = f64::from_le_bytes(bytes.try_into().ok()?);
        (0.0..=MAX as f64).contains(&number).then_some(number as u64)
    };
    let (us, part, written) = match text.len() {
        8 => (whole(text)?, 0, None),
        16 => (whole(&text[..8])?, whole(&text[8..])?, None),
        24 => (whole(&text[..8])?, whole(&text[8..16])?, Some(whole(&text[16..])?)),
        _ => {
            let text = std::str::from_utf8(text).ok()?;
            match numbers(text) {
                Some([us, part]) => (us, part, None),
                None => numbers(text).map(|[us, part, written]| (us, part, Some(written)))?,
            }
        }
    };
    let state = match units {
        Some(units) => units.state(us, part),
        None => MeterState::from_parts(us, part),
    };
    Some((state, written.map(time)))
}

fn double(number: u64) -> [u8; 8] {
    (number as f64).to_le_bytes()
}

fn log(text: &str) -> Option<SlidingLogState> {
    Some(list::<2>(text)?.map(|[at, cost]| (time(at), cost)).collect())
}

/// Reads numbers separated by colons.
fn numbers<T: FromStr + Copy + Default, const N: usize>(text: &str) -> Option<[T; N]> {
    let mut numbers = [T::default(); N];
    let mut texts = text.split(':');
    for number in &mut numbers {
        *number = texts.next()?.parse().ok()?;
    }
    texts.next().is_none().then_some(numbers)
}

/// Reads a sum, followed by rows of numbers of fixed width.
fn list<const N: usize>(text: &str) -> Option<impl Iterator<Item = [u64; N]> + '_> {
    let rows = text.get(SUM..)?.as_bytes();
    let digits = rows.iter().all(u8::is_ascii_digit);
    if !digits || !rows.len().is_multiple_of(N * DIGITS) {
        return None;
    }
    let number = |digits: &[u8]| {
        digits.iter().fold(0_u64, |n, d| n.wrapping_mul(10).wrapping_add((d - b'0').into()))
    };
    Some(rows.chunks_exact(N * DIGITS).map(move |row| {
        let mut cells = row.chunks_exact(DIGITS);
        std::array::from_fn(|_| cells.next().map_or(0, number))
    }))
}

/// Returns the microseconds of a time, rounded up. Times in Redis are whole microseconds.
pub(crate) fn micros(time: Time) -> u64 {
    time.as_nanos().div_ceil(1_000)
}

/// Returns the time of a number of microseconds.
pub(crate) fn time(micros: u64) -> Time {
    Time::from_nanos(micros.saturating_mul(1_000))
}
