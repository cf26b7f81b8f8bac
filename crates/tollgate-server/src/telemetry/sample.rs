//! Sampling of decisions: all of them at low rates, a random share at high rates.

use std::cell::Cell;

/// The number of decisions per second and thread that are always sampled.
pub(super) const ALWAYS: u32 = 1000;
/// The sampling rate beyond [`ALWAYS`]: one in `RATE`, by chance.
pub(super) const RATE: u8 = 32;

/// Returns how many decisions this one represents; 0 if it is not sampled.
#[inline]
pub(super) fn weight(second: u64) -> u64 {
    thread_local! {
        static COUNT: Cell<(u64, u32)> = const { Cell::new((u64::MAX, 0)) };
    }
    COUNT.with(|cell| {
        let (when, count) = cell.get();
        let count = if when == second { count.saturating_add(1) } else { 1 };
        cell.set((second, count));
        match count <= ALWAYS {
            true => 1,
            false if fastrand::u8(..) < u8::MAX / RATE + 1 => u64::from(RATE),
            false => 0,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_to_the_number_of_decisions() {
        fastrand::seed(7);
        let few: u64 = (0..500).map(|_| weight(1)).sum();
        assert_eq!(few, 500);
        let many: u64 = (0..1_000_000).map(|_| weight(2)).sum();
        assert!((950_000..1_050_000).contains(&many), "{many}");
    }
}
