//! Random requests on a store and on the reference model, which must return equal verdicts.

use std::net::{IpAddr, Ipv4Addr};

use tollgate_core::Span;

use super::algorithms::RATES;
use super::concurrency::CONCURRENCY_LIMITS;
use super::model::Model;
use super::store_under_test::{StoreUnderTest, TestCounter};
use super::{Harness, PanicReporter};
use crate::{Action, Check, Key, Reserve, StoreCall};

/// Limits beside the rates and concurrency limits of the cases.
const OTHER_LIMITS: &[&str] = &[
    "unlimited",
    "4/day calendar",
    "4/month calendar zone Europe/Berlin anchor 31",
    "1000/{P} burst 30",
    "3/{P} leaky free 2 burst 4 pay_later",
    "30/{P} log",
    "30/{P} sliding",
];

/// Runs `steps` random requests on a store and compares every verdict with a reference model.
///
/// A seed always gives the same requests. The clock of the harness must stand still between
/// advances.
///
/// # Panics
///
/// If a verdict differs; the message names the seed and the step.
pub async fn random_steps<H: Harness>(harness: &H, seed: u64, steps: u64) {
    let store = StoreUnderTest::new(harness).await;
    let texts = RATES.iter().chain(CONCURRENCY_LIMITS).map(|(text, _)| text).chain(OTHER_LIMITS);
    let counters: Vec<TestCounter<'_, '_, H>> = texts.map(|text| store.counter(text)).collect();
    let mut generator = RequestGenerator(seed);
    let mut model = Model::default();
    for step in 0..steps {
        let name = format!("random step {step} of seed {seed}");
        let reporter = PanicReporter(&name);
        store.advance(generator.pause(&store)).await;
        let action = generator.action(&store);
        let checks: Vec<Check<'_>> = (0..1 + generator.below(3))
            .map(|_| generator.check(&store, &counters, action))
            .collect();
        let expected = model.run(StoreCall { action, checks: &checks }, store.now().await);
        let verdicts = store.run(action, &checks).await;
        let described = checks.iter().map(|check| {
            let Check { key, limit, cost, lease, patience, reserve, .. } = check;
            format!(
                "\n  {cost} for {key:?} by {lease} within {patience} leaving {reserve:?} under {limit}"
            )
        });
        let call =
            format!("{action:?} of {}\n  model: {expected:?}", described.collect::<String>());
        for (actual, expected) in verdicts.into_iter().zip(expected) {
            store.assert_same_verdict(&call, actual, expected);
        }
        std::mem::forget(reporter);
    }
}

/// Generates random requests with SplitMix64.
struct RequestGenerator(u64);

impl RequestGenerator {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next_u64() % n
    }

    /// Returns a pause between requests: none, the shortest possible, or a part of a period.
    fn pause<H: Harness>(&mut self, store: &StoreUnderTest<'_, H>) -> Span {
        let unit = store.resolution().as_nanos();
        let period = store.period().as_nanos() / unit;
        Span::from_nanos(unit).times(match self.below(10) {
            0..4 => 0,
            4 => 1,
            5 => self.below(10),
            6..8 => self.below(period / 5),
            8 => self.below(period * 2),
            _ => period / 60 * self.below(120),
        })
    }

    fn action<H: Harness>(&mut self, store: &StoreUnderTest<'_, H>) -> Action {
        match self.below(21) {
            0..9 => Action::Take { max_wait: Span::ZERO },
            9..12 => Action::Take { max_wait: store.period_fraction(self.below(150), 60) },
            12 => Action::Peek,
            13 => Action::Try { max_wait: store.period_fraction(self.below(150), 60) },
            14 => Action::Spend,
            15..17 => Action::Refund,
            17..19 => {
                Action::Release { rtt: store.period_fraction(1, 60), dropped: self.below(3) == 0 }
            }
            19 => Action::Renew,
            _ => Action::Reset,
        }
    }

    fn check<'a, H: Harness>(
        &mut self,
        store: &StoreUnderTest<'_, H>,
        counters: &'a [TestCounter<'_, '_, H>],
        action: Action,
    ) -> Check<'a> {
        let counter = &counters[self.below(counters.len() as u64) as usize];
        let key: Key<'a> = match self.below(5) {
            0..3 => "ann".into(),
            3 => 7_u64.into(),
            _ => IpAddr::V4(Ipv4Addr::LOCALHOST).into(),
        };
        let cost = match self.below(16) {
            0 => 0,
            1..10 => 1,
            10..15 => self.below(8),
            _ => [40, 1 << 40, u64::MAX][self.below(3) as usize],
        };
        let new = store.lease();
        // Other actions use a recent lease, which may not exist.
        let lease = match action {
            Action::Take { .. } => new,
            _ => new.saturating_sub(self.below(60)),
        };
        let patience = match self.below(4) {
            0 => store.period_fraction(self.below(100), 60),
            _ => Span::MAX,
        };
        let reserve = match self.below(8) {
            0 => Reserve::Amount(self.below(counter.limit.capacity().clamp(1, 10))),
            1 => Reserve::Percent(self.below(110) as u8),
            2 => Reserve::Amount([0, 40, u64::MAX][self.below(3) as usize]),
            _ => Reserve::None,
        };
        let check = Check::new(counter.counter, key, &counter.limit, cost);
        Check { lease, patience, reserve, ..check }
    }
}
