//! The checks of a call that share a place, decided there together.

use smallvec::SmallVec;
use tollgate::state::{self, formers};
use tollgate::{Action, Call, Check, Span, StoreError, StoreErrorKind, Time};

use super::reply::{Code, Reply, in_micros};
use super::told::{Teller, Told, letter};
use super::{Outcome, States, Strict, key, names_one_twice, text};
use crate::fleet::Place;
use crate::script::Script;
use crate::words::Words;

/// How often a question is put anew because it was not understood the first time.
const ATTEMPTS: usize = 4;

/// Checks that share a place.
pub(super) struct Part<'a> {
    pub(super) strict: &'a Strict,
    pub(super) place: Place,
    pub(super) call: Call<'a>,
}

impl<'a> Part<'a> {
    pub(super) async fn run(&self) -> Result<Outcome, StoreError> {
        let call = self.call;
        let checks: SmallVec<[Check<'a>; 4]> = call.checks.iter().map(in_whole_micros).collect();
        let action = match call.action {
            Action::Take { max_wait } => Action::Take { max_wait: floor(max_wait) },
            Action::Try { max_wait } => Action::Try { max_wait: floor(max_wait) },
            other => other,
        };
        let part =
            Part { strict: self.strict, place: self.place, call: Call { action, checks: &checks } };
        let mut outcome = match action {
            Action::Try { .. } | Action::Peek => part.look().await,
            _ if names_one_twice(&checks) => part.swap().await,
            _ => part.decide().await,
        }?;
        outcome.verdicts.iter_mut().for_each(|verdict| *verdict = in_micros(*verdict));
        Ok(outcome)
    }

    /// The keys of the checks, and after them those of the limits before theirs.
    pub(super) fn keys(&self, with_formers: bool) -> Words {
        let mut keys = Words::default();
        let prefix = &self.strict.prefix;
        for check in self.call.checks {
            keys.write(|out| key::write(prefix, check.bucket, check.key, out));
        }
        if with_formers {
            for check in self.call.checks {
                for former in formers(check) {
                    keys.write(|out| key::write(prefix, former.bucket, check.key, out));
                }
            }
        }
        keys
    }

    /// The time as the Lua takes it: the server's own, until the caller no longer waits.
    pub(super) fn times(&self, words: &mut Words) {
        let now = self.strict.clock.now();
        if self.strict.manual {
            words.number(text::micros(now));
            words.number(0);
            return;
        }
        words.number(0);
        let latest = self.strict.fleet.clock(self.place).latest(now);
        let deadline = latest.map(|latest| latest + Span::from(self.strict.fleet.timeout()));
        words.number(deadline.map_or(0, text::micros));
    }

    /// Asks, and learns from the answer what time it is there.
    pub(super) async fn ask(
        &self,
        script: &'static Script,
        keys: &Words,
        words: &Words,
    ) -> Result<Reply, StoreError> {
        let sent = self.strict.clock.now();
        let value = self.strict.fleet.run(self.place, script, keys, words).await?;
        let reply = Reply::read(value)?;
        let received = self.strict.clock.now();
        if !self.strict.manual {
            self.strict.fleet.clock(self.place).observe(sent, reply.now, received);
        }
        Ok(reply)
    }

    async fn decide(&self) -> Result<Outcome, StoreError> {
        let keys = self.keys(false);
        let ours = self.strict.clock.now();
        let mut around = match self.strict.manual {
            true => ours,
            false => self.strict.fleet.clock(self.place).latest(ours).unwrap_or(ours),
        };
        let patience = Span::from(self.strict.fleet.timeout());
        for attempt in 0..ATTEMPTS {
            if attempt > 0 && self.strict.clock.now().since(ours) >= patience {
                break;
            }
            let mut words = Words::default();
            self.times(&mut words);
            words.push(letter(self.call.action).as_bytes());
            let mut families = 0;
            let mut teller = Teller { words: &mut words, action: self.call.action, around };
            for check in self.call.checks {
                match teller.tell(check)? {
                    Told::Yes(more) => families |= more,
                    Told::TooLarge => return self.swap().await,
                }
            }
            let reply = self.ask(Script::run(families), &keys, &words).await?;
            match reply.code {
                Code::Passes | Code::Refused => return self.worded(reply),
                Code::Beyond => return self.swap().await,
                Code::Stale => around = reply.now,
                Code::Late => {}
            }
        }
        Err(too_late())
    }

    async fn look(&self) -> Result<Outcome, StoreError> {
        let mut words = Words::default();
        self.times(&mut words);
        let reply = self.ask(Script::read(), &self.keys(true), &words).await?;
        let mut states = self.states(&reply);
        let verdicts = state::run(self.call, &mut states, reply.now);
        Ok(Outcome { verdicts, states, now: reply.now })
    }

    /// The states of an answer, with what is to be carried over from the limits before.
    pub(super) fn states(&self, reply: &Reply) -> States {
        let checks = self.call.checks;
        let text = |i: usize| reply.texts.get(i).and_then(Option::as_deref);
        let mut older = checks.len();
        let states = checks.iter().enumerate().map(|(i, check)| {
            let live = |state: &state::State| state::is_live(state, check.limit, reply.now);
            let state = text(i).and_then(|text| text::read(text, check.limit)).filter(live);
            let before = older;
            older += formers(check).count();
            if state.is_some() || reply.texts.len() <= before {
                return state;
            }
            let remembered = formers(check).zip(before..);
            let remembered = remembered.map(|(former, i)| text::read(text(i)?, &former.limit));
            state::carried(check, remembered.collect(), reply.now)
        });
        states.collect()
    }

    /// The verdicts on what the Lua has done.
    fn worded(&self, reply: Reply) -> Result<Outcome, StoreError> {
        let mut states = self.states(&reply);
        let verdicts = state::run(self.call, &mut states, reply.now);
        let passes = verdicts.iter().all(|verdict| verdict.allowed);
        let is_take = matches!(self.call.action, Action::Take { .. });
        if is_take && passes != (reply.code == Code::Passes) {
            return Err(StoreError::new(
                "the script at the store and this program decide differently: please report it",
            ));
        }
        Ok(Outcome { verdicts, states, now: reply.now })
    }
}

pub(super) fn too_late() -> StoreError {
    StoreError::new("Redis came to it only after its time was over, and did nothing")
        .of(StoreErrorKind::TimedOut)
}

fn floor(span: Span) -> Span {
    Span::from_nanos(span.as_nanos() / 1_000 * 1_000)
}

fn in_whole_micros<'a>(check: &Check<'a>) -> Check<'a> {
    Check { patience: floor(check.patience), ..*check }
}

/// How long a state matters, in microseconds.
pub(super) fn matters(full_at: Time, now: Time) -> u64 {
    full_at.since(now).as_micros_ceil()
}
