//! Sorts log entries by time.
//!
//! A server writes a line when a request ends, but with the time at which it began, so lines are
//! slightly out of order. A buffer of entries puts them in order. An entry that is later than the
//! buffer allows for stays out of order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::log_entry::LogEntry;

/// The maximum number of entries that are buffered.
const MAX_PENDING: usize = 1_024;

/// A buffer that returns log entries in the order of their times.
#[derive(Debug, Default)]
pub(crate) struct EntrySorter {
    pending: BinaryHeap<PendingEntry>,
    count: u64,
}

/// A buffered entry and its position; the earliest is first, then the one read first.
#[derive(Debug)]
struct PendingEntry(LogEntry, u64);

impl EntrySorter {
    /// Buffers an entry, and returns the earliest one if the buffer is full.
    pub(crate) fn push(&mut self, entry: LogEntry) -> Option<LogEntry> {
        self.count += 1;
        self.pending.push(PendingEntry(entry, self.count));
        (self.pending.len() > MAX_PENDING).then(|| self.pop()).flatten()
    }

    /// Removes the earliest entry of the buffer.
    pub(crate) fn pop(&mut self) -> Option<LogEntry> {
        self.pending.pop().map(|PendingEntry(entry, _)| entry)
    }
}

impl Ord for PendingEntry {
    fn cmp(&self, other: &PendingEntry) -> Ordering {
        (other.0.at, other.1).cmp(&(self.0.at, self.1))
    }
}

impl PartialOrd for PendingEntry {
    fn partial_cmp(&self, other: &PendingEntry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PendingEntry {
    fn eq(&self, other: &PendingEntry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PendingEntry {}

#[cfg(test)]
mod tests {
    use tollgate::Time;

    use super::*;

    #[test]
    fn entries_come_out_by_time_and_in_bounded_numbers() {
        let mut order = EntrySorter::default();
        // Each is up to nine positions away from its place in the order.
        let times: Vec<u64> = (0..5_000).map(|i| i / 10 * 10 + 9 - i % 10).collect();
        let mut out = Vec::new();
        for at in times {
            out.extend(order.push(LogEntry::new(Time::from_nanos(at))));
            assert!(order.pending.len() <= MAX_PENDING);
        }
        out.extend(std::iter::from_fn(|| order.pop()));
        let out: Vec<u64> = out.iter().map(|entry| entry.at.as_nanos()).collect();
        assert_eq!(out, (0..5_000).collect::<Vec<u64>>());
    }

    #[test]
    fn entries_of_one_time_stay_in_order() {
        let mut order = EntrySorter::default();
        for user in ["a", "b", "c"] {
            let mut entry = LogEntry::new(Time::EPOCH);
            entry.set("user", user);
            assert!(order.push(entry).is_none());
        }
        let users: Vec<String> = std::iter::from_fn(|| order.pop())
            .map(|entry| entry.get("user").map(|user| user.text().into_owned()).unwrap())
            .collect();
        assert_eq!(users, ["a", "b", "c"]);
    }
}
