//! The meter: exact waits, and never more than burst + rate * t.

use proptest::prelude::*;
use tollgate_core::{Algorithm, Carry, Meter, MeterState, Refill, Span, Time};

use crate::cases;
use crate::laws::{self, calls};

const START: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
struct Shape {
    rate: u64,
    period: u64,
    burst: u64,
    /// Interval refill, with this phase.
    phase: Option<u64>,
}

impl Shape {
    fn meter(self) -> Meter {
        let meter = Meter::new(self.rate, Span::from_nanos(self.period), self.burst).unwrap();
        match self.phase {
            Some(phase) => meter.refill(Refill::Interval { phase: Time::from_nanos(phase) }),
            None => meter,
        }
    }

    /// Returns the most that may be admitted within `[from, to]`.
    fn most(self, from: u64, to: u64) -> u64 {
        match self.phase {
            None => self.burst + (to - from) * self.rate / self.period,
            Some(phase) => {
                let ticks = |at: u64| (at as i64 - phase as i64).div_euclid(self.period as i64);
                self.burst + (ticks(to) - ticks(from)) as u64 * self.rate
            }
        }
    }
}

fn greedy() -> impl Strategy<Value = Shape> {
    (1..60u64, 1..400u64, 1..25u64).prop_map(|(rate, period, burst)| Shape {
        rate,
        period,
        burst,
        phase: None,
    })
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let phase = prop_oneof![3 => Just(None), 2 => (0..2 * START).prop_map(Some)];
    (greedy(), phase).prop_map(|(shape, phase)| Shape { phase, ..shape })
}

/// Checks by brute force that no interval between two admissions has more than is due.
///
/// A delayed request starts on a whole nanosecond, up to `late` after it was due.
fn never_more_than_due(shape: Shape, admitted: &[(u64, u64)], late: u64) {
    for (i, &(from, _)) in admitted.iter().enumerate() {
        let mut sum = 0;
        for &(to, cost) in &admitted[i..] {
            sum += cost;
            assert!(sum <= shape.most(from, to + late), "{sum} within [{from}, {to}] of {shape:?}");
        }
    }
}

