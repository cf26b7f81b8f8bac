//! Lines put back in the order of their times.
//!
//! A server writes a line when a request ends but with the time at which it began, so lines are a
//! little out of order. So many are held back as it takes to sort that out; what comes later
//! still is taken as it comes.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::entry::Entry;

/// Entries held back.
const HELD: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Order {
    held: BinaryHeap<Held>,
    count: u64,
}

/// The earliest comes first; of several at one time, the one read first.
#[derive(Debug)]
struct Held(Entry, u64);

impl Order {
    /// Takes an entry, and gives back the earliest if enough are held.
    pub(crate) fn push(&mut self, entry: Entry) -> Option<Entry> {
        self.count += 1;
        self.held.push(Held(entry, self.count));
        (self.held.len() > HELD).then(|| self.pop()).flatten()
    }

    /// The earliest of those held.
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        self.held.pop().map(|Held(entry, _)| entry)
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Held) -> Ordering {
        (other.0.at, other.1).cmp(&(self.0.at, self.1))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Held {}

#[cfg(test)]
mod tests {
    use tollgate::Time;

    use super::*;

    #[test]
    fn entries_come_out_by_time_and_in_bounded_numbers() {
        let mut order = Order::default();
        // Each up to nine places away from where it belongs.
        let times: Vec<u64> = (0..5_000).map(|i| i / 10 * 10 + 9 - i % 10).collect();
        let mut out = Vec::new();
        for at in times {
            out.extend(order.push(Entry::new(Time::from_nanos(at))));
            assert!(order.held.len() <= HELD);
        }
        out.extend(std::iter::from_fn(|| order.pop()));
        let out: Vec<u64> = out.iter().map(|entry| entry.at.as_nanos()).collect();
        assert_eq!(out, (0..5_000).collect::<Vec<u64>>());
    }

    #[test]
    fn those_of_one_time_keep_their_order() {
        let mut order = Order::default();
        for user in ["a", "b", "c"] {
            let mut entry = Entry::new(Time::EPOCH);
            entry.set("user", user);
            assert!(order.push(entry).is_none());
        }
        let users: Vec<String> = std::iter::from_fn(|| order.pop())
            .map(|entry| entry.get("user").map(|user| user.text().into_owned()).unwrap())
            .collect();
        assert_eq!(users, ["a", "b", "c"]);
    }
}
