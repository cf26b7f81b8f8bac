//! The times at which a store lets waiting requests proceed.
//!
//! A store that allows a request after a delay has already charged it, so its slot belongs to this
//! process, and requests of the same cost may swap slots. When a request is cancelled, the last
//! slot of its cost is released. Later slots of other costs move forward by the time the released
//! cost takes to refill; if that time is unknown, the slot stays taken and unused.

use std::collections::VecDeque;

use tollgate_core::{Span, Time};

/// A time at which a request of some cost may proceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) at: Time,
    pub(super) cost: u64,
}

/// The slots granted to the waiting requests of one key.
#[derive(Debug, Default)]
pub(super) struct Slots(VecDeque<Slot>);

impl Slots {
    pub(super) fn next(&self) -> Option<Time> {
        self.0.front().map(|slot| slot.at)
    }

    pub(super) fn add(&mut self, slot: Slot) {
        let place = self.0.partition_point(|other| other.at <= slot.at);
        self.0.insert(place, slot);
    }

    /// Takes the first slot if it is due.
    pub(super) fn take_due(&mut self, now: Time) -> Option<Slot> {
        self.0.pop_front_if(|slot| slot.at <= now)
    }

    /// Puts back a slot that was taken and not used.
    pub(super) fn put_back(&mut self, slot: Slot) {
        self.0.push_front(slot);
    }

    /// Releases the last slot of a cost; `takes` is the refill time of the cost, where that is
    /// constant. Returns whether the charge can be refunded: not if the slot stays taken.
    pub(super) fn release(&mut self, cost: u64, takes: Option<Span>) -> bool {
        let Some(last) = self.0.iter().rposition(|slot| slot.cost == cost) else { return true };
        match takes {
            _ if last + 1 == self.0.len() => {}
            None => return false,
            Some(takes) => {
                for slot in self.0.range_mut(last + 1..) {
                    slot.at = slot.at - takes;
                }
            }
        }
        self.0.remove(last);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(of: &[(u64, u64)]) -> Slots {
        let mut slots = Slots::default();
        of.iter().for_each(|(at, cost)| slots.add(Slot { at: Time::from_nanos(*at), cost: *cost }));
        slots
    }

    fn as_pairs(slots: &Slots) -> Vec<(u64, u64)> {
        slots.0.iter().map(|slot| (slot.at.as_nanos(), slot.cost)).collect()
    }

    #[test]
    fn the_last_slot_of_a_cost_is_released() {
        let mut slots = slots(&[(30, 1), (10, 1), (20, 1)]);
        assert!(slots.release(1, None));
        assert_eq!(as_pairs(&slots), [(10, 1), (20, 1)]);
        assert_eq!(slots.take_due(Time::from_nanos(9)), None);
        let first = slots.take_due(Time::from_nanos(10)).unwrap();
        assert_eq!(slots.next(), Some(Time::from_nanos(20)));
        slots.put_back(first);
        assert_eq!(slots.next(), Some(Time::from_nanos(10)));
    }

    #[test]
    fn later_slots_of_other_costs_move_forward_by_the_refill_time() {
        let mut some = slots(&[(10, 1), (60, 5), (70, 1), (120, 5)]);
        assert!(some.release(1, Some(Span::from_nanos(10))));
        assert_eq!(as_pairs(&some), [(10, 1), (60, 5), (110, 5)]);
        assert!(some.release(1, Some(Span::from_nanos(10))));
        assert_eq!(as_pairs(&some), [(50, 5), (100, 5)]);
    }

    #[test]
    fn without_a_refill_time_a_slot_stays_taken() {
        let mut some = slots(&[(10, 1), (60, 5)]);
        assert!(!some.release(1, None));
        assert_eq!(as_pairs(&some), [(10, 1), (60, 5)]);
        assert!(some.release(5, None), "nothing is behind it");
    }
}
