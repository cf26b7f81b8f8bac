//! Bans: keys that a rule refuses until a moment, whatever their counters say.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{Span, Time};

use super::compiled::Domain;
use super::decision::{Decision, Reason};
use super::demand::Demands;

/// The status of what is banned.
const CODE: u16 = 429;

/// The bans of a domain. Most often there are none, which costs a decision one branch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bans {
    /// By the number of the rule, then by the key; until when, or for good.
    of_rules: HashMap<u32, HashMap<Box<[u8]>, Option<Time>>>,
}

impl Bans {
    /// Adds one. Of two about the same key the one that lasts longer counts.
    pub(crate) fn add(&mut self, rule: u32, key: &str, until: Option<Time>) {
        let ends = self.of_rules.entry(rule).or_default();
        ends.entry(key.as_bytes().into())
            .and_modify(|known| {
                *known = known.zip(until).map(|(known, until)| known.max(until));
            })
            .or_insert(until);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.of_rules.is_empty()
    }

    /// How long a key is still banned: `None` if it is not, `Some(None)` if for good.
    fn rest(&self, rule: u32, key: &[u8], now: Time) -> Option<Option<Span>> {
        match self.of_rules.get(&rule)?.get(key)? {
            None => Some(None),
            Some(until) if *until > now => Some(Some(until.since(now))),
            Some(_) => None,
        }
    }
}

/// The refusal of a request that a ban is about; of several the one that lasts longest. Nothing is
/// charged, and the mode of the rule does not matter: whoever bans a key means it.
#[cold]
pub(super) fn refuse(domain: &Domain, demands: &Demands<'_>, now: Time) -> Option<Decision> {
    let banned = demands.demands.iter().filter_map(|demand| {
        let rest = domain.bans.rest(demand.rule, &demands.keys[demand.key.clone()], now)?;
        Some((demand, rest))
    });
    let (demand, rest) = banned.max_by_key(|(_, rest)| rest.unwrap_or(Span::MAX))?;
    let rules = Some(Arc::clone(&domain.compiled));
    let mut decision = Decision::plain(false, Reason::Banned, CODE, Some(demand.rule), rules);
    decision.retry_after = rest.map(Into::into);
    decision.key = Some(demands.key(demand).as_bytes().into());
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
        assert_eq!(bans.rest(0, b"ann", now), Some(Some(Span::from_nanos(8))));
        assert_eq!(bans.rest(0, b"ann", Time::from_nanos(20)), None);
        assert_eq!(bans.rest(1, b"bob", now), Some(None));
        assert_eq!(bans.rest(1, b"ann", now), None);
    }
}
