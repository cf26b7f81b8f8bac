//! `retry_after`: exact to the nanosecond, for every algorithm in random states.

use std::time::Duration;

use fastrand::Rng;
use tollgate::testing::ManualClock;
use tollgate::{KeyedLimiter, Limit, Limiter};

use super::super::check::{CheckContext, CheckRun};
use super::super::measurement::{FigureBound, FigureUnit, Measurement};
use crate::text::grouped;

/// Limits of every algorithm and option, with awkward rates.
const KINDS: &[&str] = &[
    "5/min",
    "5/min burst 8",
    "7/min burst 3",
    "997/min burst 6",
    "2/7us burst 5",
    "1/90d burst 2",
    "6/min leaky burst 6",
    "6/min leaky free 2 burst 5",
    "5/min gcra burst 6",
    "5/min interval",
    "5/min burst 9 initial 4",
    "5/min burst 3 pay_later",
    "5/min fixed",
    "5/min fixed first_hit",
    "5/min fixed count_denied",
    "5/min sliding",
    "5/min sliding count_denied",
    "5/min sliding slots 6",
    "5/min log",
    "5/min log count_denied",
    "5/min log min_gap 1s",
    "5/min warmup 1min",
    "3/day calendar",
    "3/month calendar zone Europe/Berlin anchor 15",
];
/// The number of states of one limiter.
const STATES: u64 = 50;
const NANOSECOND: Duration = Duration::from_nanos(1);

/// The result of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallResult {
    Passed,
    /// The time until the call passes; none for never.
    Refused(Option<Duration>),
}

pub(super) fn run(context: &CheckContext) -> anyhow::Result<CheckRun> {
    let mut tally = RetryTally::default();
    let mut random = Rng::new();
    for kind in KINDS {
        context.step(*kind);
        for _ in 0..context.amount(50, 2) {
            tally.add_states(kind, &mut random, |result| result)?;
        }
    }
    Ok(CheckRun::Measured(tally.measurements()))
}

/// The number of states that were looked at, and of those with a wrong time.
#[derive(Debug, Default)]
struct RetryTally {
    refusals: u64,
    too_early: u64,
    too_late: u64,
}

impl RetryTally {
    /// Looks at some states of one limiter, whose results are changed by `change`.
    fn add_states(
        &mut self,
        kind: &str,
        random: &mut Rng,
        change: impl Fn(CallResult) -> CallResult,
    ) -> anyhow::Result<()> {
        let (limit, clock): (Limit, _) = (kind.parse()?, ManualClock::new());
        clock.advance(Duration::from_nanos(random.u64(..90 * 86_400_000_000_000)));
        let limiter: KeyedLimiter = Limiter::builder().limit(limit).clock(&clock).build_keyed();
        // A key that is full again is a new key, which may have less than the burst (`initial`).
        let most = limiter.peek("new").remaining.clamp(1, 9);
        for state in 0..STATES {
            self.add_state(&clock, random, most, |key, cost| {
                change(match limiter.check_n(&*format!("{key} {state}"), cost) {
                    Ok(()) => CallResult::Passed,
                    Err(denied) => CallResult::Refused(denied.retry_after),
                })
            });
        }
        Ok(())
    }

    /// Brings two keys into the same random state with a refusal at its end, and tries one of them a
    /// nanosecond before the reported time, the other at that time.
    fn add_state(
        &mut self,
        clock: &ManualClock,
        random: &mut Rng,
        most: u64,
        call: impl Fn(&str, u64) -> CallResult,
    ) {
        let both = |cost: u64| ["early", "late"].map(|key| call(key, cost));
        for _ in 0..random.u64(..12) {
            let [early, _] = both(random.u64(0..=most));
            // Pauses around the time to wait make states at the edges of windows.
            let pause = match early {
                CallResult::Refused(Some(wait)) => wait.mul_f64(random.f64() * 1.2),
                _ => Duration::from_nanos(random.u64(..20_000_000_000)),
            };
            clock.advance(pause);
        }
        let cost = random.u64(1..=most);
        // A pay_later limit refuses only while something is owed, so some calls are needed.
        for _ in 0..20 {
            match both(cost) {
                [CallResult::Refused(Some(wait)), same] if wait > Duration::ZERO => {
                    self.refusals += 1;
                    if same != CallResult::Refused(Some(wait)) {
                        self.too_late += 1;
                    }
                    clock.advance(wait - NANOSECOND);
                    self.too_early += u64::from(call("early", cost) == CallResult::Passed);
                    clock.advance(NANOSECOND);
                    self.too_late += u64::from(call("late", cost) != CallResult::Passed);
                    return;
                }
                [CallResult::Refused(Some(_)), _] => {
                    self.too_early += 1;
                    return;
                }
                // The limit can never hold this cost.
                [CallResult::Refused(None), _] => return,
                _ => {}
            }
        }
    }

    fn measurements(&self) -> Vec<Measurement> {
        let subject = format!("{} limits, {} refusals", KINDS.len(), grouped(self.refusals));
        let failures = |what: &str, count| {
            Measurement::exactly(format!("{subject}: {what}"), count, "refusals", 0)
        };
        vec![
            failures("refused again at retry_after", self.too_late),
            failures("passed a nanosecond before it", self.too_early),
            Measurement::new(
                "states with a refusal that were looked at",
                self.refusals,
                FigureUnit::Count("refusals"),
                FigureBound::AtLeast(KINDS.len() as u64),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs states of a limiter whose reported times are changed.
    fn tally(change: impl Fn(Duration) -> Duration) -> RetryTally {
        let (mut tally, mut random) = (RetryTally::default(), Rng::with_seed(7));
        let change = |result| match result {
            CallResult::Refused(wait) => CallResult::Refused(wait.map(&change)),
            CallResult::Passed => CallResult::Passed,
        };
        tally.add_states("7/min burst 3", &mut random, change).unwrap();
        tally
    }

    fn holds(tally: &RetryTally) -> [bool; 2] {
        let measured = tally.measurements();
        [measured[0].holds(), measured[1].holds()]
    }

    #[test]
    fn a_nanosecond_too_early_or_too_late_is_found() {
        let exact = tally(|wait| wait);
        assert!(exact.refusals > 40, "{exact:?}");
        assert_eq!(holds(&exact), [true, true]);
        assert_eq!(holds(&tally(|wait| wait - NANOSECOND)), [false, true]);
        assert_eq!(holds(&tally(|wait| wait + NANOSECOND)), [true, false]);
        let rounded = tally(|wait| Duration::from_secs(wait.as_secs() + 1));
        assert!(!holds(&rounded)[1]);
    }

    #[test]
    fn states_without_a_refusal_prove_nothing() {
        assert!(!RetryTally::default().measurements()[2].holds());
    }
}
