//! A limiter that follows rules, under a clock moved by hand.

use tollgate::rules::{Decision, RuleLimiter, Source};
use tollgate::testing::ManualClock;
use tollgate::{Limiter, Request, Rules, Time};

/// Midnight of Monday, 5 January 2026, UTC.
pub(crate) const MONDAY: Time = Time::from_nanos(1_767_571_200_000_000_000);

pub(crate) struct Fixture {
    pub(crate) clock: ManualClock,
    pub(crate) limiter: RuleLimiter,
}

impl Fixture {
    /// One file of rules.
    pub(crate) fn new(text: &str) -> Fixture {
        Fixture::of([("rules.yaml", text)])
    }

    /// Several.
    pub(crate) fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Fixture {
        let clock = ManualClock::at(MONDAY);
        let limiter = Limiter::builder().clock(&clock).build_rules(read(files));
        Fixture { clock, limiter }
    }

    pub(crate) fn replace(&self, text: &str) {
        self.limiter.replace(read([("rules.yaml", text)]));
    }

    /// Decides a request given in words.
    pub(crate) fn ask(&self, words: &str) -> Decision {
        self.limiter.decide(&Request::from_words(words.split(' ')).unwrap())
    }
}

pub(crate) fn read<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Rules {
    let sources = files.into_iter().map(|(name, text)| Source::new(name, text));
    Rules::read(sources).unwrap_or_else(|found| panic!("{found}"))
}