proptest! {
    #![proptest_config(cases(1024))]

    #[test]
    fn no_interval_admits_more_than_burst_plus_rate_times_t(
        shape in any_shape(),
        requests in prop::collection::vec((0..40u64, 0..6u64), 1..120),
    ) {
        let meter = shape.meter();
        let mut now = START;
        let mut state = meter.fresh(Time::from_nanos(now));
        let mut admitted = Vec::new();
        for (after, cost) in requests {
            now += after;
            if meter.decide(&mut state, Time::from_nanos(now), cost).allowed {
                admitted.push((now, cost));
            }
        }
        never_more_than_due(shape, &admitted, 0);
    }

    #[test]
    fn reservations_start_no_faster_than_the_rate(
        shape in any_shape(),
        requests in prop::collection::vec((0..40u64, 0..6u64, 0..300u64), 1..100),
    ) {
        let meter = shape.meter();
        let mut now = START;
        let mut state = meter.fresh(Time::from_nanos(now));
        let mut admitted = Vec::new();
        for (after, cost, max_wait) in requests {
            now += after;
            let max_wait = Span::from_nanos(max_wait);
            let verdict = meter.reserve(&mut state, Time::from_nanos(now), cost, max_wait);
            if verdict.allowed {
                prop_assert!(verdict.wait <= max_wait);
                admitted.push((now + verdict.wait.as_nanos(), cost));
            }
        }
        admitted.sort_unstable();
        // The refill of one tick may be reserved completely, though the bucket could not hold it.
        let burst = shape.phase.map_or(shape.burst, |_| shape.burst + shape.rate);
        never_more_than_due(Shape { burst, ..shape }, &admitted, 1);
    }

    #[test]
    fn shaped_requests_start_at_the_rate(
        shape in greedy(),
        smooth in 1..5u64,
        requests in prop::collection::vec(0..60u64, 1..100),
    ) {
        let meter = shape.meter().smooth_after(smooth);
        let mut now = START;
        let mut state = meter.fresh(Time::from_nanos(now));
        let mut left = Vec::new();
        for after in requests {
            now += after;
            let verdict = meter.decide(&mut state, Time::from_nanos(now), 1);
            if verdict.allowed {
                left.push((now + verdict.wait.as_nanos(), 1));
            }
        }
        prop_assert!(left.is_sorted());
        never_more_than_due(Shape { burst: smooth.min(shape.burst), ..shape }, &left, 1);
    }

    #[test]
    fn laws_hold(shape in any_shape(), past in calls(30, 30, 500), cost in 0..30u64) {
        let meter = shape.meter();
        let (state, now) = laws::lived(&meter, Time::from_nanos(START), &past);
        laws::hold(&meter, &state, now, cost);
    }

    #[test]
    fn laws_hold_at_everyday_rates(
        rate in 1..100_000u64,
        period in prop::sample::select(vec![1_u64, 60, 3_600, 86_400, 2_629_746, 31_556_952]),
        burst in 1..100_000u64,
        past in calls(20, 100_000, 1 << 45),
        cost in 0..100_000u64,
    ) {
        // 1 a year and 100,000 at once is refused: no bucket may take 146 years to fill.
        let meter = Meter::new(rate.max(burst / 100), Span::from_secs(period), burst).unwrap();
        let (state, now) = laws::lived(&meter, Time::from_nanos(1_700_000_000_000_000_000), &past);
        laws::hold(&meter, &state, now, cost);
    }

    #[test]
    fn full_equals_absent(
        shape in any_shape(),
        past in calls(20, 30, 500),
        later in 0..1000u64,
        next in calls(20, 30, 500),
    ) {
        let meter = shape.meter();
        let (state, now) = laws::lived(&meter, Time::from_nanos(START), &past);
        let at = now.max(meter.full_at(&state)) + Span::from_nanos(later);
        laws::full_equals_absent(&meter, &state, at, &next);
    }

    #[test]
    fn order_is_irrelevant(
        shape in any_shape(),
        past in calls(20, 30, 500),
        costs in prop::collection::vec(0..50i64, 0..6),
    ) {
        let meter = shape.meter();
        let (state, now) = laws::lived(&meter, Time::from_nanos(START), &past);
        laws::order_is_irrelevant(&meter, &state, now, &costs);
    }

    #[test]
    fn paying_later_is_exact(
        shape in any_shape(),
        initial in 0..25u64,
        past in calls(20, 60, 500),
        cost in 0..1000u64,
    ) {
        let meter = shape.meter().initial(initial.min(shape.burst)).unwrap().pay_later();
        let (state, now) = laws::lived(&meter, Time::from_nanos(START), &past);
        laws::retry_is_exact(&meter, &state, now, cost);
        let due = meter.peek(&state, now).overdrawn;
        let mut waiting = state;
        let verdict = meter.reserve(&mut waiting, now, cost, due);
        prop_assert!(verdict.allowed && verdict.wait == due);
    }

    #[test]
    fn carrying_over_never_creates_tokens(
        (old, new) in (any_shape(), any_shape()),
        past in calls(20, 30, 500),
        how in prop::sample::select(vec![Carry::AsIs, Carry::Proportional, Carry::Additive]),
    ) {
        let (old_meter, new_meter) = (old.meter(), new.meter());
        let (state, now) = laws::lived(&old_meter, Time::from_nanos(START), &past);
        let carried = new_meter.carry(&old_meter, &state, now, how);
        let left = |meter: &Meter, state| {
            i128::from(meter.capacity()) - i128::from(meter.used(state, now))
        };
        let (before, after) = (left(&old_meter, &state), left(&new_meter, &carried));
        let expected = how.apply(before, old.burst, new.burst);
        match how {
            // A fraction of a token, absent from `before`, is a whole share of the new limit.
            Carry::Proportional if before >= 0 => {
                prop_assert!(after >= expected - 1);
                prop_assert!(after <= how.apply(before + 1, old.burst, new.burst));
            }
            _ => prop_assert!(after == expected || after == expected - 1),
        }
        let same = old_meter.carry(&old_meter, &state, now, how);
        prop_assert_eq!(old_meter.peek(&same, now), old_meter.peek(&state, now));
    }

    #[test]
    fn survives_extremes(
        numbers in (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()),
        shifts in (0..64u32, 0..64u32, 0..64u32),
        (phase, smooth, later) in (any::<Option<u64>>(), any::<Option<u64>>(), any::<bool>()),
        calls in prop::collection::vec((any::<u64>(), any::<u64>(), any::<i64>()), 1..8),
        stored in any::<(u64, u64)>(),
    ) {
        let (rate, period, burst, depth) = numbers;
        let (rate, burst) = (rate >> shifts.0, burst >> shifts.2);
        let period = Span::from_nanos(period >> shifts.1);
        let meters = [
            Meter::new(rate, period, burst),
            Meter::with_depth(rate, period, Span::from_nanos(depth >> shifts.2)),
        ];
        for mut meter in meters.into_iter().flatten() {
            if let Some(phase) = phase {
                meter = meter.refill(Refill::Interval { phase: Time::from_nanos(phase) });
            }
            if let Some(tokens) = smooth {
                meter = meter.smooth_after(tokens);
            }
            if later {
                meter = meter.pay_later();
            }
            let stored = MeterState::from_parts(stored.0, stored.1 % meter.scale());
            laws::survives(&meter, &calls);
            laws::survives_from(&meter, stored, &calls);
            let tiny = Meter::new(1 << 62, Span::from_nanos(1), 1).unwrap();
            let now = Time::from_nanos(calls[0].0);
            for how in [Carry::AsIs, Carry::Proportional, Carry::Additive, Carry::Reset] {
                for (new, old) in [(&tiny, &meter), (&meter, &tiny)] {
                    let mut state = old.fresh(now);
                    old.charge(&mut state, now, calls[0].2);
                    new.carry(old, &state, now, how);
                }
            }
        }
    }
}
