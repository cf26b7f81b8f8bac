//! Bans: keys that a rule refuses until a given time, whatever their counters say.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{Span, Time};

use crate::compile::domain::Domain;
use crate::decide::decision::{Decision, Reason};
use crate::matching::rule_checks::RuleChecks;

/// The status of a banned request.
const BANNED_STATUS: u16 = 429;

/// The bans of a domain. Most domains have none, which costs a decision one branch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bans {
    /// The end of each ban by rule number and key; none if it is permanent.
    by_rule: HashMap<u32, HashMap<Box<[u8]>, Option<Time>>>,
}

impl Bans {
    /// Adds a ban. Of two bans of one key, the longer one counts.
    pub(crate) fn add(&mut self, rule: u32, key: &str, until: Option<Time>) {
        let ends = self.by_rule.entry(rule).or_default();
        ends.entry(key.as_bytes().into())
            .and_modify(|known| {
                *known = known.zip(until).map(|(known, until)| known.max(until));
            })
            .or_insert(until);
    }

    /// Returns the same bans by other keys.
    pub(crate) fn with_keys(&self, key_of: impl Fn(u32, &str) -> String) -> Bans {
        let mut bans = Bans::default();
        for (rule, ends) in &self.by_rule {
            for (key, until) in ends {
                bans.add(*rule, &key_of(*rule, &String::from_utf8_lossy(key)), *until);
            }
        }
        bans
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_rule.is_empty()
    }

    /// Returns how long a key is still banned: `None` if it is not, `Some(None)` if permanently.
    fn remaining(&self, rule: u32, key: &[u8], now: Time) -> Option<Option<Span>> {
        match self.by_rule.get(&rule)?.get(key)? {
            None => Some(None),
            Some(until) if *until > now => Some(Some(until.since(now))),
            Some(_) => None,
        }
    }
}

/// Refuses a request whose key is banned; of several bans the longest one counts. Nothing is
/// charged. Bans apply in every mode of the rule, because they are set deliberately. Their ends are
/// dates, so `date` is the time of the wall clock.
#[cold]
pub(crate) fn refuse(
    domain: &Domain,
    request_checks: &RuleChecks<'_>,
    date: Time,
) -> Option<Decision> {
    let banned = request_checks.rule_checks.iter().filter_map(|rule_check| {
        let remaining = domain.bans.remaining(
            rule_check.rule,
            &request_checks.keys[rule_check.key.clone()],
            date,
        )?;
        Some((rule_check, remaining))
    });
    let (rule_check, remaining) =
        banned.max_by_key(|(_, remaining)| remaining.unwrap_or(Span::MAX))?;
    let rules = Some(Arc::clone(&domain.compiled));
    let mut decision =
        Decision::plain(false, Reason::Banned, BANNED_STATUS, Some(rule_check.rule), rules);
    decision.retry_after = remaining.map(Into::into);
    decision.key = Some(request_checks.key(rule_check).as_bytes().into());
    Some(decision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_bans_the_longer_counts() {
        let at = |ns| Some(Time::from_nanos(ns));
        let mut bans = Bans::default();
        bans.add(0, "ann", at(10));
        bans.add(0, "ann", at(20));
        bans.add(0, "ann", at(15));
        bans.add(1, "bob", at(10));
        bans.add(1, "bob", None);
        let now = Time::from_nanos(12);
        assert_eq!(bans.remaining(0, b"ann", now), Some(Some(Span::from_nanos(8))));
        assert_eq!(bans.remaining(0, b"ann", Time::from_nanos(20)), None);
        assert_eq!(bans.remaining(1, b"bob", now), Some(None));
        assert_eq!(bans.remaining(1, b"ann", now), None);
    }
}
