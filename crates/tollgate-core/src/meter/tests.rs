//! Worked cases of the meter, and regressions.

use super::*;
use crate::{Carry, Retry, Verdict};

const SECOND: Span = Span::from_secs(1);
const YEAR: Span = Span::from_secs(31_556_952);
const MONTH: Span = Span::from_secs(2_629_746);

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn at_ms(millis: u64) -> Time {
    at(millis * 1_000_000)
}

fn after(nanos: u64) -> Retry {
    Retry::After(Span::from_nanos(nanos))
}

fn interval(phase: u64) -> Refill {
    Refill::Interval { phase: at(phase) }
}

/// Returns what a meter has left, negative for debt.
fn left(meter: &Meter, state: &MeterState, now: Time) -> i128 {
    i128::from(meter.capacity()) - i128::from(meter.used(state, now))
}

#[test]
fn worked_token_bucket_case() {
    let meter = Meter::new(10, SECOND, 10).unwrap();
    let mut state = meter.fresh(at_ms(0));
    assert_eq!(meter.decide(&mut state, at_ms(300), 6).remaining, 4);
    let verdict = meter.decide(&mut state, at_ms(500), 5);
    assert_eq!((verdict.allowed, verdict.remaining), (true, 1));
    assert_eq!(meter.peek(&state, at_ms(1500)).remaining, 10);
}

#[test]
fn a_verdict_has_all_fields() {
    let meter = Meter::new(10, SECOND, 10).unwrap();
    let mut state = meter.fresh(at_ms(0));
    assert!(meter.decide(&mut state, at_ms(0), 9).allowed);
    let denied = Verdict {
        allowed: false,
        limit: 10,
        remaining: 1,
        reset_after: Span::from_millis(900),
        retry: after(200_000_000),
        wait: Span::ZERO,
    };
    assert_eq!(meter.decide(&mut state, at_ms(0), 3), denied);
    let never = meter.decide(&mut state, at_ms(0), 11);
    assert_eq!(never, Verdict { retry: Retry::Never, ..denied });
}

#[test]
fn thirds_of_a_nanosecond_are_not_lost() {
    let meter = Meter::new(3, SECOND, 1).unwrap();
    let mut state = meter.fresh(at(0));
    let mut now = at(0);
    let mut passed = Vec::new();
    for _ in 0..4 {
        assert!(meter.decide(&mut state, now, 1).allowed);
        passed.push(now.as_nanos());
        let verdict = meter.decide(&mut state, now, 1);
        now = now + verdict.retry_after().unwrap();
    }
    assert_eq!(passed, [0, 333_333_334, 666_666_668, 1_000_000_002]);

    // Reservations are not rounded: the fourth is due exactly at the second.
    let mut state = meter.fresh(at(0));
    let turn = |()| (meter.reserve(&mut state, at(0), 1, SECOND).wait.as_nanos(), state.parts());
    let turns = [
        (0, (333_333_333, 1)),
        (333_333_334, (666_666_666, 2)),
        (666_666_667, (1_000_000_000, 0)),
        (1_000_000_000, (1_333_333_333, 1)),
    ];
    assert_eq!([(); 4].map(turn), turns);
    assert_eq!(meter.scale(), 3);
}

#[test]
fn interval_refill_comes_all_at_once() {
    let meter = Meter::new(3, Span::from_nanos(100), 5).unwrap().refill(interval(0));
    let mut state = meter.fresh(at(0));
    assert!(meter.decide(&mut state, at(50), 4).allowed);
    let results = [99, 100, 199, 200, 1000].map(|now| meter.peek(&state, at(now)).remaining);
    assert_eq!(results, [1, 4, 4, 5, 5]);
    assert_eq!(meter.decide(&mut state, at(60), 2).retry, after(40));
    assert_eq!(meter.decide(&mut state, at(60), 5).retry, after(140));
    assert_eq!(meter.full_at(&state), at(200));
}

#[test]
fn interval_refill_before_its_first_tick() {
    // A phase in the future implies ticks before it, even one before the epoch.
    let meter = Meter::new(10, Span::from_nanos(1000), 10).unwrap().refill(interval(5100));
    let mut state = meter.fresh(at(5));
    assert!(meter.decide(&mut state, at(5), 10).allowed);
    assert_eq!(meter.decide(&mut state, at(5), 10).retry, after(95));
    assert_eq!(meter.peek(&state, at(99)).remaining, 0);
    assert_eq!(meter.peek(&state, at(100)).remaining, 10);
}

