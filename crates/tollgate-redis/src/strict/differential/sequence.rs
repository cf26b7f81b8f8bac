//! Random requests, encoded for the Lua, and their outcome in Rust.

use std::collections::HashMap;

use tollgate::state::{self, State};
use tollgate::{Action, Check, CounterId, Limit, Reserve, Span, StoreCall, Time};
use tollgate_rig::Reply;

use crate::arguments::Arguments;
use crate::strict::check_encoder::{CheckEncoder, CheckEncoding, action_letter};
use crate::strict::hash_layout::HashLayout;
use crate::strict::state_text;

const KEYS: [&str; 3] = ["ann", "bob|eu", "cid"];

/// The random values of a check.
#[derive(Clone, Copy)]
struct CheckSpec {
    limit: usize,
    key: usize,
    cost: u64,
    lease: u64,
    patience: Span,
    reserve: Reserve,
}

/// A random request with its encoded arguments.
pub(super) struct Step {
    action: Action,
    now: Time,
    specs: Vec<CheckSpec>,
    keys: Arguments,
    args: Arguments,
}

impl Step {
    /// Appends the request to the arguments of a command.
    pub(super) fn put(&self, command: &mut Vec<Vec<u8>>) {
        command.push(self.keys.len().to_string().into());
        command.push(self.args.len().to_string().into());
        command.extend(self.keys.iter().chain(self.args.iter()).map(<[u8]>::to_vec));
    }
}

/// A sequence of requests that depends on the seed alone, and the states they lead to.
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

    /// Returns the next request that the Lua can represent.
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
            let specs = self.specs(action);
            if let Some(step) = self.encode(action, specs) {
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

    fn specs(&mut self, action: Action) -> Vec<CheckSpec> {
        let mut specs: Vec<CheckSpec> = Vec::new();
        for _ in 0..1 + self.dice.usize(..3) {
            let (limit, key) =
                (self.dice.usize(..self.limits.len()), self.dice.usize(..KEYS.len()));
            if specs.iter().any(|other| (other.limit, other.key) == (limit, key)) {
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
            specs.push(CheckSpec { limit, key, cost, lease, patience, reserve });
        }
        specs
    }

    fn checks(&self, specs: &[CheckSpec]) -> Vec<Check<'_>> {
        let check = |specs: &CheckSpec| {
            let CheckSpec { limit, key, cost, lease, patience, reserve } = *specs;
            // The store counts whole microseconds.
            let patience = Span::from_nanos(patience.as_nanos() / 1_000 * 1_000);
            let check =
                Check::new(CounterId::new(limit as u64), KEYS[key], &self.limits[limit], cost);
            Check { lease, patience, reserve, ..check }
        };
        specs.iter().map(check).collect()
    }

    fn encode(&self, action: Action, specs: Vec<CheckSpec>) -> Option<Step> {
        let mut args = Arguments::default();
        args.doubles(&[state_text::micros(self.now) as f64, 0.0]);
        args.push(action_letter(action).as_bytes());
        let checks = self.checks(&specs);
        let layout = HashLayout::new("t", &checks, false);
        for fields in &layout.hashes {
            args.number(fields.len() as u64);
            for field in fields {
                args.field(field.counter);
                let mut encoder = CheckEncoder::new(&mut args, action, self.now);
                if encoder.encode(&checks[field.check]).unwrap() == CheckEncoding::TooLarge {
                    return None;
                }
            }
        }
        // Replies come in the order of the layout.
        let order: Vec<usize> = layout.fields().map(|field| field.check).collect();
        let specs = order.into_iter().map(|i| specs[i]).collect();
        let keys = layout.keys;
        Some(Step { action, now: self.now, specs, keys, args })
    }

    /// Compares a reply with the outcome in Rust, and applies the request to the states.
    pub(super) fn compare(&mut self, step: &Step, answer: &Reply) -> Result<(), String> {
        let checks = self.checks(&step.specs);
        let counters: Vec<(usize, usize)> =
            step.specs.iter().map(|it| (it.limit, it.key)).collect();
        let failure = |what: &str| {
            let checks = checks.iter().map(|check| {
                let Check { key, limit, cost, lease, patience, reserve, .. } = check;
                format!(
                    "\n  {cost} for {key:?} by {lease} within {patience} leaving {reserve:?} under {limit}"
                )
            });
            let checks = checks.collect::<String>();
            format!("{what}\n{:?} at {:?} of{checks}\n  answer {answer:?}", step.action, step.now)
        };
        let [_, code, texts @ ..] = answer.list() else { return Err(failure("no answer")) };
        let code = code.int().unwrap_or(-1);
        for (((counter, check), text), i) in counters.iter().zip(&checks).zip(texts).zip(0..) {
            let live = |state: State| {
                let live = state::is_live(&state, check.limit, step.now);
                live.then(|| without_expired(state, step.now))
            };
            let known = self.states.get(counter).cloned().and_then(live);
            let known = known.and_then(|state| state_text::encode(&state, check.limit));
            let stored = match text {
                Reply::Bytes(text) => state_text::decode(text, check.limit),
                _ => None,
            };
            let stored =
                stored.and_then(live).and_then(|state| state_text::encode(&state, check.limit));
            if known != stored {
                let [known, stored] =
                    [known, stored].map(|t| t.map(|t| String::from_utf8_lossy(&t).into_owned()));
                return Err(failure(&format!("state {i}: Rust {known:?}, Lua {stored:?}")));
            }
        }
        match code {
            // Lua cannot represent the numbers, and must not have changed anything.
            3 => return Ok(()),
            0 | 1 => {}
            _ => return Err(failure("an unknown code")),
        }
        let mut states: Vec<Option<State>> =
            counters.iter().map(|counter| self.states.get(counter).cloned()).collect();
        let call = StoreCall { action: step.action, checks: &checks };
        let verdicts = state::run(call, &mut states, step.now);
        let is_take = matches!(step.action, Action::Take { .. });
        let passes = !is_take || verdicts.iter().all(|verdict| verdict.allowed);
        if passes != (code == 1) {
            return Err(failure(&format!("Rust {verdicts:?}")));
        }
        if is_take {
            *if passes { &mut self.passed } else { &mut self.refused } += 1;
        }
        for (counter, state) in counters.into_iter().zip(states) {
            match state {
                Some(state) => self.states.insert(counter, state),
                None => self.states.remove(&counter),
            };
        }
        Ok(())
    }
}

/// Removes expired leases, which the two sides may drop at different times.
fn without_expired(state: State, now: Time) -> State {
    match state {
        State::Leases(leases) => {
            let left = leases.leases().filter(|lease| lease.expires > now);
            State::Leases(Box::new(left.collect()))
        }
        other => other,
    }
}
