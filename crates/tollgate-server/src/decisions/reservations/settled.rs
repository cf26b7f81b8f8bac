//! The results of recent settlements, for clients that repeat a call because its response was lost.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use tollgate::{Span, Time};

use super::{ReservationId, ReservationOutcome, SettlementResult};

/// The time for which a result is remembered.
const RETENTION: Span = Span::from_secs(60);
/// The maximum memory of all results, in bytes. Above it, the oldest ones are forgotten.
const MAX_BYTES: usize = 8 << 20;
/// The memory of a result apart from its text, in bytes.
const BASE_BYTES: usize = 256;

/// A hash of a reported outcome, by which a repeated call is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutcomeHash(u64);

impl OutcomeHash {
    pub(super) fn new(outcome: &ReservationOutcome) -> OutcomeHash {
        let mut hasher = DefaultHasher::new();
        std::mem::discriminant(outcome).hash(&mut hasher);
        match outcome {
            ReservationOutcome::Spent(amount) => amount.hash(&mut hasher),
            ReservationOutcome::Attributes(fields) => {
                for (name, value) in fields {
                    (name, value.text()).hash(&mut hasher);
                }
            }
            ReservationOutcome::Cancelled => {}
        }
        OutcomeHash(hasher.finish())
    }
}

/// The results of recent settlements, within a bound of memory.
#[derive(Debug, Default)]
pub(super) struct SettledReservations {
    by_id: HashMap<ReservationId, SettledReservation>,
    /// The ids in the order of their settlement, and the time when they are forgotten.
    by_age: VecDeque<(Time, ReservationId)>,
    bytes: usize,
}

#[derive(Debug)]
struct SettledReservation {
    outcome: OutcomeHash,
    result: SettlementResult,
    bytes: usize,
}

impl SettledReservations {
    /// Remembers a result for a while.
    pub(super) fn insert(
        &mut self,
        id: ReservationId,
        outcome: OutcomeHash,
        result: SettlementResult,
        now: Time,
    ) {
        let text = if let SettlementResult::Settled(text) = &result { text.len() } else { 0 };
        let bytes = BASE_BYTES + text;
        self.bytes += bytes;
        self.by_age.push_back((now + RETENTION, id));
        self.by_id.insert(id, SettledReservation { outcome, result, bytes });
        while let Some((until, oldest)) = self.by_age.front().copied()
            && (until <= now || self.bytes > MAX_BYTES)
        {
            self.by_age.pop_front();
            if let Some(forgotten) = self.by_id.remove(&oldest) {
                self.bytes -= forgotten.bytes;
            }
        }
    }

    /// Returns the result of a settlement that had this outcome.
    pub(super) fn get(&self, id: ReservationId, outcome: OutcomeHash) -> Option<SettlementResult> {
        let settled = self.by_id.get(&id).filter(|settled| settled.outcome == outcome)?;
        Some(settled.result.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random_id::RandomId;
    use bytes::Bytes;

    #[test]
    fn results_are_bounded_in_time_and_memory() {
        let mut settled = SettledReservations::default();
        let id = |number| ReservationId(RandomId(number));
        let at = |seconds| Time::EPOCH + Span::from_secs(seconds);
        let spent = |amount| OutcomeHash::new(&ReservationOutcome::Spent(amount));
        let result = |length| SettlementResult::Settled(Bytes::from(vec![b'x'; length]));
        settled.insert(id(1), spent(5), result(10), at(0));
        assert!(settled.get(id(1), spent(5)).is_some());
        assert!(settled.get(id(1), spent(6)).is_none(), "another outcome");
        let cancelled = OutcomeHash::new(&ReservationOutcome::Cancelled);
        assert!(settled.get(id(1), cancelled).is_none());
        settled.insert(id(2), cancelled, SettlementResult::Expired, at(60));
        assert!(settled.get(id(1), spent(5)).is_none(), "a minute later");
        for number in 3..100 {
            settled.insert(id(number), cancelled, result(1 << 20), at(61));
        }
        assert!(settled.bytes <= MAX_BYTES && settled.by_id.len() == settled.by_age.len());
        assert_eq!(settled.by_id.len(), 7);
        assert!(settled.get(id(99), cancelled).is_some());
    }
}