#[test]
fn initial_fill() {
    let meter = Meter::new(10, SECOND, 10).unwrap();
    let cold = meter.initial(0).unwrap();
    let mut state = cold.fresh(at_ms(0));
    assert_eq!(cold.decide(&mut state, at_ms(0), 1).retry, after(100_000_000));
    assert!(cold.decide(&mut state, at_ms(100), 1).allowed);
    assert_eq!(cold.peek(&cold.fresh(at_ms(0)), at_ms(1000)).remaining, 10);
    let warm = meter.initial(7).unwrap();
    assert_eq!(warm.peek(&warm.fresh(at_ms(5)), at_ms(5)).remaining, 7);
    let full = meter.initial(10).unwrap();
    assert_eq!(full, meter);
}

#[test]
fn shaping_delays_requests_beyond_smooth() {
    let meter = Meter::new(10, SECOND, 5).unwrap().smooth_after(2);
    let mut state = meter.fresh(at_ms(0));
    let verdicts = [(); 6].map(|()| meter.decide(&mut state, at_ms(0), 1));
    let waits = verdicts.map(|verdict| verdict.wait.as_nanos() / 1_000_000);
    assert_eq!(waits, [0, 0, 100, 200, 300, 0]);
    assert_eq!(verdicts.map(|verdict| verdict.allowed), [true, true, true, true, true, false]);
    assert_eq!(verdicts[5].retry, after(100_000_000));
}

#[test]
fn paying_later() {
    let meter = Meter::new(10, SECOND, 10).unwrap().initial(0).unwrap().pay_later();
    let mut state = meter.fresh(at_ms(0));
    assert!(meter.decide(&mut state, at_ms(0), 1000).allowed);
    let next = meter.decide(&mut state, at_ms(0), 1);
    assert_eq!((next.allowed, next.retry), (false, Retry::After(Span::from_secs(100))));
    let waits = meter.reserve(&mut state, at_ms(0), 5, Span::from_secs(100));
    assert_eq!((waits.allowed, waits.wait), (true, Span::from_secs(100)));
    assert!(!meter.decide(&mut state, at_ms(100_499), 1).allowed);
    assert!(meter.decide(&mut state, at_ms(100_500), 1).allowed);
    assert_eq!(meter.decide(&mut state, at_ms(100_500), u64::MAX).retry, Retry::Never);
}

#[test]
fn reserving_ahead() {
    let meter = Meter::new(10, SECOND, 10).unwrap();
    let mut state = meter.fresh(at_ms(0));
    assert!(meter.decide(&mut state, at_ms(0), 10).allowed);
    assert!(!meter.reserve(&mut state, at_ms(0), 1, Span::from_millis(99)).allowed);
    let verdict = meter.reserve(&mut state, at_ms(0), 1, Span::from_millis(100));
    assert_eq!((verdict.allowed, verdict.wait), (true, Span::from_millis(100)));
    assert_eq!(meter.decide(&mut state, at_ms(0), 1).retry, after(200_000_000));
    assert_eq!(meter.reserve(&mut state, at_ms(0), 11, Span::MAX).retry, Retry::Never);
}

#[test]
fn slow_and_fast_rates_are_exact() {
    // (rate, period, burst, when one token taken from a full bucket is refilled)
    let table = [
        (1, YEAR, 1, 31_556_952_000_000_000),
        (99_991, MONTH, 99_991, 26_299_826_985), // 2629746e9 / 99991 = 26299826984.4…
        (10_000_000, SECOND, 10_000_000, 100),
        (3_000_000_000, SECOND, 1, 1),
        (1, MAX_FILL, 1, 1 << 62),
        (MAX_AMOUNT, Span::from_nanos(1), MAX_AMOUNT, 1),
    ];
    for (rate, period, burst, back) in table {
        let meter = Meter::new(rate, period, burst).unwrap();
        let mut state = meter.fresh(at(7));
        assert!(meter.decide(&mut state, at(7), burst).allowed);
        let denied = meter.decide(&mut state, at(7), 1);
        assert_eq!((denied.remaining, denied.retry), (0, after(back)), "{rate} per {period}");
        assert_eq!(denied.reset_after, meter.fill_time());
        assert!(!meter.decide(&mut state, at(7 + back - 1), 1).allowed);
        assert!(meter.decide(&mut state, at(7 + back), 1).allowed);
    }
}

