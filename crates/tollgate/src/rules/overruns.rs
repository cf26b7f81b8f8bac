//! What was used beyond what had been charged, of which the store could not be told: charged to it
//! before it decides on the same counter again.
//!
//! Only what certainly was not charged is kept. If the answer was lost the charge may have been made,
//! and nobody pays twice.

use tollgate_core::{Span, Time};

use super::compiled::Bound;
use super::owed::Owed;
use crate::limit::{Engine, Limit};

/// Amounts by counter, until time has paid them off.
#[derive(Debug, Default)]
pub(super) struct Overruns(Owed);

impl Overruns {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// So much more is owed on a counter. Time pays it off from `from` on, when all that the store
    /// knows of is paid off.
    pub(super) fn add(&self, bound: &Bound, key: &[u8], amount: u64, from: Time, now: Time) {
        let (before, paid) = self.take(bound, key, now).unwrap_or((0, from));
        let until = paid_off(&bound.limit, amount, paid.max(from), now);
        self.0.add(bound.bucket, key, before.saturating_add(amount), until, now);
    }

    /// What is still owed on a counter, and until when. Whoever takes it charges it.
    pub(super) fn take(&self, bound: &Bound, key: &[u8], now: Time) -> Option<(u64, Time)> {
        let (amount, until) = self.0.take(bound.bucket, key, now)?;
        let left = match bound.limit.engine() {
            Engine::Meter(meter) => {
                let parts = meter.parts();
                let left = u128::from(until.since(now).as_nanos()) * u128::from(parts.rate);
                u64::try_from(left.div_ceil(parts.period.into())).unwrap_or(u64::MAX)
            }
            _ => u64::MAX,
        };
        Some((amount.min(left), until))
    }

    /// Nobody has charged what was taken.
    pub(super) fn put_back(&self, bound: &Bound, key: &[u8], owed: (u64, Time), now: Time) {
        self.0.add(bound.bucket, key, owed.0, owed.1, now);
    }
}

/// When nothing of an amount is left of which time pays off the first part at `from`.
fn paid_off(limit: &Limit, amount: u64, from: Time, now: Time) -> Time {
    match limit.engine() {
        Engine::Meter(meter) => {
            let parts = meter.parts();
            let takes = u128::from(amount) * u128::from(parts.period) / u128::from(parts.rate);
            from.max(now) + Span::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX))
        }
        _ => forgotten(limit, now).unwrap_or(from.max(now) + limit.fill_time()),
    }
}

/// When a limit forgets by itself, all at once, what was charged at some time; none if it is paid off
/// bit by bit.
pub(super) fn forgotten(limit: &Limit, charged: Time) -> Option<Time> {
    match limit.engine() {
        Engine::FixedWindow(window) => Some(window.window().end_after(charged)),
        Engine::SlidingWindow(_) | Engine::SlidingSlots(_) | Engine::SlidingLog(_) => {
            let period = limit.quota().period;
            Some(charged + period.map_or(limit.fill_time(), |period| period.span()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bucket;

    fn bound(limit: &str) -> Bound {
        Bound { limit: limit.parse().unwrap(), bucket: Bucket::new(7) }
    }

    fn at(seconds: u64) -> Time {
        Time::EPOCH + Span::from_secs(seconds)
    }

    #[test]
    fn time_pays_off_what_a_meter_is_owed() {
        let (owed, bound) = (Overruns::default(), bound("10/s"));
        owed.add(&bound, b"ann", 50, at(100), at(100));
        owed.add(&bound, b"ann", 30, at(100), at(102));
        assert_eq!(owed.take(&bound, b"ann", at(104)), Some((40, at(108))));
        assert!(owed.is_empty());
        // Not before what the store knows of is paid off.
        owed.add(&bound, b"ann", 50, at(110), at(104));
        assert_eq!(owed.take(&bound, b"ann", at(109)), Some((50, at(115))));
        owed.put_back(&bound, b"ann", (50, at(115)), at(109));
        assert_eq!(owed.take(&bound, b"ann", at(113)), Some((20, at(115))));
        owed.put_back(&bound, b"ann", (20, at(115)), at(113));
        assert_eq!(owed.take(&bound, b"ann", at(115)), None);
    }

    #[test]
    fn windows_forget_it_with_everything_else() {
        for limit in ["10/min fixed", "10/min log"] {
            let (owed, bound) = (Overruns::default(), bound(limit));
            owed.add(&bound, b"ann", 50, at(120), at(120));
            assert_eq!(owed.take(&bound, b"ann", at(179)), Some((50, at(180))), "{limit}");
            owed.add(&bound, b"ann", u64::MAX, at(120), at(120));
            assert_eq!(owed.take(&bound, b"ann", at(180)), None, "{limit}");
        }
    }
}
