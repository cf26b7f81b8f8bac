//! Modes that were set while running: they go before what the file says, and need no new file.

use std::collections::HashMap;

use tollgate_core::Time;

use super::compiled::Domain;
use super::policy::Mode;

/// The modes of a domain that came as data. Most often there are none, which costs a decision one
/// branch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Modes {
    /// Of all rules: goes before those of single ones, so that it is a switch for everything.
    of_all: Option<Set>,
    /// By the number of the rule.
    of_rules: HashMap<u32, Set>,
}

/// A mode, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Set {
    pub(crate) mode: Mode,
    pub(crate) until: Option<Time>,
}

impl Set {
    pub(crate) fn now(&self, now: Time) -> Option<Mode> {
        self.until.is_none_or(|until| until > now).then_some(self.mode)
    }
}

impl Modes {
    /// Sets the mode of a rule, or of all. Of two the later counts.
    pub(crate) fn set(&mut self, rule: Option<u32>, set: Set) {
        match rule {
            Some(rule) => drop(self.of_rules.insert(rule, set)),
            None => self.of_all = Some(set),
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.of_all.is_none() && self.of_rules.is_empty()
    }

    #[cold]
    fn of(&self, rule: u32, now: Time) -> Option<Mode> {
        let own = || self.of_rules.get(&rule).and_then(|set| set.now(now));
        self.of_all.and_then(|set| set.now(now)).or_else(own)
    }

    /// Whether no rule at all is asked.
    pub(crate) fn are_all_off(&self, now: Time) -> bool {
        self.of_all.and_then(|set| set.now(now)) == Some(Mode::Off)
    }
}

impl Domain {
    /// The mode of a rule now.
    #[inline]
    pub(crate) fn mode_of(&self, rule: u32, now: Time) -> Mode {
        self.mode_set(rule, now).unwrap_or(self.compiled.rules[rule as usize].mode)
    }

    /// The mode that was set for a rule while running.
    #[inline]
    pub(crate) fn mode_set(&self, rule: u32, now: Time) -> Option<Mode> {
        if self.modes.is_empty() { None } else { self.modes.of(rule, now) }
    }
}
