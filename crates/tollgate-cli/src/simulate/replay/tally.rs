//! What became of a log under one set of rules: counted as it runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::keys::{Keys, Who};
use crate::simulate::timeline::{Counts, Timeline};

/// What one request was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// How long it is held back.
    pub(super) wait_us: u64,
    /// The rules that were asked.
    pub(super) asked: Vec<Arc<str>>,
    /// Who refused it.
    pub(super) refused: Option<Who>,
    /// Who would have, were they not in shadow.
    pub(super) shadow: Vec<Who>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleCounts {
    pub(super) asked: u64,
    pub(super) denied: u64,
    pub(super) shadow: u64,
}

#[derive(Debug)]
pub(super) struct Tally {
    pub(super) total: Counts,
    /// Allowed, but not by rules in shadow.
    pub(super) shadow: u64,
    /// No rule is about them.
    pub(super) unmatched: u64,
    pub(super) rules: BTreeMap<Arc<str>, RuleCounts>,
    pub(super) denied: Keys,
    pub(super) shadowed: Keys,
    pub(super) timeline: Timeline,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally {
            total: Counts::default(),
            shadow: 0,
            unmatched: 0,
            rules: BTreeMap::new(),
            denied: Keys::default(),
            shadowed: Keys::default(),
            timeline: Timeline::new(),
        }
    }

    pub(super) fn record(&mut self, at_us: u64, answer: &Answer) {
        for rule in &answer.asked {
            self.rule(rule).asked += 1;
        }
        for who in &answer.shadow {
            self.rule(&who.rule).shadow += 1;
            self.shadowed.record(who, at_us);
        }
        if let Some(who) = &answer.refused {
            self.rule(&who.rule).denied += 1;
            self.denied.record(who, at_us);
        }
        self.shadow += u64::from(answer.allowed && !answer.shadow.is_empty());
        self.unmatched += u64::from(answer.asked.is_empty());
        match answer.allowed {
            true => self.total.allowed += 1,
            false => self.total.denied += 1,
        }
        let at_us = if answer.allowed { at_us.saturating_add(answer.wait_us) } else { at_us };
        self.timeline.record(at_us, answer.allowed);
    }

    fn rule(&mut self, name: &Arc<str>) -> &mut RuleCounts {
        self.rules.entry(name.clone()).or_default()
    }
}

/// What another set of rules changes: request by request, as keys of different rules cannot be
/// compared.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) newly_denied: u64,
    pub(super) no_longer_denied: u64,
    /// By the candidate's rules.
    pub(super) newly: Keys,
    /// By the current rules.
    pub(super) no_longer: Keys,
}

impl Change {
    pub(super) fn record(&mut self, at_us: u64, candidate: &Answer, current: &Answer) {
        match (candidate.allowed, current.allowed) {
            (false, true) => {
                self.newly_denied += 1;
                candidate.refused.iter().for_each(|who| self.newly.record(who, at_us));
            }
            (true, false) => {
                self.no_longer_denied += 1;
                current.refused.iter().for_each(|who| self.no_longer.record(who, at_us));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(allowed: bool) -> Answer {
        let who = Who { rule: "api".into(), key: "ann".into() };
        let refused = (!allowed).then_some(who);
        Answer { allowed, asked: vec!["api".into()], refused, ..Answer::default() }
    }

    #[test]
    fn every_request_is_counted_once() {
        let mut tally = Tally::new();
        for (at_us, allowed) in [(1, true), (2, false), (3, true)] {
            tally.record(at_us, &answer(allowed));
        }
        tally.record(4, &Answer { allowed: true, ..Answer::default() });
        assert_eq!(tally.total, Counts { allowed: 3, denied: 1 });
        assert_eq!((tally.unmatched, tally.shadow), (1, 0));
        assert_eq!(tally.rules["api"], RuleCounts { asked: 3, denied: 1, shadow: 0 });
    }

    #[test]
    fn what_is_in_shadow_passes_and_is_told() {
        let mut tally = Tally::new();
        let shadow = vec![Who { rule: "new".into(), key: String::new() }];
        tally.record(1, &Answer { shadow, ..answer(true) });
        assert_eq!((tally.total.allowed, tally.shadow, tally.rules["new"].shadow), (1, 1, 1));
        assert_eq!((tally.shadowed.len(), tally.denied.len()), (1, 0));
    }

    #[test]
    fn a_change_is_what_differs() {
        let mut change = Change::default();
        for (candidate, current) in [(true, true), (false, false), (false, true), (true, false)] {
            change.record(1, &answer(candidate), &answer(current));
        }
        assert_eq!((change.newly_denied, change.no_longer_denied), (1, 1));
        assert_eq!((change.newly.len(), change.no_longer.len()), (1, 1));
    }
}
