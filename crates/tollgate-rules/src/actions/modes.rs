//! Modes that are set at run time; they take precedence over the rule file.

use std::collections::HashMap;

use tollgate_core::Time;

use crate::compile::domain::Domain;
use crate::compile::policy::Mode;

/// The modes of a domain that are set at run time. Most domains have none, which costs a decision
/// one branch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Modes {
    /// The mode of all rules; takes precedence over the modes of single rules.
    all_rules: Option<TemporaryMode>,
    /// The modes by rule number.
    by_rule: HashMap<u32, TemporaryMode>,
}

/// A mode, and the time until which it applies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TemporaryMode {
    pub(crate) mode: Mode,
    pub(crate) until: Option<Time>,
}

impl TemporaryMode {
    pub(crate) fn at(&self, now: Time) -> Option<Mode> {
        self.until.is_none_or(|until| until > now).then_some(self.mode)
    }
}

impl Modes {
    /// Sets the mode of a rule or of all rules. A later mode replaces an earlier one.
    pub(crate) fn set(&mut self, rule: Option<u32>, set: TemporaryMode) {
        match rule {
            Some(rule) => drop(self.by_rule.insert(rule, set)),
            None => self.all_rules = Some(set),
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.all_rules.is_none() && self.by_rule.is_empty()
    }

    #[cold]
    fn mode(&self, rule: u32, now: Time) -> Option<Mode> {
        let own = || self.by_rule.get(&rule).and_then(|set| set.at(now));
        self.all_rules.and_then(|set| set.at(now)).or_else(own)
    }

    /// Whether all rules are switched off.
    pub(crate) fn are_all_off(&self, now: Time) -> bool {
        self.all_rules.and_then(|set| set.at(now)) == Some(Mode::Off)
    }
}

impl Domain {
    /// Returns the current mode of a rule.
    #[inline]
    pub(crate) fn mode_of(&self, rule: u32, now: Time) -> Mode {
        self.mode_set(rule, now).unwrap_or(self.compiled.rules[rule as usize].mode)
    }

    /// Returns the mode that was set for a rule at run time.
    #[inline]
    pub(crate) fn mode_set(&self, rule: u32, now: Time) -> Option<Mode> {
        if self.modes.is_empty() { None } else { self.modes.mode(rule, now) }
    }
}
