//! Compares the meter with a token bucket on big rational numbers.
//!
//! The model is the reverse of the meter: it counts tokens and stores the last refill, where the meter
//! stores the time at which everything will be refilled. It cannot overflow.

use num_bigint::BigInt;
use proptest::prelude::*;
use tollgate_core::{Algorithm, InvalidLimit, Meter, Refill, Retry, Span, Time};

use crate::cases;

/// A bucket whose tokens are counted in parts of `1 / period`.
struct Bucket {
    rate: BigInt,
    period: BigInt,
    full: BigInt,
    parts: BigInt,
    at: BigInt,
    phase: Option<BigInt>,
}

fn floor(a: &BigInt, b: &BigInt) -> BigInt {
    let (quotient, rest) = (a / b, a % b);
    if rest < BigInt::ZERO { quotient - 1 } else { quotient }
}

fn ceil(a: &BigInt, b: &BigInt) -> BigInt {
    -floor(&-a, b)
}

impl Bucket {
    fn ticks(&self, at: &BigInt) -> BigInt {
        floor(&(at - self.phase.as_ref().unwrap()), &self.period)
    }

    fn refill(&mut self, now: &BigInt) {
        if *now < self.at {
            return; // A clock that goes back refills nothing.
        }
        let gained = match self.phase {
            None => (now - &self.at) * &self.rate,
            Some(_) => (self.ticks(now) - self.ticks(&self.at)) * &self.rate * &self.period,
        };
        self.parts = (&self.parts + gained).min(self.full.clone());
        self.at = now.clone();
    }

    /// Returns how long until the bucket holds `parts`.
    fn wait(&self, parts: &BigInt) -> BigInt {
        let missing = parts - &self.parts;
        match &self.phase {
            _ if missing <= BigInt::ZERO => BigInt::ZERO,
            None => ceil(&missing, &self.rate),
            Some(phase) => {
                let ticks = ceil(&missing, &(&self.rate * &self.period));
                (self.ticks(&self.at) + ticks) * &self.period + phase - &self.at
            }
        }
    }

    fn remaining(&self) -> BigInt {
        floor(&self.parts, &self.period).max(BigInt::ZERO)
    }
}

fn number() -> impl Strategy<Value = u64> {
    let corners = vec![0, 1, 2, 3, (1 << 32) - 1, 1 << 53, 1 << 62, (1 << 63) - 1, u64::MAX];
    let any_size = (any::<u64>(), 0..64u32).prop_map(|(bits, shift)| bits >> shift);
    prop_oneof![2 => prop::sample::select(corners), 1 => any_size]
}

/// Generates numbers that mostly make valid limits.
fn workable() -> impl Strategy<Value = u64> {
    let modest = (any::<u64>(), 20..64u32).prop_map(|(bits, shift)| bits >> shift);
    prop_oneof![1 => number(), 3 => modest]
}

fn expected_refusal(rate: u64, period: u64, burst: u64) -> bool {
    const MOST: u64 = 1 << 62;
    let [zero, large] =
        [rate == 0 || period == 0 || burst == 0, rate.max(period).max(burst) > MOST];
    zero || large || BigInt::from(burst) * period > BigInt::from(MOST) * rate
}

proptest! {
    #![proptest_config(cases(2048))]

    #[test]
    fn every_decision_equals_the_model(
        (rate, period, burst) in (workable(), workable(), workable()),
        phase in prop::option::of(0..=u64::MAX / 2),
        start in prop_oneof![Just(0), 0..=u64::MAX / 2, Just(1_700_000_000_000_000_000)],
        requests in prop::collection::vec((number(), number(), 0..3u8), 1..20),
    ) {
        let built = Meter::new(rate, Span::from_nanos(period), burst);
        prop_assert_eq!(built.is_err(), expected_refusal(rate, period, burst), "{:?}", built);
        let Ok(mut meter) = built else { return Ok(()) };
        if let Some(phase) = phase {
            meter = meter.refill(Refill::Interval { phase: Time::from_nanos(phase) });
        }
        let full = BigInt::from(burst) * period;
        let mut model = Bucket {
            rate: rate.into(),
            period: period.into(),
            parts: full.clone(),
            full,
            at: start.into(),
            phase: phase.map(BigInt::from),
        };
        let mut now = Time::from_nanos(start);
        let mut state = meter.fresh(now);
        for (step, cost, kind) in requests {
            // Most steps are about as long as a refill, so that all verdicts occur.
            let step = if kind == 0 { step } else { step % (2 * meter.fill_time().as_nanos() + 2) };
            now = Time::from_nanos((now + Span::from_nanos(step)).as_nanos().min(u64::MAX / 2));
            let cost = if kind == 1 { cost % (burst + 2) } else { cost };
            model.refill(&now.as_nanos().into());
            let wanted = BigInt::from(cost) * period;
            let allowed = wanted <= model.parts;
            let retry = match allowed {
                true => BigInt::ZERO,
                false => model.wait(&wanted),
            };
            if allowed {
                model.parts -= &wanted;
            }
            let taken = meter.as_plain().map(|plain| plain.take(state, now, cost));
            let verdict = meter.decide(&mut state, now, cost);
            if let Some(taken) = taken {
                prop_assert_eq!(taken, if allowed { Ok(state) } else { Err(verdict.retry) });
            }
            prop_assert_eq!(verdict.allowed, allowed);
            prop_assert_eq!(verdict.limit, burst);
            prop_assert_eq!(BigInt::from(verdict.remaining), model.remaining());
            prop_assert_eq!(BigInt::from(verdict.reset_after.as_nanos()), model.wait(&model.full));
            match verdict.retry {
                Retry::Now => prop_assert!(allowed),
                Retry::Never => prop_assert!(cost > burst),
                Retry::After(span) => prop_assert_eq!(BigInt::from(span.as_nanos()), retry),
            }
        }
    }

    #[test]
    fn debt_and_refunds_equal_the_model(
        (rate, period, burst) in (1..1u64 << 40, 1..1u64 << 40, 1..1u64 << 40),
        requests in prop::collection::vec((0..1u64 << 50, -(1i64 << 42)..1i64 << 42), 1..20),
    ) {
        let built = Meter::new(rate, Span::from_nanos(period), burst);
        prop_assume!(built != Err(InvalidLimit::FillsTooSlowly));
        let meter = built.unwrap();
        prop_assume!(meter.fill_time() < Span::from_nanos(1 << 50));
        let full = BigInt::from(burst) * period;
        let mut model = Bucket {
            rate: rate.into(),
            period: period.into(),
            parts: full.clone(),
            full,
            at: BigInt::ZERO,
            phase: None,
        };
        let mut now = Time::EPOCH;
        let mut state = meter.fresh(now);
        for (step, cost) in requests {
            now = now + Span::from_nanos(step);
            model.refill(&now.as_nanos().into());
            model.parts = (&model.parts - BigInt::from(cost) * period).min(model.full.clone());
            meter.charge(&mut state, now, cost);
            prop_assume!(model.wait(&model.full) < BigInt::from(1u64 << 62));
            let judgement = meter.judge(&state, now);
            prop_assert_eq!(BigInt::from(judgement.remaining), model.remaining());
            prop_assert_eq!(BigInt::from(judgement.reset_after.as_nanos()), model.wait(&model.full));
            prop_assert_eq!(BigInt::from(judgement.overdrawn.as_nanos()), model.wait(&BigInt::ZERO));
            let left = floor(&model.parts, &model.period);
            prop_assert_eq!(BigInt::from(burst) - meter.used(&state, now), left);
        }
    }
}
