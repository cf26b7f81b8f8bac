//! The longer road: read the states, decide here, and write what became of them if nobody else has
//! meanwhile; otherwise once more. Two round trips, and more under contention, so it is for what is
//! rare: numbers beyond 2^53, a limit that was just changed, one counter named twice.

use tollgate::state::{self, formers};
use tollgate::{StoreError, Time};

use super::part::{Part, matters, too_late};
use super::reply::{Code, Reply};
use super::{Outcome, States, text};
use crate::script::Script;
use crate::words::Words;

/// After so many others were quicker, give up.
const ATTEMPTS: usize = 100;

impl Part<'_> {
    pub(super) async fn swap(&self) -> Result<Outcome, StoreError> {
        let keys = self.keys(true);
        let mut words = Words::default();
        self.times(&mut words);
        let mut reply = self.ask(Script::read(), &keys, &words).await?;
        for _ in 0..ATTEMPTS {
            let now = reply.now;
            let mut states = self.states(&reply);
            let verdicts = state::run(self.call, &mut states, now);
            let mut words = Words::default();
            self.times(&mut words);
            if !self.changes(&reply, &states, now, &mut words) {
                return Ok(Outcome { verdicts, states, now });
            }
            let answer = self.ask(Script::swap(), &keys, &words).await?;
            match answer.code {
                Code::Passes => return Ok(Outcome { verdicts, states, now }),
                Code::Late => return Err(too_late()),
                _ => reply = answer,
            }
        }
        Err(StoreError::new("too many others change the same counter: try again"))
    }

    /// Writes down what each key was and shall be; false if that is the same for all.
    fn changes(&self, reply: &Reply, states: &States, now: Time, words: &mut Words) -> bool {
        let checks = self.call.checks;
        let is_same = |a: usize, b: usize| {
            (checks[a].bucket, checks[a].key) == (checks[b].bucket, checks[b].key)
        };
        let mut changed = false;
        let mut put = |i: usize, shall_be: Option<Vec<u8>>, matters: u64| {
            let was = reply.texts.get(i).and_then(Option::as_deref);
            changed |= was != shall_be.as_deref();
            words.push(was.unwrap_or(b"-"));
            words.push(shall_be.as_deref().unwrap_or(b"-"));
            words.number(matters);
        };
        for (i, check) in checks.iter().enumerate() {
            // Of checks on the same counter the last one knows.
            let last = (i..checks.len()).rfind(|j| is_same(i, *j)).unwrap_or(i);
            let state = states[last].as_ref();
            let matters = state.map_or(0, |state| matters(state.full_at(check.limit), now));
            put(i, state.and_then(|state| text::written(state, check.limit)), matters);
        }
        // What was carried over is gone from where it was.
        let older = checks.iter().flat_map(formers).count();
        (checks.len()..checks.len() + older).for_each(|i| put(i, None, 0));
        changed
    }
}
