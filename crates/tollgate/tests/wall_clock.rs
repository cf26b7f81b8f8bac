//! Steps of the wall clock, and what follows it: the periods of calendars, and nothing else.

use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate::{Clock, KeyedLimiter, Limit, Limiter, Span, Time};

const HOUR: Duration = Duration::from_secs(3_600);

/// Returns the clock of a machine whose time is a date such as `2026-03-29T00:30:00Z`.
fn clock_at(date: &str) -> ManualClock {
    let date: jiff::Timestamp = date.parse().unwrap();
    ManualClock::at(Time::from_nanos(date.as_nanosecond() as u64))
}

fn keyed(limit: &str, clock: &ManualClock) -> KeyedLimiter {
    Limiter::builder().limit(limit.parse::<Limit>().unwrap()).clock(clock).build_keyed()
}

/// Returns how many of `n` requests pass.
fn passed(limiter: &KeyedLimiter, n: usize) -> usize {
    (0..n).filter(|_| limiter.check("ann").is_ok()).count()
}

fn retry_after(limiter: &KeyedLimiter) -> Duration {
    limiter.check("ann").unwrap_err().retry_after.unwrap()
}

/// Every algorithm without dates: the same decisions with steps of the wall clock and without.
#[test]
fn steps_while_running_change_no_decision() {
    for limit in [
        "10/min",
        "10/min leaky burst 4",
        "10/min interval",
        "10/min fixed",
        "10/min fixed first_hit",
        "10/min sliding",
        "10/min sliding slots 6",
        "10/min log",
        "10/min warmup 30s",
    ] {
        let (quiet, stepped) = (clock_at("2026-05-04T10:00:00Z"), clock_at("2026-05-04T10:00:00Z"));
        let limiters = [keyed(limit, &quiet), keyed(limit, &stepped)];
        for step in 0_u64..400 {
            match step % 40 {
                7 => stepped.step_wall(HOUR),
                19 => stepped.step_wall_back(2 * HOUR),
                33 => stepped.step_wall(HOUR),
                _ => {}
            }
            let by = Duration::from_millis(step * 7_919 % 9_000);
            quiet.advance(by);
            stepped.advance(by);
            let [one, other] = limiters.each_ref().map(|limiter| limiter.check("ann"));
            assert_eq!(one.is_ok(), other.is_ok(), "{limit}, step {step}");
            assert_eq!(
                one.err().map(|denied| denied.retry_after),
                other.err().map(|denied| denied.retry_after),
                "{limit}, step {step}"
            );
        }
    }
}

/// A machine that starts two hours behind and is corrected: the day ends at midnight.
#[test]
fn a_calendar_follows_a_clock_that_is_corrected() {
    let clock = clock_at("2026-05-04T20:00:00Z"); // 22:00, in truth
    let limiter = keyed("5/day calendar", &clock);
    assert_eq!(passed(&limiter, 9), 5);
    assert_eq!(retry_after(&limiter), 4 * HOUR);
    clock.step_wall(2 * HOUR);
    assert_eq!(retry_after(&limiter), 2 * HOUR, "midnight is two hours away");
    clock.advance(2 * HOUR - Duration::from_nanos(1));
    assert_eq!(passed(&limiter, 9), 0);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(passed(&limiter, 9), 5);
    assert_eq!(retry_after(&limiter), 24 * HOUR);
}

#[test]
fn a_step_back_leaves_a_calendar_period_as_long_as_its_date() {
    let clock = clock_at("2026-05-04T20:00:00Z");
    let limiter = keyed("5/day calendar", &clock);
    assert_eq!(passed(&limiter, 9), 5);
    clock.step_wall_back(HOUR);
    assert_eq!(retry_after(&limiter), 5 * HOUR);
    clock.advance(5 * HOUR - Duration::from_secs(1));
    assert_eq!(passed(&limiter, 9), 0, "nothing is forgotten early");
    clock.advance(Duration::from_secs(1));
    assert_eq!(passed(&limiter, 9), 5);
}

/// Half past midnight becomes half past eleven: yesterday ends again, at most one period later.
#[test]
fn a_step_back_over_midnight_locks_no_key_out() {
    let clock = clock_at("2026-05-05T00:30:00Z");
    let limiter = keyed("5/day calendar", &clock);
    assert_eq!(passed(&limiter, 9), 5);
    clock.step_wall_back(HOUR);
    assert_eq!(retry_after(&limiter), HOUR / 2);
    clock.advance(HOUR / 2);
    assert_eq!(passed(&limiter, 9), 5, "one more period, and not two");
}

/// The wall clock goes on while the machine is suspended, and the clock of decisions does not.
#[test]
fn suspended_time_counts_for_dates_alone() {
    let clock = clock_at("2026-05-04T20:00:00Z");
    let (daily, hourly) = (keyed("5/day calendar", &clock), keyed("5/h", &clock));
    assert_eq!((passed(&daily, 9), passed(&hourly, 9)), (5, 5));
    clock.step_wall(8 * HOUR);
    assert_eq!(passed(&daily, 9), 5, "it is tomorrow");
    assert_eq!(passed(&hourly, 9), 0, "no time to refill has passed");
}

#[test]
fn a_clock_change_and_a_year_end_are_dates() {
    // Berlin skips an hour on 2026-03-29: the day has 23 hours.
    let clock = clock_at("2026-03-28T22:00:00Z"); // 23:00 in Berlin, an hour behind
    let limiter = keyed("5/day calendar zone Europe/Berlin", &clock);
    clock.step_wall(HOUR); // midnight in Berlin
    assert_eq!(passed(&limiter, 9), 5);
    assert_eq!(retry_after(&limiter), 23 * HOUR);
    // A year that ends an hour sooner than the machine thought.
    let clock = clock_at("2026-12-31T22:00:00Z");
    let limiter = keyed("5/year calendar", &clock);
    assert_eq!(passed(&limiter, 9), 5);
    clock.step_wall(HOUR);
    assert_eq!(retry_after(&limiter), HOUR);
    clock.advance(HOUR);
    assert_eq!(passed(&limiter, 9), 5);
    assert_eq!(retry_after(&limiter), 365 * 24 * HOUR);
}

/// Several limits are decided at once, each by its own clock.
#[test]
fn a_calendar_beside_another_limit() {
    let clock = clock_at("2026-05-04T20:00:00Z");
    let limits: [Limit; 2] = ["5/day calendar".parse().unwrap(), "100/h".parse().unwrap()];
    let keyed: KeyedLimiter = Limiter::builder().limits(limits.clone()).clock(&clock).build_keyed();
    let single = Limiter::builder().limits(limits).clock(&clock).build();
    let both = |n: usize| (passed(&keyed, n), (0..n).filter(|_| single.check().is_ok()).count());
    assert_eq!(both(9), (5, 5));
    clock.step_wall(4 * HOUR);
    assert_eq!(both(9), (5, 5));
    clock.step_wall_back(HOUR);
    assert_eq!(both(9), (0, 0));
}

#[test]
fn the_date_of_the_system_clock_is_that_of_the_machine() {
    for clock in [Clock::system(), Clock::coarse()] {
        let now = clock.now();
        let date = clock.date(now);
        // The clock has not been set since it was created, some nanoseconds ago.
        let apart = date.since(now) + now.since(date);
        assert!(apart < Span::from_secs(1), "{apart}");
        assert!(
            clock.time_of(date).since(now) + now.since(clock.time_of(date)) < Span::from_secs(1)
        );
    }
}
