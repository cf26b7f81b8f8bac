//! A plain meter in one atomic word, decided by a compare-and-swap without a lock.

use std::slice;

use tollgate_core::{MeterState, PlainMeter, Time, Verdict};

use crate::account::{Account, State};
use crate::denied::combine;
use crate::memory::plain_meter;
use crate::store::Action;
use crate::sync::{AtomicU64, Ordering};
use crate::{Denied, Limit};

/// A plain meter whose state is one word: nanoseconds since `epoch`, and 4 bits of fraction.
#[derive(Debug)]
pub(crate) struct AtomicMeter {
    plain: PlainMeter,
    limit: Limit,
    epoch: u64,
    word: AtomicU64,
}

/// The word of a meter whose state was moved elsewhere.
const RETIRED: u64 = u64::MAX;
const FRACTION_BITS: u32 = 4;
/// The latest arrival time: 36 years after the meter was created.
const LATEST: u64 = (u64::MAX >> FRACTION_BITS) - 1;

impl AtomicMeter {
    /// Creates the meter of a limit, if its states fit into one word.
    pub(crate) fn new(limit: &Limit, now: Time) -> Option<AtomicMeter> {
        let plain = plain_meter(limit)?;
        (limit.fill_time().as_nanos() < LATEST / 2).then(|| AtomicMeter {
            plain: *plain,
            limit: limit.clone(),
            epoch: now.as_nanos(),
            word: AtomicU64::new(0),
        })
    }

    /// Decodes a state.
    #[inline]
    fn unpack(&self, word: u64) -> MeterState {
        let fraction = word & ((1 << FRACTION_BITS) - 1);
        MeterState::from_parts(self.epoch + (word >> FRACTION_BITS), fraction)
    }

    /// Encodes a state.
    #[inline]
    fn pack(&self, state: MeterState) -> u64 {
        let (ns, fraction) = state.parts();
        ns.saturating_sub(self.epoch).min(LATEST) << FRACTION_BITS | fraction
    }

    /// Takes `cost` if that is allowed; returns `None` once the meter is retired.
    #[inline]
    pub(crate) fn take(&self, now: Time, cost: u64) -> Option<Result<(), Denied>> {
        self.update(|state| match self.plain.take(state, now, cost) {
            Ok(state) => Ok((state, Ok(()))),
            Err(retry) => Err(Err(Denied::new(self.limit.summary(), 0, retry))),
        })
    }

    /// Runs any action; returns `None` once the meter is retired.
    pub(crate) fn run(
        &self,
        action: Action,
        cost: u64,
        now: Time,
    ) -> Option<Result<Verdict, Denied>> {
        self.update(|state| {
            let mut account = Account::new(&self.limit, State::Meter(state), cost);
            let verdict = account.run(action, now);
            let result = combine(action, &[verdict], slice::from_ref(&self.limit));
            match account.state {
                State::Meter(state) => Ok((state, result)),
                _ => Err(result),
            }
        })
    }

    /// Replaces the state by the one that `step` returns with its result, or returns the result
    /// of an `Err` alone. Repeats `step` if another thread was faster.
    ///
    /// Returns `None` once the meter is retired.
    #[inline(always)]
    fn update<R>(&self, step: impl Fn(MeterState) -> Result<(MeterState, R), R>) -> Option<R> {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen != RETIRED {
            let (state, result) = match step(self.unpack(seen)) {
                Ok(updated) => updated,
                Err(result) => return Some(result),
            };
            let (new, order) = (self.pack(state), Ordering::Relaxed);
            match self.word.compare_exchange_weak(seen, new, order, order) {
                Ok(_) => return Some(result),
                Err(newer) => seen = newer,
            }
        }
        None
    }

    /// Retires the meter and returns its last state; `None` if it was retired before.
    pub(crate) fn retire(&self) -> Option<MeterState> {
        match self.word.swap(RETIRED, Ordering::Relaxed) {
            RETIRED => None,
            word => Some(self.unpack(word)),
        }
    }
}
