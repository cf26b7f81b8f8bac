//! The text of states, as Redis stores it and the Lua reads and writes it.
//!
//! The text consists of readable digits, except for the plain meter, whose digits would cost Redis more
//! than the decision.

use std::io::Write;
use std::str::FromStr;

use tollgate::state::State;
use tollgate::{Limit, LimitAlgorithm, Time};
use tollgate_core::{
    ConcurrencyState, FixedWindowState, Lease, Meter, MeterState, SlidingLogState,
    SlidingWindowState, WarmUpState,
};

use super::meter_units::{MAX, MeterUnits};

/// The number of digits of the sum in front of a list.
const SUM: usize = 24;
/// The number of digits of a number in a list.
const DIGITS: usize = 20;

/// Returns the text of a state; `None` if the state is not stored in Redis.
pub(crate) fn encode(state: &State, limit: &Limit) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = match (state, limit.algorithm()) {
        (State::Meter(state), LimitAlgorithm::Meter(meter)) => {
            let units = MeterUnits::new(meter);
            let (us, part) = units.map_or(state.parts(), |units| units.in_parts(state.parts()));
            match (units, part) {
                (Some(_), 0) if us <= MAX => text.write_all(&double(us)),
                (Some(_), _) if us <= MAX => text.write_all(&[double(us), double(part)].concat()),
                // Lua cannot represent the number.
                _ => write!(text, "{us:0DIGITS$}:{part:0DIGITS$}"),
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
            state
                .entries()
                .try_for_each(|(at, cost)| write!(text, "{:0DIGITS$}{cost:0DIGITS$}", micros(at)))
        }
        (State::WarmUp(state), LimitAlgorithm::WarmUp(limit)) => {
            let scale = u128::from(limit.scale());
            // Whole microseconds, and parts of the next one.
            let parts = |(ns, frac): (u64, u64)| {
                (ns / 1_000, u128::from(ns % 1_000) * scale + u128::from(frac))
            };
            let (stored, next_free) = state.parts();
            let ((stored, stored_part), (free, free_part)) = (parts(stored), parts(next_free));
            write!(text, "{stored}:{stored_part}:{free}:{free_part}")
        }
        (State::Leases(state), _) => {
            let sum: u128 = state.leases().map(|lease| u128::from(lease.cost)).sum();
            let _ = write!(text, "{sum:0SUM$}");
            state.leases().try_for_each(|Lease { id, cost, expires }| {
                write!(text, "{:0DIGITS$}{cost:0DIGITS$}{id:0DIGITS$}", micros(expires))
            })
        }
        _ => return None,
    };
    Some(text)
}

/// Returns the state of a text; `None` if the text does not fit the limit.
pub(crate) fn decode(text: &[u8], limit: &Limit) -> Option<State> {
    if let LimitAlgorithm::Meter(meter) = limit.algorithm() {
        return Some(State::Meter(arrival(text, meter)?));
    }
    let text = std::str::from_utf8(text).ok()?;
    Some(match limit.algorithm() {
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
    })
}

/// Reads an arrival time: one double, two of them, or digits.
fn arrival(text: &[u8], meter: &Meter) -> Option<MeterState> {
    let whole = |bytes: &[u8]| -> Option<u64> {
        let number = f64::from_le_bytes(bytes.try_into().ok()?);
        (0.0..=MAX as f64).contains(&number).then_some(number as u64)
    };
    let (us, part) = match text.len() {
        8 => (whole(text)?, 0),
        16 => (whole(&text[..8])?, whole(&text[8..])?),
        _ => numbers(std::str::from_utf8(text).ok()?).map(|[us, part]| (us, part))?,
    };
    Some(match MeterUnits::new(meter) {
        Some(units) => units.state(us, part),
        None => MeterState::from_parts(us, part),
    })
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
