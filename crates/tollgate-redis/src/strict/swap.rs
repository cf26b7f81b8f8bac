//! The longer road: read the states, decide here, and write what became of them if nobody else has
//! meanwhile; otherwise once more. Two round trips, and more under contention, so it is for what is
//! rare: numbers beyond 2^53, a limit that was just changed, one counter named twice.

use tollgate::StoreError;
use tollgate::state;

use super::layout::Layout;
use super::part::{Part, too_late};
use super::reply::{Code, Reply};
use super::{Outcome, States, text};
use crate::script::Script;
use crate::words::Words;

/// After so many others were quicker, give up.
const ATTEMPTS: usize = 100;

impl Part<'_> {
    pub(super) async fn swap(&self) -> Result<Outcome, StoreError> {
        let layout = self.layout(true);
        let mut reply = self.read(&layout).await?;
        for _ in 0..ATTEMPTS {
            let now = reply.now;
            let mut states = self.states(&layout, &reply);
            let verdicts = state::run(self.call, &mut states, now);
            let mut words = Words::default();
            self.times(&mut words);
            if !self.changes(&layout, &reply, &states, &mut words) {
                return Ok(Outcome { verdicts, states, now });
            }
            let answer = self.ask(Script::swap(), &layout.keys, &words).await?;
            match answer.code {
                Code::Passes => return Ok(Outcome { verdicts, states, now }),
                Code::Late => return Err(too_late()),
                _ => reply = answer,
            }
        }
        Err(StoreError::new("too many others change the same counter: try again"))
    }

    /// Writes down what each field was and shall be; false if that is the same for all.
    fn changes(&self, layout: &Layout, reply: &Reply, states: &States, words: &mut Words) -> bool {
        let checks = self.call.checks;
        let mut changed = false;
        let mut texts = reply.texts.iter();
        for slots in &layout.hashes {
            words.number(slots.len() as u64);
            for slot in slots {
                let check = &checks[slot.check];
                // Of checks on the same counter the last one knows; what was carried over is gone
                // from where it was.
                let last = checks.iter().rposition(|other| other.is_about_the_same_as(check));
                let state = last.filter(|_| slot.ago == 0).and_then(|last| states[last].as_ref());
                let was = texts.next().and_then(Option::as_deref);
                let shall_be = state.and_then(|state| text::written(state, check.limit));
                let full_at = state.map_or(reply.now, |state| state.full_at(check.limit));
                changed |= was != shall_be.as_deref();
                words.field(slot.bucket);
                words.push(was.unwrap_or(b"-"));
                words.push(shall_be.as_deref().unwrap_or(b"-"));
                words.number(full_at.since(reply.now).as_micros_ceil());
            }
        }
        changed
    }
}
