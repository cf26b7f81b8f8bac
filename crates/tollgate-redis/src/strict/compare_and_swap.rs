//! The slow path: reads the states, decides here, and writes the new states. If a state has changed
//! meanwhile, it tries again.
//!
//! This takes two round trips, and more under contention, so it serves only rare cases: numbers
//! beyond 2^53, a limit that has just been changed, a counter that a call names twice.

use tollgate::StoreError;
use tollgate::state;

use super::hash_layout::HashLayout;
use super::lua_reply::{LuaCode, LuaReply};
use super::routed_call::{RoutedCall, too_late};
use super::{Outcome, States, state_text};
use crate::arguments::Arguments;
use crate::function::ServerFunction;

/// The number of lost races after which a call fails.
const ATTEMPTS: usize = 100;

impl RoutedCall<'_> {
    pub(super) async fn swap(&self) -> Result<Outcome, StoreError> {
        let layout = self.layout(true);
        let mut reply = self.read_states(&layout).await?;
        for _ in 0..ATTEMPTS {
            let now = reply.now;
            let mut states = self.states(&layout, &reply);
            let verdicts = state::run(self.call, &mut states, now);
            let mut args = Arguments::default();
            self.times(&mut args);
            if !self.write_changes(&layout, &reply, &states, &mut args) {
                return Ok(Outcome { verdicts, states, now });
            }
            let answer = self.call_function(ServerFunction::swap(), &layout.keys, &args).await?;
            match answer.code {
                LuaCode::Passes => return Ok(Outcome { verdicts, states, now }),
                LuaCode::Late => return Err(too_late()),
                _ => reply = answer,
            }
        }
        Err(StoreError::new("too many nodes change the same counter at the same time: try again"))
    }

    /// Appends the old and the new text of each field; returns whether any of them differ.
    fn write_changes(
        &self,
        layout: &HashLayout,
        reply: &LuaReply,
        states: &States,
        args: &mut Arguments,
    ) -> bool {
        let checks = self.call.checks;
        let mut changed = false;
        let mut texts = reply.texts.iter();
        for fields in &layout.hashes {
            args.number(fields.len() as u64);
            for field in fields {
                let check = &checks[field.check];
                // The last check on a counter has its final state. A state that was carried over is
                // removed from the previous counter.
                let last = checks.iter().rposition(|other| other.is_same_counter(check));
                let state = last.filter(|_| field.ago == 0).and_then(|last| states[last].as_ref());
                let old_text = texts.next().and_then(Option::as_deref);
                let new_text = state.and_then(|state| {
                    state_text::encode_after(old_text, state, check.into(), reply.now)
                });
                let full_at = state.map_or(reply.now, |state| state.full_at(check.limit));
                changed |= old_text != new_text.as_deref();
                args.field(field.counter);
                args.push(old_text.unwrap_or(b"-"));
                args.push(new_text.as_deref().unwrap_or(b"-"));
                args.number(full_at.since(reply.now).as_micros_ceil());
            }
        }
        changed
    }
}
