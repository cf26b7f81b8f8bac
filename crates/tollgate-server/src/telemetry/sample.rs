//! Which decisions are looked at closely: all while there are few, some of them once there are many.

use std::cell::Cell;

/// Of so many in a second every one, on each thread.
pub(super) const ALL: u32 = 1000;
/// Of the rest one in so many, chosen by chance.
pub(super) const ONE_IN: u8 = 32;

/// How many decisions this one stands for; 0 if it is not looked at.
#[inline]
pub(super) fn weight(second: u64) -> u64 {
    thread_local! {
        static SEEN: Cell<(u64, u32)> = const { Cell::new((u64::MAX, 0)) };
    }
    SEEN.with(|seen| {
        let (when, count) = seen.get();
        let count = if when == second { count.saturating_add(1) } else { 1 };
        seen.set((second, count));
        match count <= ALL {
            true => 1,
            false if fastrand::u8(..) < u8::MAX / ONE_IN + 1 => u64::from(ONE_IN),
            false => 0,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_to_what_there_was() {
        fastrand::seed(7);
        let few: u64 = (0..500).map(|_| weight(1)).sum();
        assert_eq!(few, 500);
        let many: u64 = (0..1_000_000).map(|_| weight(2)).sum();
        assert!((950_000..1_050_000).contains(&many), "{many}");
    }
}
