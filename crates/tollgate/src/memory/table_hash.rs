//! The part of a key's fingerprint that a table stores.

use super::line::TAG_BITS;

/// Lines of the smallest table, as a power of two.
#[cfg(not(shuttle))]
pub(super) const FIRST_BITS: u32 = 14;
/// Lines of the smallest table, as a power of two: few, so that the model checker sees it grow.
#[cfg(shuttle)]
pub(super) const FIRST_BITS: u32 = 1;

/// 68 bits of a fingerprint: 14 choose the line of the smallest table, 54 are the tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct TableHash {
    home: u64,
    pub(super) tag: u64,
}

impl TableHash {
    /// Takes the bits that a table needs from a 128-bit fingerprint.
    #[inline]
    pub(crate) fn new(fingerprint: [u64; 2]) -> TableHash {
        let home = fingerprint[0] & ((1 << FIRST_BITS) - 1);
        // Tag zero marks an empty slot.
        TableHash { home, tag: (fingerprint[1] >> (u64::BITS - TAG_BITS)).max(1) }
    }

    /// Creates the hash of an entry that was saved with the number of its line.
    ///
    /// Returns `None` for a tag that no entry has.
    pub(super) fn from_entry(line: u64, tag: u64) -> Option<TableHash> {
        let is_valid = tag != 0 && tag >> TAG_BITS == 0;
        is_valid.then_some(TableHash { home: line & ((1 << FIRST_BITS) - 1), tag })
    }

    /// Returns the number of the key's line in a table of `lines`.
    #[inline]
    pub(super) fn line(self, lines: u64) -> u64 {
        let bits = self.tag << FIRST_BITS | self.home;
        let level = lines.ilog2();
        let number = bits & ((2 << level) - 1);
        if number < lines { number } else { number & ((1 << level) - 1) }
    }
}
