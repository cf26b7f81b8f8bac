//! When the next of a line may go: the moments a store granted.
//!
//! A store that lets a request pass after a while has charged it, so those moments are ours. Who
//! goes at which of them is not the store's concern: requests of the same cost may change places.
//! When somebody leaves, it is the last moment of that cost that is given up, and all others of that
//! cost move up. Where costs differ, what comes after the moment given up comes earlier by what that
//! cost takes to come back; where nobody can say how long that is, it stays taken, unused.

use std::collections::VecDeque;

use tollgate_core::{Span, Time};

/// A moment at which somebody of some cost may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) at: Time,
    pub(super) cost: u64,
}

/// The moments granted to those who stand in a line.
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

    /// The first one whose time has come.
    pub(super) fn take_due(&mut self, now: Time) -> Option<Slot> {
        self.0.pop_front_if(|slot| slot.at <= now)
    }

    /// One that was taken was not used after all: it is for the next.
    pub(super) fn put_back(&mut self, slot: Slot) {
        self.0.push_front(slot);
    }

    /// Somebody of that cost leaves; `takes` is how long its cost takes to come back, where that is
    /// always the same. Whether the charge can be given back: not if its moment stays taken.
    pub(super) fn give_up(&mut self, cost: u64, takes: Option<Span>) -> bool {
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

    fn told(slots: &Slots) -> Vec<(u64, u64)> {
        slots.0.iter().map(|slot| (slot.at.as_nanos(), slot.cost)).collect()
    }

    #[test]
    fn the_last_of_equal_ones_is_given_up() {
        let mut slots = slots(&[(30, 1), (10, 1), (20, 1)]);
        assert!(slots.give_up(1, None));
        assert_eq!(told(&slots), [(10, 1), (20, 1)]);
        assert_eq!(slots.take_due(Time::from_nanos(9)), None);
        let first = slots.take_due(Time::from_nanos(10)).unwrap();
        assert_eq!(slots.next(), Some(Time::from_nanos(20)));
        slots.put_back(first);
        assert_eq!(slots.next(), Some(Time::from_nanos(10)));
    }

    #[test]
    fn after_another_cost_all_move_up_by_what_it_takes() {
        let mut some = slots(&[(10, 1), (60, 5), (70, 1), (120, 5)]);
        assert!(some.give_up(1, Some(Span::from_nanos(10))));
        assert_eq!(told(&some), [(10, 1), (60, 5), (110, 5)]);
        assert!(some.give_up(1, Some(Span::from_nanos(10))));
        assert_eq!(told(&some), [(50, 5), (100, 5)]);
    }

    #[test]
    fn where_nobody_knows_how_long_a_cost_takes_its_moment_stays_taken() {
        let mut some = slots(&[(10, 1), (60, 5)]);
        assert!(!some.give_up(1, None));
        assert_eq!(told(&some), [(10, 1), (60, 5)]);
        assert!(some.give_up(5, None), "nothing is behind it");
    }
}