#[test]
fn a_month_at_a_fractional_rate_does_not_drift() {
    let meter = Meter::new(99_991, MONTH, 99_991).unwrap();
    let mut state = meter.fresh(at(0));
    for _ in 0..99_991 {
        assert!(meter.decide(&mut state, at(0), 1).allowed);
    }
    assert!(!meter.decide(&mut state, at(0), 1).allowed);
    assert_eq!(meter.full_at(&state), at(MONTH.as_nanos()));
    assert_eq!(meter.peek(&state, at(MONTH.as_nanos() - 1)).remaining, 99_990);
}

#[test]
fn invalid_parameters_are_refused() {
    let table = [
        (0, SECOND, 1, "a limit of 0 would never let anything pass: use at least 1"),
        (1, SECOND, 0, "a burst of 0 would never let anything pass: use at least 1"),
        (1, Span::ZERO, 1, "a period of 0 has no rate: use at least 1ns"),
        (1, Span::MAX, 1, "a period is at most 146 years"), // 584 of them
        (
            1,
            YEAR,
            147,
            "refilling from empty would take more than 146 years: lower the burst or raise the rate",
        ),
        (
            (1 << 62) + 1,
            SECOND,
            1,
            "4611686018427387905 is above the largest amount, 4611686018427387904",
        ),
        (
            1,
            SECOND,
            u64::MAX,
            "18446744073709551615 is above the largest amount, 4611686018427387904",
        ),
    ];
    for (rate, period, burst, message) in table {
        let refused = Meter::new(rate, period, burst).unwrap_err();
        assert_eq!(refused.to_string(), message, "{rate} per {period}, {burst}");
    }
    let refused = Meter::new(1, SECOND, 5).unwrap().initial(6).unwrap_err();
    assert_eq!(refused.to_string(), "6 tokens at the start do not fit a burst of 5");
    // A fraction of a nanosecond beyond the longest fill time is too much.
    assert_eq!(Meter::new(3, Span::from_nanos(1 << 61), 6).unwrap().fill_time(), MAX_FILL);
    let seventh = ((5u128 << 62) + 1) / 7; // 7 of these at 5 a period: 2^62 and a fifth.
    let refused = Meter::new(5, Span::from_nanos(seventh as u64), 7);
    assert_eq!(refused, Err(InvalidLimit::FillsTooSlowly));
}

#[test]
fn a_bucket_given_as_a_time() {
    let meter = Meter::with_depth(10, SECOND, Span::from_millis(250)).unwrap();
    assert_eq!(meter.capacity(), 2);
    let mut state = meter.fresh(at_ms(0));
    assert!(meter.decide(&mut state, at_ms(0), 2).allowed);
    assert_eq!(meter.decide(&mut state, at_ms(0), 1).retry, after(50_000_000));
    // A bucket of less than a token allows nothing, unless it pays later.
    let shallow = Meter::with_depth(1, SECOND, Span::from_millis(500)).unwrap();
    assert_eq!(shallow.decide(&mut shallow.fresh(at(0)), at(0), 1).retry, Retry::Never);
    assert!(shallow.pay_later().decide(&mut shallow.fresh(at(0)), at(0), 1).allowed);
    // 2^62 ns at 8 tokens a nanosecond would wrap to an amount of 0.
    let refused = Meter::with_depth(8, Span::from_nanos(1), MAX_FILL).unwrap_err();
    assert_eq!(refused, InvalidLimit::AmountTooLarge(u64::MAX));
}

#[test]
fn a_clock_that_goes_back_gives_nothing() {
    let meter = Meter::new(1, SECOND, 2).unwrap();
    let mut state = meter.fresh(at_ms(10_000));
    assert!(meter.decide(&mut state, at_ms(10_000), 1).allowed);
    let denied = meter.decide(&mut state, at_ms(5_000), 1);
    assert_eq!((denied.retry, denied.remaining), (after(5_000_000_000), 0));
    assert!(meter.decide(&mut state, at_ms(10_000), 1).allowed);
    assert!(!meter.decide(&mut state, at_ms(10_000), 1).allowed);
}

