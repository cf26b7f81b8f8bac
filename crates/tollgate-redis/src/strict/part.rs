//! The checks of a call that share a place, decided there together.

use smallvec::SmallVec;
use tollgate::state::{self, formers};
use tollgate::{Action, Call, Check, Span, StoreError, StoreErrorKind};

use super::layout::{Layout, Slot};
use super::reply::{Code, Reply, in_micros};
use super::told::{Teller, Told, letter};
use super::{Outcome, States, Strict, names_one_twice, text};
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

    /// The hashes and fields of the checks.
    pub(super) fn layout(&self, with_formers: bool) -> Layout {
        Layout::new(&self.strict.prefix, self.call.checks, with_formers)
    }

    /// The time as the Lua takes it: the server's own, until the caller no longer waits.
    pub(super) fn times(&self, words: &mut Words) {
        let now = self.strict.clock.now();
        if self.strict.manual {
            return words.doubles(&[text::micros(now) as f64, 0.0]);
        }
        let latest = self.strict.latest_at(self.place, now);
        let deadline = latest.map(|latest| latest + Span::from(self.strict.fleet.timeout()));
        words.doubles(&[0.0, deadline.map_or(0, text::micros) as f64]);
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
        let layout = self.layout(false);
        let ours = self.strict.clock.now();
        let mut around = self.strict.latest_at(self.place, ours).unwrap_or(ours);
        let patience = Span::from(self.strict.fleet.timeout());
        for attempt in 0..ATTEMPTS {
            if attempt > 0 && self.strict.clock.now().since(ours) >= patience {
                break;
            }
            let mut words = Words::default();
            self.times(&mut words);
            words.push(letter(self.call.action).as_bytes());
            let mut families = 0;
            for slots in &layout.hashes {
                words.number(slots.len() as u64);
                for slot in slots {
                    words.field(slot.bucket);
                    let mut teller = Teller::new(&mut words, self.call.action, around);
                    match teller.tell(&self.call.checks[slot.check])? {
                        Told::Yes(more) => families |= more,
                        Told::TooLarge => return self.swap().await,
                    }
                }
            }
            let reply = self.ask(Script::run(families), &layout.keys, &words).await?;
            match reply.code {
                Code::Passes | Code::Refused => return self.worded(&layout, reply),
                Code::Beyond => return self.swap().await,
                Code::Stale => around = reply.now,
                Code::Late => {}
            }
        }
        Err(too_late())
    }

    async fn look(&self) -> Result<Outcome, StoreError> {
        let layout = self.layout(true);
        let reply = self.read(&layout).await?;
        let mut states = self.states(&layout, &reply);
        let verdicts = state::run(self.call, &mut states, reply.now);
        Ok(Outcome { verdicts, states, now: reply.now })
    }

    /// The states as they are.
    pub(super) async fn read(&self, layout: &Layout) -> Result<Reply, StoreError> {
        let mut words = Words::default();
        self.times(&mut words);
        for slots in &layout.hashes {
            words.number(slots.len() as u64);
            slots.iter().for_each(|slot| words.field(slot.bucket));
        }
        self.ask(Script::read(), &layout.keys, &words).await
    }

    /// The states of an answer, with what is to be carried over from the limits before.
    pub(super) fn states(&self, layout: &Layout, reply: &Reply) -> States {
        let text = |wanted: Slot| {
            let at = layout.slots().position(|slot| slot == wanted)?;
            reply.texts.get(at).and_then(Option::as_deref)
        };
        let state = |(check, of): (usize, &Check<'_>)| {
            let live = |state: &state::State| state::is_live(state, of.limit, reply.now);
            let own = text(Slot { check, ago: 0, bucket: of.bucket });
            let own = own.and_then(|text| text::read(text, of.limit)).filter(live);
            if own.is_some() || of.former.is_none() {
                return own;
            }
            let remembered = formers(of).zip(1..).map(|(former, ago)| {
                text::read(text(Slot { check, ago, bucket: former.bucket })?, &former.limit)
            });
            state::carried(of, remembered.collect(), reply.now)
        };
        self.call.checks.iter().enumerate().map(state).collect()
    }

    /// The verdicts on what the Lua has done.
    fn worded(&self, layout: &Layout, reply: Reply) -> Result<Outcome, StoreError> {
        let mut states = self.states(layout, &reply);
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
