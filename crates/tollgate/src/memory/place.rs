//! Where in a table of any size a key belongs.

use super::line::TAG_BITS;

/// Lines of the smallest table, as a power of two.
#[cfg(not(shuttle))]
pub(super) const FIRST_BITS: u32 = 14;
/// Two lines: the model checker is to see the table grow after a handful of keys.
#[cfg(shuttle)]
pub(super) const FIRST_BITS: u32 = 1;

/// Where a key's state lives: 14 bits that place it, 54 that tell it from its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    home: u64,
    pub(super) tag: u64,
}

impl Place {
    /// Takes what the table needs of a 128-bit fingerprint.
    #[inline]
    pub(crate) fn of(fingerprint: [u64; 2]) -> Place {
        let home = fingerprint[0] & ((1 << FIRST_BITS) - 1);
        // Tag zero marks an empty slot.
        Place { home, tag: (fingerprint[1] >> (u64::BITS - TAG_BITS)).max(1) }
    }

    /// The line this key belongs to in a table of `lines`.
    #[inline]
    pub(super) fn line(self, lines: u64) -> u64 {
        let bits = self.tag << FIRST_BITS | self.home;
        let level = lines.ilog2();
        let number = bits & ((2 << level) - 1);
        if number < lines { number } else { number & ((1 << level) - 1) }
    }
}
