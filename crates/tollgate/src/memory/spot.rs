//! A seat at its locked line: where a state is read, and written back.

use tollgate_core::{Time, Verdict};

use super::chain::{Chain, Slot};
use super::line::Entry;
use super::place::Place;
use super::room;
use crate::account::{Account, State};
use crate::limit::{Engine, Limit};

/// Where in a locked chain a key's state is, or would be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'a, const W: usize, const N: usize> {
    chain: Chain<'a, W, N>,
    place: Place,
    slot: Option<Slot<'a, W>>,
}

impl<'a, const W: usize, const N: usize> Spot<'a, W, N> {
    #[inline]
    pub(super) fn new(
        chain: Chain<'a, W, N>,
        place: Place,
        slot: Option<Slot<'a, W>>,
    ) -> Spot<'a, W, N> {
        Spot { chain, place, slot }
    }

    /// What is kept there. What may be forgotten is nothing, whether it was swept yet or not.
    #[inline]
    pub(super) fn read(&self, now: Time) -> Option<Entry<N>> {
        self.slot.map(Slot::entry).filter(|entry| entry.full_at() > now.as_nanos())
    }

    /// Keeps a state. Returns whether it is the first of its key.
    #[inline]
    fn keep(&self, nibble: u8, words: [u64; N], now: Time) -> bool {
        let Some(slot) = self.slot_now() else {
            self.chain.insert(self.place, nibble, words, now.as_nanos());
            return true;
        };
        slot.set(&Entry { tag: self.place.tag, nibble, words });
        false
    }

    pub(super) fn forget(&self) {
        if let Some(slot) = self.slot_now() {
            self.chain.remove(slot);
        }
    }

    /// The slot as it is now: another check of the same request may have filled it, or taken it
    /// because its time had come.
    #[inline(always)]
    fn slot_now(&self) -> Option<Slot<'a, W>> {
        match self.slot {
            Some(slot) if slot.holds(self.place.tag) => self.slot,
            _ => self.chain.find(self.place),
        }
    }
}

impl<'a, const W: usize, const N: usize> Chain<'a, W, N> {
    /// The spot of a key on line `number`, unless it has moved elsewhere.
    #[inline]
    pub(super) fn seat(self, place: Place, number: u64) -> Option<Spot<'a, W, N>> {
        let here = self.table.line_of(place) == number;
        here.then(|| Spot::new(self, place, self.find(place)))
    }
}

/// How much is spent, in fifteenths; 15 only if nothing is left.
#[inline]
pub(super) fn level(verdict: &Verdict) -> u8 {
    let Verdict { limit, remaining, .. } = *verdict;
    let spent = limit.saturating_sub(remaining);
    match (remaining, spent.checked_mul(15)) {
        (0, _) => 15,
        (_, Some(product)) => (product / limit.max(1)) as u8,
        _ => (u128::from(spent) * 15 / u128::from(limit)) as u8,
    }
}

/// Reads and writes the states of one room.
pub(super) trait Shelf {
    /// The state kept under `limit`, if any.
    fn load(&self, limit: &Limit, now: Time) -> Option<State>;

    /// Keeps the state of an account, which `verdict` is about. Returns whether it is the first of its key.
    fn save(&self, account: &mut Account<'_>, verdict: &Verdict, now: Time) -> bool;
}

impl Shelf for Spot<'_, 8, 1> {
    #[inline(always)]
    fn load(&self, limit: &Limit, now: Time) -> Option<State> {
        let Engine::Meter(meter) = limit.engine() else { return None };
        let entry = self.read(now)?;
        Some(State::Meter(room::from_narrow(meter.scale(), entry.nibble, entry.words)))
    }

    #[inline(always)]
    fn save(&self, account: &mut Account<'_>, _verdict: &Verdict, now: Time) -> bool {
        let State::Meter(state) = account.state else { return false };
        let (nibble, words) = room::to_narrow(state);
        let entry = Entry { tag: self.place.tag, nibble, words };
        if entry.full_at() > now.as_nanos() {
            return self.keep(nibble, words, now);
        }
        self.forget();
        false
    }
}

impl Shelf for Spot<'_, 16, 3> {
    #[inline(always)]
    fn load(&self, limit: &Limit, now: Time) -> Option<State> {
        self.read(now).map(|entry| room::from_wide(limit, entry.words))
    }

    #[inline(always)]
    fn save(&self, account: &mut Account<'_>, verdict: &Verdict, now: Time) -> bool {
        let full_at = account.full_after(verdict, now);
        if full_at > now {
            let words = room::to_wide(&account.state, full_at.as_nanos());
            return self.keep(level(verdict), words, now);
        }
        self.forget();
        false
    }
}
