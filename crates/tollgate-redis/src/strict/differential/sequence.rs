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
    /// The kinds of the checks, as the Lua gets them.
    kinds: Vec<u8>,
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

/// The expected content of a counter after a request.
struct ExpectedText {
    at: Time,
    /// The time of writing may be that of the request or, if nothing changed, an earlier one.
    allowed: Vec<Option<CanonicalText>>,
}

/// The text of a state without expired leases, and its time of writing.
type CanonicalText = (Vec<u8>, Option<Time>);

/// The course of time in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// Time goes on at random.
    Steady,
    /// Time also jumps to moments at which a counter changes, and the clock steps back.
    Stepping,
}

/// A sequence of requests that depends on the seed alone, and the states they lead to.
pub(super) struct Sequence {
    limits: Vec<Limit>,
    pace_us: u64,
    course: Course,
    dice: fastrand::Rng,
    now: Time,
    lease: u64,
    /// The texts that the Lua may have left in each counter.
    expected: HashMap<(usize, usize), ExpectedText>,
    /// The times at which counters of the last requests are full again, or a refused one passes; the
    /// first is the last.
    moments: Vec<(Time, (usize, usize))>,
    /// The counter of the next request.
    target: Option<(usize, usize)>,
    pub(super) passed: usize,
    pub(super) refused: usize,
}

impl Sequence {
    pub(super) fn new(limits: &[&str], pace_us: u64, course: Course, seed: u64) -> Sequence {
        Sequence {
            limits: limits.iter().map(|text| text.parse().unwrap()).collect(),
            pace_us,
            course,
            dice: fastrand::Rng::with_seed(seed),
            now: Time::from_nanos(1_767_268_800_000_000_000),
            lease: u64::MAX / 3,
            expected: HashMap::new(),
            moments: Vec::new(),
            target: None,
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
            if self.course == Course::Stepping {
                self.jump();
            }
            let action = self.action();
            let specs = self.specs(action);
            if let Some(step) = self.encode(action, specs) {
                return step;
            }
        }
    }