#[test]
fn debt_and_refunds() {
    let meter = Meter::new(10, SECOND, 10).unwrap();
    let mut state = meter.fresh(at_ms(0));
    meter.charge(&mut state, at_ms(0), 25);
    assert_eq!(left(&meter, &state, at_ms(0)), -15);
    let judgement = meter.peek(&state, at_ms(0));
    assert_eq!((judgement.overdrawn, judgement.remaining), (Span::from_millis(1500), 0));
    meter.charge(&mut state, at_ms(0), -20);
    assert_eq!(left(&meter, &state, at_ms(0)), 5);
    meter.charge(&mut state, at_ms(0), -20);
    assert_eq!(meter.peek(&state, at_ms(0)).remaining, 10);
    assert!(meter.decide(&mut state, at_ms(0), 10).allowed);
    assert!(!meter.decide(&mut state, at_ms(0), 1).allowed);
}

#[test]
fn carrying_over() {
    let old = Meter::new(10, SECOND, 100).unwrap();
    let new = Meter::new(7, Span::from_millis(300), 1000).unwrap();
    let now = at_ms(50); // Five hundredths of a second: half a token.
    let mut state = old.fresh(at_ms(0));
    old.charge(&mut state, at_ms(0), 70);
    let carried = |how| left(&new, &new.carry(&old, &state, now, how), now);
    assert_eq!(carried(Carry::AsIs), 30);
    assert_eq!(carried(Carry::Proportional), 305);
    assert_eq!(carried(Carry::Additive), 930);
    assert_eq!(carried(Carry::Reset), 1000);
    // The half token is carried over: the other half takes 150 ms / 7.
    let as_is = new.carry(&old, &state, now, Carry::AsIs);
    assert_eq!(left(&new, &as_is, now + Span::from_nanos(21_428_571)), 30);
    assert_eq!(left(&new, &as_is, now + Span::from_nanos(21_428_572)), 31);
    // To a smaller limit.
    let small = Meter::new(1, SECOND, 20).unwrap();
    let carried = |how| left(&small, &small.carry(&old, &state, now, how), now);
    assert_eq!(carried(Carry::AsIs), 20);
    assert_eq!(carried(Carry::Proportional), 6);
    assert_eq!(carried(Carry::Additive), 20);
    // Debt is in tokens, and stays.
    old.charge(&mut state, now, 100);
    for how in [Carry::AsIs, Carry::Proportional] {
        assert_eq!(left(&new, &new.carry(&old, &state, now, how), now), -70, "{how:?}");
    }
    assert_eq!(left(&new, &new.carry(&old, &state, now, Carry::Additive), now), 830);
}

#[test]
fn carrying_over_the_largest_numbers_is_exact() {
    let old = Meter::new(MAX_AMOUNT - 1, Span::from_nanos((1 << 62) - 3), MAX_AMOUNT - 1).unwrap();
    let new = Meter::new(MAX_AMOUNT - 5, Span::from_nanos((1 << 62) - 7), MAX_AMOUNT - 5).unwrap();
    let now = at(1);
    let mut state = old.fresh(now);
    old.charge(&mut state, now, 1 << 61);
    let share =
        |state: MeterState| left(&new, &new.carry(&old, &state, now, Carry::Proportional), now);
    // ((2^62 - 1 - 2^61) / (2^62 - 1)) * (2^62 - 5), rounded down.
    assert_eq!(share(state), (1 << 61) - 3);
    old.charge(&mut state, now, i64::MAX);
    assert!(share(state) < 0);
}

#[test]
fn a_state_with_a_given_remaining_amount() {
    let meter = Meter::new(10, SECOND, 10).unwrap();
    let cold = meter.initial(3).unwrap();
    for tokens in [-25, -1, 0, 7, 10] {
        assert_eq!(left(&meter, &meter.with_remaining(at(9), tokens), at(9)), tokens);
        assert_eq!(left(&cold, &cold.with_remaining(at(9), tokens), at(9)), tokens);
    }
    assert_eq!(left(&meter, &meter.with_remaining(at(9), 99), at(9)), 10);
}
