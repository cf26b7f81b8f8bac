//! The progress of settling the charges of a request, which may take several attempts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use tollgate_core::Time;

/// The part of a settlement that is still to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SettlementStep {
    /// Nothing was charged or refunded yet.
    All,
    /// Overruns were charged, and the store certainly did not execute the refunds.
    Refunds,
    /// Nothing: the charges are settled, are being settled, or may have been. A call whose reply was
    /// lost is not repeated.
    Nothing,
}

/// The progress of a settlement. Charges change once, however often their request is settled.
#[derive(Debug)]
pub(crate) struct SettlementProgress {
    next: AtomicU8,
    /// The time of the first attempt that failed.
    attempted: OnceLock<Time>,
}

impl Default for SettlementProgress {
    fn default() -> SettlementProgress {
        let next = AtomicU8::new(SettlementStep::All as u8);
        SettlementProgress { next, attempted: OnceLock::new() }
    }
}

impl SettlementProgress {
    /// Begins an attempt and returns what it has to do. Concurrent attempts have nothing to do.
    pub(crate) fn begin(&self) -> SettlementStep {
        let nothing = SettlementStep::Nothing as u8;
        match self.next.swap(nothing, Ordering::Relaxed) {
            next if next == SettlementStep::All as u8 => SettlementStep::All,
            next if next == SettlementStep::Refunds as u8 => SettlementStep::Refunds,
            _ => SettlementStep::Nothing,
        }
    }

    /// Ends an attempt that failed, and lets a later one do the rest.
    pub(crate) fn reopen(&self, next: SettlementStep, now: Time) {
        self.attempted.get_or_init(|| now);
        self.next.store(next as u8, Ordering::Relaxed);
    }

    /// Returns the time of the first attempt that failed.
    pub(crate) fn attempted(&self) -> Option<Time> {
        self.attempted.get().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failed_attempt_is_followed_by_another() {
        let (progress, time) = (SettlementProgress::default(), Time::from_nanos);
        assert_eq!(progress.begin(), SettlementStep::All);
        assert_eq!(progress.begin(), SettlementStep::Nothing);
        progress.reopen(SettlementStep::Refunds, time(5));
        progress.reopen(SettlementStep::Refunds, time(9));
        assert_eq!(progress.begin(), SettlementStep::Refunds);
        assert_eq!(progress.attempted(), Some(time(5)));
        assert_eq!(progress.begin(), SettlementStep::Nothing);
    }
}
