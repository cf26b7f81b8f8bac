//! Who was refused how often, in bounded memory.

use std::collections::HashMap;
use std::sync::Arc;

/// Keys remembered, at most. At the bound the half that was refused least is forgotten.
const MAX_KEYS: usize = 100_000;

/// One rule's counter for one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Who {
    pub(super) rule: Arc<str>,
    pub(super) key: String,
}

/// How often, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) count: u64,
    pub(super) first_us: u64,
    pub(super) last_us: u64,
}

#[derive(Debug, Default)]
pub(super) struct Keys {
    known: HashMap<Who, Times>,
    forgotten: bool,
}

impl Keys {
    pub(super) fn record(&mut self, who: &Who, at_us: u64) {
        if let Some(times) = self.known.get_mut(who) {
            times.count += 1;
            times.last_us = at_us;
            return;
        }
        if self.known.len() >= MAX_KEYS {
            self.forget_half();
        }
        self.known.insert(who.clone(), Times { count: 1, first_us: at_us, last_us: at_us });
    }

    fn forget_half(&mut self) {
        let mut counts: Vec<u64> = self.known.values().map(|times| times.count).collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable(middle);
        let median = *median;
        // Of those that were refused equally often, no more than it takes.
        let mut room = self.known.len() - middle;
        self.known.retain(|_, times| {
            let goes = times.count < median || times.count == median && room > 0;
            room = room.saturating_sub(usize::from(goes));
            !goes
        });
        self.forgotten = true;
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether some were forgotten, so that counts may be too low.
    pub(super) fn is_partial(&self) -> bool {
        self.forgotten
    }

    /// Those refused most often, at most `most` of them.
    pub(super) fn top(&self, most: usize) -> Vec<(&Who, Times)> {
        let mut all: Vec<_> = self.known.iter().map(|(who, times)| (who, *times)).collect();
        all.sort_by(|(a, left), (b, right)| {
            (right.count, &a.rule, &a.key).cmp(&(left.count, &b.rule, &b.key))
        });
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(key: impl ToString) -> Who {
        Who { rule: "api".into(), key: key.to_string() }
    }

    #[test]
    fn the_most_refused_come_first_and_ties_by_name() {
        let mut keys = Keys::default();
        for (key, at_us) in [("b", 1), ("a", 2), ("c", 3), ("c", 9)] {
            keys.record(&who(key), at_us);
        }
        let top: Vec<&str> = keys.top(2).iter().map(|(who, _)| &*who.key).collect();
        assert_eq!(top, ["c", "a"]);
        assert_eq!(keys.top(1)[0].1, Times { count: 2, first_us: 3, last_us: 9 });
        assert_eq!((keys.len(), keys.is_partial()), (3, false));
    }

    #[test]
    fn a_flood_of_keys_does_not_drive_out_the_noisy_ones() {
        let mut keys = Keys::default();
        for at_us in 0..3 {
            keys.record(&who("noisy"), at_us);
        }
        for key in 0..3 * MAX_KEYS {
            keys.record(&who(key), 7);
        }
        assert!(keys.len() <= MAX_KEYS && keys.is_partial());
        assert_eq!(keys.top(1)[0].0, &who("noisy"));
    }
}
