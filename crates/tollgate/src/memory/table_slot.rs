//! A slot of a locked line: reading and writing the state of one key.

use tollgate_core::{Time, Verdict};

use super::chain::{Chain, Slot};
use super::line::SlotEntry;
use super::slot_class::{self, SlotClass};
use super::table_hash::TableHash;
use crate::account::{Account, State};
use crate::limit::{Limit, LimitAlgorithm};

/// The position in a locked chain where a key's state is, or would be.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableSlot<'a, const W: usize, const N: usize> {
    chain: Chain<'a, W, N>,
    hash: TableHash,
    slot: Option<Slot<'a, W>>,
}

impl<'a, const W: usize, const N: usize> TableSlot<'a, W, N> {
    /// Creates the position of a key whose search in the chain found `slot`.
    #[inline]
    pub(super) fn new(
        chain: Chain<'a, W, N>,
        hash: TableHash,
        slot: Option<Slot<'a, W>>,
    ) -> TableSlot<'a, W, N> {
        TableSlot { chain, hash, slot }
    }

    /// Reads the entry, unless it has expired.
    #[inline]
    pub(super) fn read(&self, now: Time) -> Option<SlotEntry<N>> {
        self.slot.map(Slot::entry).filter(|entry| entry.full_at() > now.as_nanos())
    }

    /// Returns whether the key has an entry, expired or not.
    #[inline]
    pub(super) fn has_entry(&self) -> bool {
        self.slot.is_some()
    }

    /// Writes an entry; adds one only if a key is `reserved`.
    ///
    /// Returns whether it has used the reservation.
    #[inline(always)]
    fn write(&self, nibble: u8, words: [u64; N], reserved: bool, now: Time) -> bool {
        let entry = SlotEntry { tag: self.hash.tag, nibble, words };
        match self.current_slot() {
            Some(slot) => {
                slot.set(&entry);
                false
            }
            None => {
                if reserved {
                    self.chain.insert(&entry, now.as_nanos());
                }
                reserved
            }
        }
    }

    /// Removes the entry.
    pub(super) fn remove(&self) {
        if let Some(slot) = self.current_slot() {
            self.chain.remove(slot);
        }
    }

    /// Returns the slot of the key as it is now.
    ///
    /// Another check of the same request may have filled it, or reused it after it expired.
    #[inline(always)]
    fn current_slot(&self) -> Option<Slot<'a, W>> {
        match self.slot {
            Some(slot) if slot.holds(self.hash.tag) => self.slot,
            _ => self.chain.find(self.hash),
        }
    }
}

impl<'a, const W: usize, const N: usize> Chain<'a, W, N> {
    /// Returns the position of a key on line `number`, unless the key has moved to another line.
    #[inline]
    pub(super) fn slot_on(self, hash: TableHash, number: u64) -> Option<TableSlot<'a, W, N>> {
        let here = self.table.line_of(hash) == number;
        here.then(|| TableSlot::new(self, hash, self.find(hash)))
    }
}

/// Returns how much is spent, in fifteenths; 15 only if nothing is left.
#[inline]
pub(super) fn spent_level(verdict: &Verdict) -> u8 {
    let Verdict { limit, remaining, .. } = *verdict;
    let spent = limit.saturating_sub(remaining);
    match (remaining, spent.checked_mul(15)) {
        (0, _) => 15,
        (_, Some(product)) => (product / limit.max(1)) as u8,
        _ => (u128::from(spent) * 15 / u128::from(limit)) as u8,
    }
}

/// Reading and writing states in the encoding of a slot class.
pub(super) trait SlotCodec {
    /// The class.
    const CLASS: SlotClass;

    /// Reads the state of a key under `limit`, if there is one.
    fn load(&self, limit: &Limit, now: Time) -> Option<State>;

    /// Writes the state of an account, which `verdict` describes, unless it equals an absent one.
    ///
    /// Adds an entry only if a key is `reserved`. Returns whether it has used the reservation.
    fn save(&self, account: &mut Account<'_>, verdict: &Verdict, reserved: bool, now: Time)
    -> bool;
}

impl SlotCodec for TableSlot<'_, 8, 1> {
    const CLASS: SlotClass = SlotClass::Narrow;

    #[inline(always)]
    fn load(&self, limit: &Limit, now: Time) -> Option<State> {
        let LimitAlgorithm::Meter(meter) = limit.algorithm() else { return None };
        let entry = self.read(now)?;
        Some(State::Meter(slot_class::from_narrow(meter.scale(), entry.nibble, entry.words)))
    }

    #[inline(always)]
    fn save(
        &self,
        account: &mut Account<'_>,
        _verdict: &Verdict,
        reserved: bool,
        now: Time,
    ) -> bool {
        let State::Meter(state) = account.state else { return false };
        let (nibble, words) = slot_class::to_narrow(state);
        let entry = SlotEntry { tag: self.hash.tag, nibble, words };
        if entry.full_at() > now.as_nanos() {
            return self.write(nibble, words, reserved, now);
        }
        self.remove();
        false
    }
}

impl SlotCodec for TableSlot<'_, 16, 3> {
    const CLASS: SlotClass = SlotClass::Wide;

    #[inline(always)]
    fn load(&self, limit: &Limit, now: Time) -> Option<State> {
        self.read(now).map(|entry| slot_class::from_wide(limit, entry.words))
    }

    #[inline(always)]
    fn save(
        &self,
        account: &mut Account<'_>,
        verdict: &Verdict,
        reserved: bool,
        now: Time,
    ) -> bool {
        let full_at = account.full_after(verdict, now);
        if full_at > now {
            let words = slot_class::to_wide(&account.state, full_at.as_nanos());
            return self.write(spent_level(verdict), words, reserved, now);
        }
        self.remove();
        false
    }
}
