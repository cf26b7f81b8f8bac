//! Random requests, as the Lua is told of them, and what the engine makes of them.

use std::collections::HashMap;

use tollgate::state::{self, State};
use tollgate::{Action, Bucket, Call, Check, Limit, Reserve, Span, Time};
use tollgate_rig::Reply;

use crate::strict::layout::Layout;
use crate::strict::text;
use crate::strict::told::{Teller, Told, letter};
use crate::words::Words;

const KEYS: [&str; 3] = ["ann", "bob|eu", "cid"];

/// What is asked of which limit, for which key.
#[derive(Clone, Copy)]
struct Asked {
    limit: usize,
    key: usize,
    cost: u64,
    lease: u64,
    patience: Span,
    reserve: Reserve,
}

/// A request.
pub(super) struct Step {
    action: Action,
    now: Time,
    asked: Vec<Asked>,
    keys: Words,
    args: Words,
}

impl Step {
    /// Adds it to the words of a command.
    pub(super) fn put(&self, words: &mut Vec<Vec<u8>>) {
        words.push(self.keys.len().to_string().into());
        words.push(self.args.len().to_string().into());
        words.extend(self.keys.iter().chain(self.args.iter()).map(<[u8]>::to_vec));
    }
}

/// A sequence of requests that only the seed decides on, and the states they lead to.
pub(super) struct Sequence {
    limits: Vec<Limit>,
    pace_us: u64,
    dice: fastrand::Rng,
    now: Time,
    lease: u64,
    states: HashMap<(usize, usize), State>,
    pub(super) passed: usize,
    pub(super) refused: usize,
}

impl Sequence {
    pub(super) fn new(limits: &[&str], pace_us: u64, seed: u64) -> Sequence {
        Sequence {
            limits: limits.iter().map(|text| text.parse().unwrap()).collect(),
            pace_us,
            dice: fastrand::Rng::with_seed(seed),
            now: Time::from_nanos(1_767_268_800_000_000_000),
            lease: u64::MAX / 3,
            states: HashMap::new(),
            passed: 0,
            refused: 0,
        }
    }

    /// A request that can be put to the Lua.
    pub(super) fn next(&mut self) -> Step {
        loop {
            let pause = match self.dice.u8(..10) {
                0..4 => 0,
                4 => 1,
                5..9 => self.dice.u64(..self.pace_us * 2),
                _ => self.dice.u64(..self.pace_us * 40),
            };
            self.now = self.now + Span::from_micros(pause);
            let action = self.action();
            let asked = self.asked(action);
            if let Some(step) = self.told(action, asked) {
                return step;
            }
        }
    }

    fn action(&mut self) -> Action {
        let wait = Span::from_micros(self.dice.u64(..self.pace_us * 8));
        match self.dice.u8(..21) {
            0..9 => Action::Take { max_wait: Span::ZERO },
            9..12 => Action::Take { max_wait: wait },
            12 => Action::Take { max_wait: Span::MAX },
            13..15 => Action::Spend,
            15..17 => Action::Refund,
            17..19 => Action::Release { rtt: Span::ZERO, dropped: false },
            19 => Action::Renew,
            _ => Action::Reset,
        }
    }

    fn asked(&mut self, action: Action) -> Vec<Asked> {
        let mut asked: Vec<Asked> = Vec::new();
        for _ in 0..1 + self.dice.usize(..3) {
            let (limit, key) =
                (self.dice.usize(..self.limits.len()), self.dice.usize(..KEYS.len()));
            if asked.iter().any(|other| (other.limit, other.key) == (limit, key)) {
                continue;
            }
            let capacity = self.limits[limit].capacity();
            let cost = match self.dice.u8(..16) {
                0 => 0,
                1..8 => 1,
                8..14 => self.dice.u64(..capacity.min(8) + 1),
                14 => self.dice.u64(..capacity + 2),
                _ => [40, 1 << 33, u64::MAX][self.dice.usize(..3)],
            };
            self.lease += 1;
            let lease = match action {
                Action::Take { .. } if self.dice.u8(..9) > 0 => self.lease,
                _ => self.lease - self.dice.u64(..12),
            };
            let patience = match self.dice.u8(..4) {
                0 => Span::from_micros(self.dice.u64(..self.pace_us * 4)),
                _ => Span::MAX,
            };
            let reserve = match self.dice.u8(..8) {
                0 => Reserve::Amount(self.dice.u64(..capacity.min(8) + 1)),
                1 => Reserve::Percent(self.dice.u8(..110)),
                2 => Reserve::Amount([0, capacity / 2, u64::MAX][self.dice.usize(..3)]),
                _ => Reserve::None,
            };
            asked.push(Asked { limit, key, cost, lease, patience, reserve });
        }
        asked
    }

