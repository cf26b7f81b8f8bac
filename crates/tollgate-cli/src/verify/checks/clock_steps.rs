//! Clock steps of an hour: no decision changes, and no key is locked out.

use std::time::Duration;

use fastrand::Rng;
use tollgate::testing::ManualClock;
use tollgate::{KeyedLimiter, Limit, Limiter, Time};

use super::super::check::{CheckContext, CheckRun};
use super::super::measurement::Measurement;
use crate::text::grouped;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
/// Limits of every algorithm without dates.
const KINDS: &[&str] = &[
    "10/min",
    "10/min burst 25",
    "10/min leaky burst 4",
    "10/min interval",
    "10/min fixed",
    "10/min fixed first_hit",
    "10/min sliding",
    "10/min sliding slots 6",
    "10/min log",
    "10/min warmup 30s",
    "10 concurrent lease 1min",
];

pub(super) fn run(context: &CheckContext) -> anyhow::Result<CheckRun> {
    let calls = context.amount(20_000, 2_000);
    let (mut random, mut changed, mut steps) = (Rng::new(), 0, 0);
    for kind in KINDS {
        context.step(*kind);
        let limit: Limit = kind.parse()?;
        let (more, stepped) =
            changed_decisions(&mut random, &limit, calls, |clock, is_forward| match is_forward {
                true => clock.step_wall(HOUR),
                false => clock.step_wall_back(HOUR),
            });
        changed += more;
        steps += stepped;
    }
    context.step("calendars");
    let daily: Limit = "5/day calendar".parse()?;
    let wait = longest_wait(&mut random, &daily, context.amount(500, 50), |clock| {
        clock.step_wall_back(HOUR)
    });
    Ok(CheckRun::Measured(vec![
        changed_measurement(calls, steps, changed),
        lock_out_measurement(wait),
    ]))
}

fn changed_measurement(calls: u64, steps: u64, changed: u64) -> Measurement {
    let subject = format!(
        "{} limits, {} calls each, {} steps of ± 1 h: changed decisions",
        KINDS.len(),
        grouped(calls),
        grouped(steps)
    );
    Measurement::exactly(subject, changed, "decisions", 0)
}

fn lock_out_measurement(wait: Duration) -> Measurement {
    Measurement::time("5/day calendar after a step back of 1 h: longest wait", wait, DAY)
}

fn limiter(limit: &Limit, clock: &ManualClock) -> KeyedLimiter {
    Limiter::builder().limit(limit.clone()).clock(clock).build_keyed()
}

/// Runs a limiter on a clock that is stepped beside one on a clock that is not; returns how many
/// decisions differ, and how many steps there were.
fn changed_decisions(
    random: &mut Rng,
    limit: &Limit,
    calls: u64,
    step: impl Fn(&ManualClock, bool),
) -> (u64, u64) {
    let clocks = [ManualClock::new(), ManualClock::new()];
    let limiters = clocks.each_ref().map(|clock| limiter(limit, clock));
    let (mut changed, mut steps) = (0, 0);
    for _ in 0..calls {
        if random.u8(..) < 16 {
            step(&clocks[1], random.bool());
            steps += 1;
        }
        let pause = Duration::from_nanos(random.u64(..9_000_000_000));
        clocks.iter().for_each(|clock| clock.advance(pause));
        let key = if random.bool() { "ann" } else { "bob" };
        let [one, other] = limiters
            .each_ref()
            .map(|limiter| limiter.check(key).map_err(|denied| denied.retry_after));
        changed += u64::from(one != other);
    }
    (changed, steps)
}

/// Exhausts a daily limit at random times of the day, steps the clock, and returns the longest wait
/// until a request passes.
fn longest_wait(
    random: &mut Rng,
    limit: &Limit,
    days: u64,
    step: impl Fn(&ManualClock),
) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..days {
        let noon = ManualClock::new().now().as_nanos();
        let clock = ManualClock::at(Time::from_nanos(noon + random.u64(..86_400_000_000_000)));
        let limiter = limiter(limit, &clock);
        // As often as the limit allows, which has a maximum.
        (0..100).take_while(|_| limiter.check("ann").is_ok()).count();
        step(&clock);
        let mut waited = Duration::ZERO;
        // A reported wait may turn out too short; each is waited for.
        for _ in 0..100 {
            match limiter.check("ann") {
                Ok(()) => break,
                Err(denied) => {
                    let wait = denied.retry_after.unwrap_or(Duration::MAX).min(1_000 * DAY);
                    clock.advance(wait);
                    waited += wait;
                }
            }
        }
        longest = longest.max(waited);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limiter on the wall clock has all its decisions on the clock that is stepped.
    fn step_decisions(clock: &ManualClock, is_forward: bool) {
        let hour = HOUR.as_nanos() as u64;
        let now = clock.now().as_nanos();
        let now = if is_forward { now + hour } else { now - hour };
        clock.set(Time::from_nanos(now));
    }

    #[test]
    fn a_limiter_on_the_wall_clock_is_found() {
        for kind in KINDS {
            let (changed, steps) = changed_decisions(
                &mut Rng::with_seed(8),
                &kind.parse().unwrap(),
                500,
                step_decisions,
            );
            assert!(steps > 0 && changed > 0, "{kind}: {changed} after {steps} steps");
            assert!(!changed_measurement(500, steps, changed).holds());
        }
    }

    /// A store that stays at the later time locks a key out for as long as the step.
    #[test]
    fn a_key_that_is_locked_out_is_found() {
        let daily = "5/day fixed first_hit".parse().unwrap();
        let wait =
            longest_wait(&mut Rng::with_seed(8), &daily, 5, |clock| step_decisions(clock, false));
        assert_eq!(wait, DAY + HOUR);
        assert!(!lock_out_measurement(wait).holds());
    }
}
