//! The number of denials of each key, in bounded memory.

use std::collections::HashMap;
use std::sync::Arc;

/// The maximum number of keys. At the bound, the half with the fewest denials is removed.
const MAX_KEYS: usize = 100_000;

/// A rule and a key of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RuleKey {
    pub(super) rule: Arc<str>,
    pub(super) key: String,
}

/// The denials of a key: number, first and last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DenialCount {
    pub(super) count: u64,
    pub(super) first_us: u64,
    pub(super) last_us: u64,
}

/// The denials of all keys.
#[derive(Debug, Default)]
pub(super) struct KeyDenials {
    known: HashMap<RuleKey, DenialCount>,
    is_partial: bool,
}

impl KeyDenials {
    pub(super) fn record(&mut self, rule_key: &RuleKey, at_us: u64) {
        if let Some(times) = self.known.get_mut(rule_key) {
            times.count += 1;
            times.last_us = at_us;
            return;
        }
        if self.known.len() >= MAX_KEYS {
            self.remove_half();
        }
        self.known
            .insert(rule_key.clone(), DenialCount { count: 1, first_us: at_us, last_us: at_us });
    }

    fn remove_half(&mut self) {
        let mut counts: Vec<u64> = self.known.values().map(|times| times.count).collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable(middle);
        let median = *median;
        // Of the keys with the median number of denials, only as many as needed are removed.
        let mut excess = self.known.len() - middle;
        self.known.retain(|_, times| {
            let removed = times.count < median || times.count == median && excess > 0;
            excess = excess.saturating_sub(usize::from(removed));
            !removed
        });
        self.is_partial = true;
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns whether keys were removed, so that counts may be too low.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Returns the keys with the most denials, at most `most` of them.
    pub(super) fn top(&self, most: usize) -> Vec<(&RuleKey, DenialCount)> {
        let mut all: Vec<_> =
            self.known.iter().map(|(rule_key, times)| (rule_key, *times)).collect();
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

    fn rule_key(key: impl ToString) -> RuleKey {
        RuleKey { rule: "api".into(), key: key.to_string() }
    }

    #[test]
    fn keys_are_sorted_by_denials_then_by_name() {
        let mut keys = KeyDenials::default();
        for (key, at_us) in [("b", 1), ("a", 2), ("c", 3), ("c", 9)] {
            keys.record(&rule_key(key), at_us);
        }
        let top: Vec<&str> = keys.top(2).iter().map(|(rule_key, _)| &*rule_key.key).collect();
        assert_eq!(top, ["c", "a"]);
        assert_eq!(keys.top(1)[0].1, DenialCount { count: 2, first_us: 3, last_us: 9 });
        assert_eq!((keys.len(), keys.is_partial()), (3, false));
    }

    #[test]
    fn many_rare_keys_do_not_displace_a_frequent_one() {
        let mut keys = KeyDenials::default();
        for at_us in 0..3 {
            keys.record(&rule_key("frequent"), at_us);
        }
        for key in 0..3 * MAX_KEYS {
            keys.record(&rule_key(key), 7);
        }
        assert!(keys.len() <= MAX_KEYS && keys.is_partial());
        assert_eq!(keys.top(1)[0].0, &rule_key("frequent"));
    }
}
