//! The class of slot in which a limit's states are stored, and their encoding there.
//!
//! *Narrow*: a greedy meter is its arrival time (one word) and a fraction of at most 4 bits.
//! *Wide*: windows, and meters of odder rates, take three words, the first of which is the time
//! from which on the state equals an absent one. *Boxed*: everything that needs the heap.

use tollgate_core::{FixedWindowState, Meter, MeterState, PlainMeter, SlidingWindowState, Time};

use crate::account::State;
use crate::limit::{Limit, LimitAlgorithm};

/// The largest number of parts a nanosecond may be divided into for the fraction to fit.
const NARROW_SCALE: u64 = 16;

/// A class of slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SlotClass {
    /// One word and a nibble.
    Narrow,
    /// Three words.
    Wide,
    /// A state on the heap.
    Boxed,
    /// No slot: unlimited keys have no state.
    Absent,
}

impl SlotClass {
    /// Returns the class in which the states of a limit are stored.
    #[inline]
    pub(super) fn for_limit(limit: &Limit) -> SlotClass {
        match limit.algorithm() {
            _ if narrow_meter(limit).is_some() => SlotClass::Narrow,
            LimitAlgorithm::Meter(_)
            | LimitAlgorithm::FixedWindow(_)
            | LimitAlgorithm::SlidingWindow(_) => SlotClass::Wide,
            LimitAlgorithm::Unlimited => SlotClass::Absent,
            _ => SlotClass::Boxed,
        }
    }
}

/// Returns the meter of a limit whose states are one word and a nibble.
#[inline]
fn narrow_meter(limit: &Limit) -> Option<&Meter> {
    match limit.algorithm() {
        LimitAlgorithm::Meter(meter)
            if meter.is_full_on_arrival() && meter.scale() <= NARROW_SCALE =>
        {
            Some(meter)
        }
        _ => None,
    }
}

/// Returns the meter of a limit with narrow slots that only ever allows or refuses.
///
/// The fast paths are for these limits.
#[inline]
pub(crate) fn plain_meter(limit: &Limit) -> Option<&PlainMeter> {
    narrow_meter(limit)?.as_plain()
}

/// Encodes a state as a nibble and one word.
#[inline]
pub(super) fn to_narrow(state: MeterState) -> (u8, [u64; 1]) {
    let (ns, frac) = state.parts();
    (frac as u8, [ns])
}

/// Decodes a state of a nibble and one word.
#[inline]
pub(super) fn from_narrow(scale: u64, nibble: u8, words: [u64; 1]) -> MeterState {
    from_parts(scale, words[0], nibble.into())
}

/// Decodes a state. A limit that was changed meanwhile may divide the nanosecond differently.
#[inline]
fn from_parts(scale: u64, ns: u64, frac: u64) -> MeterState {
    MeterState::from_parts(ns, frac.min(scale - 1))
}

/// Encodes a state as three words, the first of which is the time at which it is full.
pub(super) fn to_wide(state: &State, full_at: u64) -> [u64; 3] {
    match *state {
        State::Meter(state) => {
            let (ns, frac) = state.parts();
            [full_at, ns, frac]
        }
        State::FixedWindow(state) => {
            let (end, used) = state.parts();
            [full_at, end.as_nanos(), used]
        }
        State::SlidingWindow(state) => {
            let (_, previous, current) = state.parts();
            [full_at, previous, current]
        }
        _ => unreachable!("not a state of wide slots"),
    }
}

/// Decodes a state of three words.
pub(super) fn from_wide(limit: &Limit, words: [u64; 3]) -> State {
    match limit.algorithm() {
        LimitAlgorithm::Meter(meter) => State::Meter(from_parts(meter.scale(), words[1], words[2])),
        LimitAlgorithm::FixedWindow(_) => {
            State::FixedWindow(FixedWindowState::from_parts(Time::from_nanos(words[1]), words[2]))
        }
        LimitAlgorithm::SlidingWindow(window) => {
            let [full_at, previous, current] = words;
            // The start is not stored: the state is full by the end of its window, or by the end
            // of the next one if the current count has to fade as well.
            let length = window.length();
            let last = full_at.saturating_sub(1);
            let start = Time::from_nanos(last - last % length.as_nanos());
            let start = if current > 0 { start - length } else { start };
            State::SlidingWindow(SlidingWindowState::from_parts(start, previous, current))
        }
        _ => unreachable!("not a limit of wide slots"),
    }
}
