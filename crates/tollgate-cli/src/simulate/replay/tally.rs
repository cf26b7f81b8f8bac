//! The counts of a log under one set of rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::key_denials::{KeyDenials, RuleKey};
use crate::simulate::timeline::{Counts, Timeline};

/// The decision on one request of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplayDecision {
    pub(super) allowed: bool,
    /// The delay of the request.
    pub(super) wait_us: u64,
    /// The rules that matched.
    pub(super) matched: Vec<Arc<str>>,
    /// The rule and key that denied it.
    pub(super) refused: Option<RuleKey>,
    /// The shadow rules and keys that would have denied it.
    pub(super) shadow: Vec<RuleKey>,
}

/// The counts of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleCounts {
    pub(super) matched: u64,
    pub(super) denied: u64,
    pub(super) shadow: u64,
}

/// The counts of a run.
#[derive(Debug)]
pub(super) struct ReplayTally {
    pub(super) total: Counts,
    /// Requests that are allowed but that a shadow rule would deny.
    pub(super) shadow: u64,
    /// Requests that no rule matches.
    pub(super) unmatched: u64,
    pub(super) rules: BTreeMap<Arc<str>, RuleCounts>,
    pub(super) denied: KeyDenials,
    pub(super) shadowed: KeyDenials,
    pub(super) timeline: Timeline,
}

impl ReplayTally {
    pub(super) fn new() -> ReplayTally {
        ReplayTally {
            total: Counts::default(),
            shadow: 0,
            unmatched: 0,
            rules: BTreeMap::new(),
            denied: KeyDenials::default(),
            shadowed: KeyDenials::default(),
            timeline: Timeline::new(),
        }
    }

    pub(super) fn record(&mut self, at_us: u64, decision: &ReplayDecision) {
        for rule in &decision.matched {
            self.rule(rule).matched += 1;
        }
        for rule_key in &decision.shadow {
            self.rule(&rule_key.rule).shadow += 1;
            self.shadowed.record(rule_key, at_us);
        }
        if let Some(rule_key) = &decision.refused {
            self.rule(&rule_key.rule).denied += 1;
            self.denied.record(rule_key, at_us);
        }
        self.shadow += u64::from(decision.allowed && !decision.shadow.is_empty());
        self.unmatched += u64::from(decision.matched.is_empty());
        match decision.allowed {
            true => self.total.allowed += 1,
            false => self.total.denied += 1,
        }
        let at_us = if decision.allowed { at_us.saturating_add(decision.wait_us) } else { at_us };
        self.timeline.record(at_us, decision.allowed);
    }

    fn rule(&mut self, name: &Arc<str>) -> &mut RuleCounts {
        self.rules.entry(name.clone()).or_default()
    }
}

/// The difference between two sets of rules, compared by request since their keys differ.
#[derive(Debug, Default)]
pub(super) struct DecisionChange {
    pub(super) newly_denied: u64,
    pub(super) no_longer_denied: u64,
    /// The newly denied keys of the candidate's rules.
    pub(super) newly: KeyDenials,
    /// The keys of the current rules that are no longer denied.
    pub(super) no_longer: KeyDenials,
}

impl DecisionChange {
    pub(super) fn record(
        &mut self,
        at_us: u64,
        candidate: &ReplayDecision,
        current: &ReplayDecision,
    ) {
        match (candidate.allowed, current.allowed) {
            (false, true) => {
                self.newly_denied += 1;
                candidate.refused.iter().for_each(|rule_key| self.newly.record(rule_key, at_us));
            }
            (true, false) => {
                self.no_longer_denied += 1;
                current.refused.iter().for_each(|rule_key| self.no_longer.record(rule_key, at_us));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(allowed: bool) -> ReplayDecision {
        let rule_key = RuleKey { rule: "api".into(), key: "ann".into() };
        let refused = (!allowed).then_some(rule_key);
        ReplayDecision {
            allowed,
            matched: vec!["api".into()],
            refused,
            ..ReplayDecision::default()
        }
    }

    #[test]
    fn every_request_is_counted_once() {
        let mut tally = ReplayTally::new();
        for (at_us, allowed) in [(1, true), (2, false), (3, true)] {
            tally.record(at_us, &decision(allowed));
        }
        tally.record(4, &ReplayDecision { allowed: true, ..ReplayDecision::default() });
        assert_eq!(tally.total, Counts { allowed: 3, denied: 1 });
        assert_eq!((tally.unmatched, tally.shadow), (1, 0));
        assert_eq!(tally.rules["api"], RuleCounts { matched: 3, denied: 1, shadow: 0 });
    }

    #[test]
    fn a_shadow_denial_passes_and_is_counted() {
        let mut tally = ReplayTally::new();
        let shadow = vec![RuleKey { rule: "new".into(), key: String::new() }];
        tally.record(1, &ReplayDecision { shadow, ..decision(true) });
        assert_eq!((tally.total.allowed, tally.shadow, tally.rules["new"].shadow), (1, 1, 1));
        assert_eq!((tally.shadowed.len(), tally.denied.len()), (1, 0));
    }

    #[test]
    fn only_differences_are_changes() {
        let mut change = DecisionChange::default();
        for (candidate, current) in [(true, true), (false, false), (false, true), (true, false)] {
            change.record(1, &decision(candidate), &decision(current));
        }
        assert_eq!((change.newly_denied, change.no_longer_denied), (1, 1));
        assert_eq!((change.newly.len(), change.no_longer.len()), (1, 1));
    }
}
