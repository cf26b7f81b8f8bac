//! Random requests on a store and on the model, which must agree on every verdict.

use std::net::{IpAddr, Ipv4Addr};

use tollgate_core::Span;

use super::algorithms::RATES;
use super::model::Model;
use super::places::PLACES;
use super::subject::{Counter, Subject};
use super::{Harness, Named};
use crate::{Action, Call, Check, Key, Reserve};

const OTHERS: &[&str] = &[
    "unlimited",
    "4/day calendar",
    "4/month calendar zone Europe/Berlin anchor 31",
    "1000/{P} burst 30",
    "3/{P} leaky free 2 burst 4 pay_later",
    "30/{P} log",
    "30/{P} sliding",
];

/// Runs `steps` random requests, the same for the same `seed`, and compares every verdict with
/// the model's. The harness's clock must stand still between advances.
///
/// # Panics
///
/// If they disagree; the seed and the step are named.
pub async fn random_steps<H: Harness>(harness: &H, seed: u64, steps: u64) {
    let subject = Subject::new(harness).await;
    let texts = RATES.iter().chain(PLACES).map(|(text, _)| text).chain(OTHERS);
    let counters: Vec<Counter<'_, '_, H>> = texts.map(|text| subject.counter(text)).collect();
    let mut dice = Dice(seed);
    let mut model = Model::default();
    for step in 0..steps {
        let name = format!("random step {step} of seed {seed}");
        let named = Named(&name);
        subject.advance(dice.pause(&subject)).await;
        let action = dice.action(&subject);
        let checks: Vec<Check<'_>> =
            (0..1 + dice.below(3)).map(|_| dice.check(&subject, &counters, action)).collect();
        let should_be = model.run(Call { action, checks: &checks }, subject.now().await);
        let are = subject.run(action, &checks).await;
        let asked = checks.iter().map(|check| {
            let Check { key, limit, cost, lease, patience, reserve, .. } = check;
            format!(
                "\n  {cost} for {key:?} by {lease} within {patience} leaving {reserve:?} under {limit}"
            )
        });
        let asked = format!("{action:?} of {}\n  model: {should_be:?}", asked.collect::<String>());
        for (is, should_be) in are.into_iter().zip(should_be) {
            subject.same(&asked, is, should_be);
        }
        std::mem::forget(named);
    }
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }

    /// A pause between requests: none, the shortest there is, or some part of a period.
    fn pause<H: Harness>(&mut self, subject: &Subject<'_, H>) -> Span {
        let unit = subject.resolution().as_nanos();
        let period = subject.period().as_nanos() / unit;
        Span::from_nanos(unit).times(match self.below(10) {
            0..4 => 0,
            4 => 1,
            5 => self.below(10),
            6..8 => self.below(period / 5),
            8 => self.below(period * 2),
            _ => period / 60 * self.below(120),
        })
    }

    fn action<H: Harness>(&mut self, subject: &Subject<'_, H>) -> Action {
        match self.below(21) {
            0..9 => Action::Take { max_wait: Span::ZERO },
            9..12 => Action::Take { max_wait: subject.share(self.below(150), 60) },
            12 => Action::Peek,
            13 => Action::Try { max_wait: subject.share(self.below(150), 60) },
            14 => Action::Spend,
            15..17 => Action::Refund,
            17..19 => Action::Release { rtt: subject.share(1, 60), dropped: self.below(3) == 0 },
            19 => Action::Renew,
            _ => Action::Reset,
        }
    }

    fn check<'a, H: Harness>(
        &mut self,
        subject: &Subject<'_, H>,
        counters: &'a [Counter<'_, '_, H>],
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
        let new = subject.lease();
        // Those who come back are among those who came last, or nobody.
        let lease = match action {
            Action::Take { .. } => new,
            _ => new.saturating_sub(self.below(60)),
        };
        let patience = match self.below(4) {
            0 => subject.share(self.below(100), 60),
            _ => Span::MAX,
        };
        let reserve = match self.below(8) {
            0 => Reserve::Amount(self.below(counter.limit.capacity().clamp(1, 10))),
            1 => Reserve::Percent(self.below(110) as u8),
            2 => Reserve::Amount([0, 40, u64::MAX][self.below(3) as usize]),
            _ => Reserve::None,
        };
        let check = Check::new(counter.bucket, key, &counter.limit, cost);
        Check { lease, patience, reserve, ..check }
    }
}
