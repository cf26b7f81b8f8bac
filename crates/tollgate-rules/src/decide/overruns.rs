//! Overruns that could not be charged: usage beyond the charge, charged to the store before it
//! decides on the counter again.
//!
//! Only overruns that certainly were not charged are kept. If the response was lost, the charge may
//! have been made, and is not repeated.

use tollgate_core::{Span, Time};

use crate::compile::domain::BoundLimit;
use crate::decide::store_debts::StoreDebts;
use tollgate::limit::{Limit, LimitAlgorithm};

/// The overruns by counter, until they have expired.
#[derive(Debug, Default)]
pub(crate) struct Overruns(StoreDebts);

impl Overruns {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an overrun to a counter. It refills from `from` on, when the charges known to the store
    /// have refilled.
    pub(crate) fn add(&self, bound: &BoundLimit, key: &[u8], amount: u64, from: Time, now: Time) {
        let (before, paid) = self.take(bound, key, now).unwrap_or((0, from));
        let until = paid_off(&bound.limit, amount, paid.max(from), now);
        self.0.add(bound.counter, key, before.saturating_add(amount), until, now);
    }

    /// Takes what is still owed on a counter, and until when. The caller charges it.
    pub(crate) fn take(&self, bound: &BoundLimit, key: &[u8], now: Time) -> Option<(u64, Time)> {
        let (amount, until) = self.0.take(bound.counter, key, now)?;
        let left = match bound.limit.algorithm() {
            LimitAlgorithm::Meter(meter) => {
                let parts = meter.parts();
                let left = u128::from(until.since(now).as_nanos()) * u128::from(parts.rate);
                u64::try_from(left.div_ceil(parts.period.into())).unwrap_or(u64::MAX)
            }
            _ => u64::MAX,
        };
        Some((amount.min(left), until))
    }

    /// Puts back an overrun that was taken and could not be charged.
    pub(crate) fn put_back(&self, bound: &BoundLimit, key: &[u8], owed: (u64, Time), now: Time) {
        self.0.add(bound.counter, key, owed.0, owed.1, now);
    }
}

/// Returns when an amount has refilled if refilling starts at `from`.
fn paid_off(limit: &Limit, amount: u64, from: Time, now: Time) -> Time {
    match limit.algorithm() {
        LimitAlgorithm::Meter(meter) => {
            let parts = meter.parts();
            let takes = u128::from(amount) * u128::from(parts.period) / u128::from(parts.rate);
            from.max(now) + Span::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX))
        }
        _ => forgotten(limit, now).unwrap_or(from.max(now) + limit.fill_time()),
    }
}

/// Returns when a limit forgets a charge all at once; none if it refills gradually.
pub(crate) fn forgotten(limit: &Limit, charged: Time) -> Option<Time> {
    match limit.algorithm() {
        LimitAlgorithm::FixedWindow(window) => Some(window.window().end_after(charged)),
        LimitAlgorithm::SlidingWindow(_)
        | LimitAlgorithm::SlidingSlots(_)
        | LimitAlgorithm::SlidingLog(_) => {
            let period = limit.summary().period;
            Some(charged + period.map_or(limit.fill_time(), |period| period.span()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::CounterId;

    fn bound(limit: &str) -> BoundLimit {
        BoundLimit { limit: limit.parse().unwrap(), counter: CounterId::new(7) }
    }

    fn at(seconds: u64) -> Time {
        Time::EPOCH + Span::from_secs(seconds)
    }

    #[test]
    fn an_overrun_of_a_meter_refills_with_time() {
        let (overruns, bound) = (Overruns::default(), bound("10/s"));
        overruns.add(&bound, b"ann", 50, at(100), at(100));
        overruns.add(&bound, b"ann", 30, at(100), at(102));
        assert_eq!(overruns.take(&bound, b"ann", at(104)), Some((40, at(108))));
        assert!(overruns.is_empty());
        // Refilling starts after the charges known to the store.
        overruns.add(&bound, b"ann", 50, at(110), at(104));
        assert_eq!(overruns.take(&bound, b"ann", at(109)), Some((50, at(115))));
        overruns.put_back(&bound, b"ann", (50, at(115)), at(109));
        assert_eq!(overruns.take(&bound, b"ann", at(113)), Some((20, at(115))));
        overruns.put_back(&bound, b"ann", (20, at(115)), at(113));
        assert_eq!(overruns.take(&bound, b"ann", at(115)), None);
    }

    #[test]
    fn a_window_forgets_an_overrun_when_it_ends() {
        for limit in ["10/min fixed", "10/min log"] {
            let (overruns, bound) = (Overruns::default(), bound(limit));
            overruns.add(&bound, b"ann", 50, at(120), at(120));
            assert_eq!(overruns.take(&bound, b"ann", at(179)), Some((50, at(180))), "{limit}");
            overruns.add(&bound, b"ann", u64::MAX, at(120), at(120));
            assert_eq!(overruns.take(&bound, b"ann", at(180)), None, "{limit}");
        }
    }
}
