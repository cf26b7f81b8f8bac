//! A limiter's state in one atomic word: decided by a compare-and-swap, without a lock.

use std::slice;

use tollgate_core::{MeterState, PlainMeter, Time, Verdict};

use crate::account::{self, Account, State};
use crate::denied::answer;
use crate::memory::plain_meter;
use crate::store::Action;
use crate::sync::{AtomicU64, Ordering};
use crate::{Denied, Limit};

/// A plain meter's whole state in one word: nanoseconds since `epoch`, and 4 bits of fraction.
#[derive(Debug)]
pub(crate) struct Word {
    plain: PlainMeter,
    limit: Limit,
    epoch: u64,
    word: AtomicU64,
}

/// The state has moved to the books.
const RETIRED: u64 = u64::MAX;
const FRACTION_BITS: u32 = 4;
/// The latest arrival time: 36 years after the limiter was made.
const LATEST: u64 = (u64::MAX >> FRACTION_BITS) - 1;

impl Word {
    pub(crate) fn new(limit: &Limit, now: Time) -> Option<Word> {
        let plain = plain_meter(limit)?;
        (limit.fill_time().as_nanos() < LATEST / 2).then(|| Word {
            plain: *plain,
            limit: limit.clone(),
            epoch: now.as_nanos(),
            word: AtomicU64::new(0),
        })
    }

    #[inline]
    fn unpack(&self, word: u64) -> MeterState {
        let fraction = word & ((1 << FRACTION_BITS) - 1);
        MeterState::from_parts(self.epoch + (word >> FRACTION_BITS), fraction)
    }

    #[inline]
    fn pack(&self, state: MeterState) -> u64 {
        let (ns, fraction) = state.parts();
        ns.saturating_sub(self.epoch).min(LATEST) << FRACTION_BITS | fraction
    }

    /// Decides; `None` once the word is retired.
    #[inline]
    pub(crate) fn take(&self, now: Time, cost: u64) -> Option<Result<(), Denied>> {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen != RETIRED {
            let state = match self.plain.take(self.unpack(seen), now, cost) {
                Ok(state) => state,
                Err(retry) => return Some(Err(Denied::new(self.limit.quota(), 0, retry))),
            };
            match self.exchange(seen, state) {
                Ok(_) => return Some(Ok(())),
                Err(newer) => seen = newer,
            }
        }
        None
    }

    /// Runs any action; `None` once the word is retired.
    pub(crate) fn run(
        &self,
        action: Action,
        cost: u64,
        now: Time,
    ) -> Option<Result<Verdict, Denied>> {
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            if seen == RETIRED {
                return None;
            }
            let state = State::Meter(self.unpack(seen));
            let mut accounts = [Account::new(&self.limit, state, cost)];
            let verdicts = account::run(action, &mut accounts, now);
            let State::Meter(state) = accounts[0].state else { return None };
            if self.exchange(seen, state).is_ok() {
                return Some(answer(action, &verdicts, slice::from_ref(&self.limit)));
            }
        }
    }

    /// Puts `state` in the place of what was seen, or says what is there instead.
    #[inline]
    fn exchange(&self, seen: u64, state: MeterState) -> Result<u64, u64> {
        let new = self.pack(state);
        self.word.compare_exchange_weak(seen, new, Ordering::Relaxed, Ordering::Relaxed)
    }

    /// Takes the state out for good; `None` if that was done before.
    pub(crate) fn retire(&self) -> Option<MeterState> {
        match self.word.swap(RETIRED, Ordering::Relaxed) {
            RETIRED => None,
            word => Some(self.unpack(word)),
        }
    }
}
