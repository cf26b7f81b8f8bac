//! What became of charges that were made before the truth was known, for whoever keeps an eye on it.

use std::fmt;
use std::sync::OnceLock;

/// What became of what a rule charged in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SettledAs {
    /// The truth was never found out: what was charged stays charged.
    Kept,
    /// It was what had been charged.
    Exact,
    /// It was less, and too late to give the rest back.
    Expired,
    /// It was less: the rest went back.
    Refunded,
    /// It was more: the rest was charged, as debt where there was not as much left.
    Overrun,
    /// It was more, and the store could not be told: the rest is charged as soon as it decides on the
    /// same counter again.
    Owed,
}

impl SettledAs {
    /// All of them.
    pub const ALL: [SettledAs; 6] = [
        SettledAs::Kept,
        SettledAs::Exact,
        SettledAs::Expired,
        SettledAs::Refunded,
        SettledAs::Overrun,
        SettledAs::Owed,
    ];

    /// Its name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            SettledAs::Kept => "kept",
            SettledAs::Exact => "exact",
            SettledAs::Expired => "expired",
            SettledAs::Refunded => "refunded",
            SettledAs::Overrun => "overrun",
            SettledAs::Owed => "owed",
        }
    }
}

type Watcher = dyn Fn(&str, &str, SettledAs) + Send + Sync;

/// Who is told, if anybody.
#[derive(Default)]
pub(crate) struct SettledTo(OnceLock<Box<Watcher>>);

impl SettledTo {
    pub(super) fn set(&self, watcher: Box<Watcher>) -> bool {
        self.0.set(watcher).is_ok()
    }

    pub(super) fn tell(&self, domain: &str, rule: &str, settled: SettledAs) {
        if let Some(watcher) = self.0.get() {
            watcher(domain, rule, settled);
        }
    }
}

impl fmt::Debug for SettledTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SettledTo").field(&self.0.get().is_some()).finish()
    }
}
