//! In which room of the store a limit's states live, and how they are written there.
//!
//! *Narrow*: a greedy meter is its arrival time (one word) and a fraction of at most 4 bits.
//! *Wide*: windows, and meters of odder rates, take three words, the first of which is the time
//! from which on the state equals absent. *Cold*: everything that needs the heap.

use tollgate_core::{FixedWindowState, Meter, MeterState, PlainMeter, SlidingWindowState, Time};

use crate::account::State;
use crate::limit::{Engine, Limit};

/// The largest number of parts a nanosecond may be divided into for the fraction to fit.
const NARROW_SCALE: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Room {
    Narrow,
    Wide,
    Cold,
    /// Unlimited keys are not remembered.
    Nowhere,
}

impl Room {
    #[inline]
    pub(super) fn of(limit: &Limit) -> Room {
        match limit.engine() {
            _ if narrow_meter(limit).is_some() => Room::Narrow,
            Engine::Meter(_) | Engine::FixedWindow(_) | Engine::SlidingWindow(_) => Room::Wide,
            Engine::Unlimited => Room::Nowhere,
            _ => Room::Cold,
        }
    }
}

/// The meter of a limit whose states are one word and a nibble.
#[inline]
fn narrow_meter(limit: &Limit) -> Option<&Meter> {
    match limit.engine() {
        Engine::Meter(meter) if meter.is_full_on_arrival() && meter.scale() <= NARROW_SCALE => {
            Some(meter)
        }
        _ => None,
    }
}

/// The same, if besides it only ever allows or refuses: what the quickest roads are for.
#[inline]
pub(crate) fn plain_meter(limit: &Limit) -> Option<&PlainMeter> {
    narrow_meter(limit)?.as_plain()
}

/// A state as one word and a nibble.
#[inline]
pub(super) fn to_narrow(state: MeterState) -> (u8, [u64; 1]) {
    let (ns, frac) = state.parts();
    (frac as u8, [ns])
}

#[inline]
pub(super) fn from_narrow(scale: u64, nibble: u8, words: [u64; 1]) -> MeterState {
    from_parts(scale, words[0], nibble.into())
}

/// A limit edited in place may divide the nanosecond differently.
#[inline]
fn from_parts(scale: u64, ns: u64, frac: u64) -> MeterState {
    MeterState::from_parts(ns, frac.min(scale - 1))
}

/// A state as three words; the first says when it is full.
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
        _ => unreachable!("not a state of this room"),
    }
}

pub(super) fn from_wide(limit: &Limit, words: [u64; 3]) -> State {
    match limit.engine() {
        Engine::Meter(meter) => State::Meter(from_parts(meter.scale(), words[1], words[2])),
        Engine::FixedWindow(_) => {
            State::FixedWindow(FixedWindowState::from_parts(Time::from_nanos(words[1]), words[2]))
        }
        Engine::SlidingWindow(window) => {
            let [full_at, previous, current] = words;
            // The start is not kept: the state is full by the end of its window, or of the next
            // if that one is to fade as well.
            let length = window.length();
            let last = full_at.saturating_sub(1);
            let start = Time::from_nanos(last - last % length.as_nanos());
            let start = if current > 0 { start - length } else { start };
            State::SlidingWindow(SlidingWindowState::from_parts(start, previous, current))
        }
        _ => unreachable!("not a limit of this room"),
    }
}
