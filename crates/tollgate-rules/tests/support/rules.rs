//! A limiter with rules and a manual clock.

use tollgate::Time;
use tollgate::testing::ManualClock;
use tollgate_rules::{Decision, Request, RuleLimiter, Rules, Source};

use super::{Settlements, settlements};

/// Midnight of Monday, 5 January 2026, UTC.
pub(crate) const MONDAY: Time = Time::from_nanos(1_767_571_200_000_000_000);

pub(crate) struct Fixture {
    pub(crate) clock: ManualClock,
    pub(crate) limiter: RuleLimiter,
    pub(crate) settlements: Settlements,
}

impl Fixture {
    /// Creates a limiter from one rule file.
    pub(crate) fn new(text: &str) -> Fixture {
        Fixture::of([("rules.yaml", text)])
    }

    /// Creates a limiter from several rule files.
    pub(crate) fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Fixture {
        let clock = ManualClock::at(MONDAY);
        let (settlements, record) = settlements();
        let builder = RuleLimiter::builder().clock(&clock).on_settled(record);
        Fixture { clock, limiter: builder.build(read(files)), settlements }
    }

    pub(crate) fn replace(&self, text: &str) {
        self.limiter.replace(read([("rules.yaml", text)]));
    }

    /// Decides a request written as words.
    pub(crate) fn ask(&self, words: &str) -> Decision {
        self.limiter.decide_now(&Request::from_words(words.split(' ')).unwrap())
    }
}

pub(crate) fn read<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Rules {
    let sources = files.into_iter().map(|(name, text)| Source::new(name, text));
    Rules::read(sources).unwrap_or_else(|found| panic!("{found}"))
}