    /// Jumps to a moment at which a counter changes or to the microsecond before, or steps back.
    fn jump(&mut self) {
        if self.dice.u8(..3) == 0
            && let Some((moment, counter)) = self.moments.pop()
            && moment.since(self.now) < Span::from_micros(self.pace_us * 40)
        {
            (self.now, self.target) = (self.now.max(moment), Some(counter));
        }
        if self.dice.u8(..100) == 0 {
            // By a little, or by many windows.
            let most = self.pace_us * [3, 30, 3_000][self.dice.usize(..3)];
            self.now = self.now - Span::from_micros(self.dice.u64(..most));
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
            let (limit, key) = match self.target.take() {
                Some(target) => target,
                None => (self.dice.usize(..self.limits.len()), self.dice.usize(..KEYS.len())),
            };
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
        let mut kinds = Vec::new();
        for fields in &layout.hashes {
            args.number(fields.len() as u64);
            for field in fields {
                args.field(field.counter);
                let at = args.len();
                let mut encoder = CheckEncoder::new(&mut args, action, self.now);
                if encoder.encode(&checks[field.check]).unwrap() == CheckEncoding::TooLarge {
                    return None;
                }
                kinds.extend(args.iter().nth(at).and_then(|kind| kind.first()));
            }
        }
        // Replies come in the order of the layout.
        let order: Vec<usize> = layout.fields().map(|field| field.check).collect();
        let specs = order.into_iter().map(|i| specs[i]).collect();
        let keys = layout.keys;
        Some(Step { action, now: self.now, specs, kinds, keys, args })
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
        let texts: Vec<Option<&[u8]>> = texts.iter().map(bytes).collect();
        for (((counter, check), text), i) in counters.iter().zip(&checks).zip(&texts).zip(0..) {
            let Some(expected) = self.expected.get(counter) else { continue };
            let stored = text.and_then(|text| canonical(text, check.limit, expected.at));
            if !expected.allowed.contains(&stored) {
                let of = |text: &Option<CanonicalText>| {
                    text.as_ref()
                        .map(|(text, at)| format!("{} {at:?}", String::from_utf8_lossy(text)))
                };
                let known: Vec<_> = expected.allowed.iter().map(of).collect();
                return Err(failure(&format!("state {i}: Rust {known:?}, Lua {:?}", of(&stored))));
            }
        }
        let unchanged = |(check, text): (&Check<'_>, &Option<&[u8]>)| {
            text.and_then(|text| canonical(text, check.limit, step.now))
        };
        let unchanged: Vec<Option<CanonicalText>> =
            checks.iter().zip(&texts).map(unchanged).collect();
        match code {
            // Lua cannot represent the numbers, and must not have changed anything.
            3 => {
                for (counter, text) in counters.into_iter().zip(unchanged) {
                    let expected = ExpectedText { at: step.now, allowed: vec![text] };
                    self.expected.insert(counter, expected);
                }
                return Ok(());
            }
            0 | 1 => {}
            _ => return Err(failure("an unknown code")),
        }
        let decode = |(check, text): (&Check<'_>, &Option<&[u8]>)| {
            text.and_then(|text| state_text::decode(text, check.limit, step.now))
        };
        let mut states: Vec<Option<State>> = checks.iter().zip(&texts).map(decode).collect();
        let call = StoreCall { action: step.action, checks: &checks };
        let verdicts = state::run(call, &mut states, step.now);
        let is_take = matches!(step.action, Action::Take { .. });
        let passes = !is_take || verdicts.iter().all(|verdict| verdict.allowed);
        if passes != (code == 1) {
            return Err(failure(&format!("Rust {verdicts:?}")));
        }
        let mut moments = Vec::new();
        for ((check, state), (verdict, counter)) in
            checks.iter().zip(&states).zip(verdicts.iter().zip(&counters))
        {
            let retry = verdict.retry_after().map(|span| step.now + span);
            let full = state.as_ref().map(|state| state.full_at(check.limit));
            for moment in retry.into_iter().chain(full) {
                let before = Time::from_nanos(moment.as_nanos() / 1_000 * 1_000);
                moments.extend([before, before + Span::from_micros(1)].map(|at| (at, *counter)));
            }
        }
        moments.sort_unstable_by(|one, other| other.cmp(one));
        let mut expected = Vec::new();
        for (i, (check, state)) in checks.iter().zip(&states).enumerate() {
            let written = state.as_ref().and_then(|s| state_text::encode(s, check.limit, step.now));
            let written = written.and_then(|text| canonical(&text, check.limit, step.now));
            let is_same = written.as_ref().map(|w| &w.0) == unchanged[i].as_ref().map(|w| &w.0);
            let stepped =
                texts[i].is_some_and(|t| state_text::is_stepped(t, check.limit, step.now));
            // Some kinds only read their state, and leave it as it was before a step of the clock.
            let kept = (is_same && !stepped || b"nx".contains(&step.kinds[i]))
                .then(|| unchanged[i].clone());
            let mut allowed = vec![written];
            allowed.extend(kept);
            expected.push(ExpectedText { at: step.now, allowed });
        }
        if is_take {
            *if passes { &mut self.passed } else { &mut self.refused } += 1;
        }
        self.moments = moments;
        self.expected.extend(counters.into_iter().zip(expected));
        Ok(())
    }
}

fn bytes(reply: &Reply) -> Option<&[u8]> {
    match reply {
        Reply::Bytes(text) => Some(text),
        _ => None,
    }
}

/// Returns a text with its time of writing apart; `None` if it is as good as none at `now`.
fn canonical(text: &[u8], limit: &Limit, now: Time) -> Option<CanonicalText> {
    let (state, written) = state_text::decode_written(text, limit)?;
    let state = without_expired(Some(state).filter(|s| state::is_live(s, limit, now))?, now);
    let canonical = match (&state, text) {
        // The parts of a microsecond must be fewer than a whole one: compare what the Lua wrote.
        (State::Meter(_), [us @ .., _, _, _, _, _, _, _, _]) if text.len() == 24 => {
            us.strip_suffix(&[0; 8]).unwrap_or(us).to_vec()
        }
        (State::Meter(_), text) => text.to_vec(),
        _ => state_text::encode(&state, limit, Time::MAX)?,
    };
    Some((canonical, written))
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