    fn checks(&self, asked: &[Asked]) -> Vec<Check<'_>> {
        let check = |asked: &Asked| {
            let Asked { limit, key, cost, lease, patience, reserve } = *asked;
            // The store knows whole microseconds.
            let patience = Span::from_nanos(patience.as_nanos() / 1_000 * 1_000);
            let check = Check::new(Bucket::new(limit as u64), KEYS[key], &self.limits[limit], cost);
            Check { lease, patience, reserve, ..check }
        };
        asked.iter().map(check).collect()
    }

    fn told(&self, action: Action, asked: Vec<Asked>) -> Option<Step> {
        let mut args = Words::default();
        args.doubles(&[text::micros(self.now) as f64, 0.0]);
        args.push(letter(action).as_bytes());
        let checks = self.checks(&asked);
        let layout = Layout::new("t", &checks, false);
        for slots in &layout.hashes {
            args.number(slots.len() as u64);
            for slot in slots {
                args.field(slot.bucket);
                let mut teller = Teller::new(&mut args, action, self.now);
                if teller.tell(&checks[slot.check]).unwrap() == Told::TooLarge {
                    return None;
                }
            }
        }
        // Answers come in the order of the layout.
        let order: Vec<usize> = layout.slots().map(|slot| slot.check).collect();
        let asked = order.into_iter().map(|i| asked[i]).collect();
        let keys = layout.keys;
        Some(Step { action, now: self.now, asked, keys, args })
    }

    /// Compares an answer with what the engine says, and moves on.
    pub(super) fn compare(&mut self, step: &Step, answer: &Reply) -> Result<(), String> {
        let checks = self.checks(&step.asked);
        let seats: Vec<(usize, usize)> = step.asked.iter().map(|it| (it.limit, it.key)).collect();
        let asked = |what: &str| {
            let checks = checks.iter().map(|check| {
                let Check { key, limit, cost, lease, patience, reserve, .. } = check;
                format!(
                    "\n  {cost} for {key:?} by {lease} within {patience} leaving {reserve:?} under {limit}"
                )
            });
            let checks = checks.collect::<String>();
            format!("{what}\n{:?} at {:?} of{checks}\n  answer {answer:?}", step.action, step.now)
        };
        let [_, code, texts @ ..] = answer.list() else { return Err(asked("no answer")) };
        let code = code.int().unwrap_or(-1);
        for (((seat, check), text), i) in seats.iter().zip(&checks).zip(texts).zip(0..) {
            let live = |state: State| {
                let live = state::is_live(&state, check.limit, step.now);
                live.then(|| without_expired(state, step.now))
            };
            let known = self.states.get(seat).cloned().and_then(live);
            let known = known.and_then(|state| text::written(&state, check.limit));
            let kept = match text {
                Reply::Bytes(text) => text::read(text, check.limit),
                _ => None,
            };
            let kept = kept.and_then(live).and_then(|state| text::written(&state, check.limit));
            if known != kept {
                let [known, kept] =
                    [known, kept].map(|t| t.map(|t| String::from_utf8_lossy(&t).into_owned()));
                return Err(asked(&format!("state {i}: engine {known:?}, Lua {kept:?}")));
            }
        }
        match code {
            // Lua has no numbers for it, and must not have touched anything.
            3 => return Ok(()),
            0 | 1 => {}
            _ => return Err(asked("a strange code")),
        }
        let mut states: Vec<Option<State>> =
            seats.iter().map(|seat| self.states.get(seat).cloned()).collect();
        let call = Call { action: step.action, checks: &checks };
        let verdicts = state::run(call, &mut states, step.now);
        let is_take = matches!(step.action, Action::Take { .. });
        let passes = !is_take || verdicts.iter().all(|verdict| verdict.allowed);
        if passes != (code == 1) {
            return Err(asked(&format!("engine {verdicts:?}")));
        }
        if is_take {
            *if passes { &mut self.passed } else { &mut self.refused } += 1;
        }
        for (seat, state) in seats.into_iter().zip(states) {
            match state {
                Some(state) => self.states.insert(seat, state),
                None => self.states.remove(&seat),
            };
        }
        Ok(())
    }
}

/// Whether leases that have run out are kept a while longer is nobody's business.
fn without_expired(state: State, now: Time) -> State {
    match state {
        State::Leases(leases) => {
            let left = leases.leases().filter(|lease| lease.expires > now);
            State::Leases(Box::new(left.collect()))
        }
        other => other,
    }
}
