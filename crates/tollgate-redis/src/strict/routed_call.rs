//! The checks of a call that share a route, decided there together.

use smallvec::SmallVec;
use tollgate::state::{self, previous_limits};
use tollgate::{Action, Check, Span, StoreCall, StoreError, StoreErrorKind};

use super::check_encoder::{CheckEncoder, CheckEncoding, action_letter};
use super::hash_layout::{HashField, HashLayout};
use super::lua_reply::{LuaCode, LuaReply, in_micros};
use super::{Outcome, States, StrictStore, names_a_counter_twice, state_text};
use crate::arguments::Arguments;
use crate::client::Route;
use crate::function::ServerFunction;

/// The number of attempts when the deadline or a calendar period was out of date.
const ATTEMPTS: usize = 4;

/// The checks of a call that share a route.
pub(super) struct RoutedCall<'a> {
    pub(super) strict: &'a StrictStore,
    pub(super) route: Route,
    pub(super) call: StoreCall<'a>,
}

impl<'a> RoutedCall<'a> {
    pub(super) async fn run(&self) -> Result<Outcome, StoreError> {
        let call = self.call;
        let checks: SmallVec<[Check<'a>; 4]> = call.checks.iter().map(in_whole_micros).collect();
        let action = match call.action {
            Action::Take { max_wait } => Action::Take { max_wait: floor(max_wait) },
            Action::Try { max_wait } => Action::Try { max_wait: floor(max_wait) },
            other => other,
        };
        let part = RoutedCall {
            strict: self.strict,
            route: self.route,
            call: StoreCall { action, checks: &checks },
        };
        let mut outcome = match action {
            Action::Try { .. } | Action::Peek => part.peek().await,
            _ if names_a_counter_twice(&checks) => part.swap().await,
            _ => part.decide().await,
        }?;
        outcome.verdicts.iter_mut().for_each(|verdict| *verdict = in_micros(*verdict));
        Ok(outcome)
    }

    /// Returns the hashes and fields of the checks.
    pub(super) fn layout(&self, with_previous: bool) -> HashLayout {
        HashLayout::new(&self.strict.prefix, self.call.checks, with_previous)
    }

    /// Appends the time and the deadline: 0 stands for the server's own time, and for no deadline.
    pub(super) fn times(&self, args: &mut Arguments) {
        let now = self.strict.clock.now();
        if self.strict.manual {
            return args.doubles(&[state_text::micros(now) as f64, 0.0]);
        }
        let latest = self.strict.latest_at(self.route, now);
        let deadline = latest.map(|latest| latest + Span::from(self.strict.client.timeout()));
        args.doubles(&[0.0, deadline.map_or(0, state_text::micros) as f64]);
    }

    /// Calls a function, and adjusts the estimate of the server's clock to its reply.
    pub(super) async fn call_function(
        &self,
        script: &'static ServerFunction,
        keys: &Arguments,
        args: &Arguments,
    ) -> Result<LuaReply, StoreError> {
        let sent = self.strict.clock.now();
        let value = self.strict.client.run(self.route, script, keys, args).await?;
        let reply = LuaReply::read(value)?;
        let received = self.strict.clock.now();
        if !self.strict.manual {
            self.strict.client.clock(self.route).observe(sent, reply.now, received);
        }
        Ok(reply)
    }

    async fn decide(&self) -> Result<Outcome, StoreError> {
        let layout = self.layout(false);
        let ours = self.strict.clock.now();
        let mut server_time = self.strict.latest_at(self.route, ours).unwrap_or(ours);
        let patience = Span::from(self.strict.client.timeout());
        for attempt in 0..ATTEMPTS {
            if attempt > 0 && self.strict.clock.now().since(ours) >= patience {
                break;
            }
            let mut args = Arguments::default();
            self.times(&mut args);
            args.push(action_letter(self.call.action).as_bytes());
            let mut families = 0;
            for fields in &layout.hashes {
                args.number(fields.len() as u64);
                for field in fields {
                    args.field(field.counter);
                    let mut encoder = CheckEncoder::new(&mut args, self.call.action, server_time);
                    match encoder.encode(&self.call.checks[field.check])? {
                        CheckEncoding::Encoded(more) => families |= more,
                        CheckEncoding::TooLarge => return self.swap().await,
                    }
                }
            }
            let reply =
                self.call_function(ServerFunction::run(families), &layout.keys, &args).await?;
            match reply.code {
                LuaCode::Passes | LuaCode::Refused => return self.outcome_of(&layout, reply),
                LuaCode::Beyond => return self.swap().await,
                LuaCode::Stale => server_time = reply.now,
                LuaCode::Late => {}
            }
        }
        Err(too_late())
    }

    async fn peek(&self) -> Result<Outcome, StoreError> {
        let layout = self.layout(true);
        let reply = self.read_states(&layout).await?;
        let is_stepped = |(field, text): (HashField, &Option<Vec<u8>>)| {
            let check = &self.call.checks[field.check];
            let text = text.as_deref().filter(|_| field.ago == 0);
            text.is_some_and(|text| state_text::is_stepped(text, check, reply.now))
        };
        if layout.fields().zip(&reply.texts).any(is_stepped) {
            // The states must be written as they are now, or they would not recover.
            return self.swap().await;
        }
        let mut states = self.states(&layout, &reply);
        let verdicts = state::run(self.call, &mut states, reply.now);
        Ok(Outcome { verdicts, states, now: reply.now })
    }

    /// Reads the current states.
    pub(super) async fn read_states(&self, layout: &HashLayout) -> Result<LuaReply, StoreError> {
        let mut args = Arguments::default();
        self.times(&mut args);
        for fields in &layout.hashes {
            args.number(fields.len() as u64);
            fields.iter().for_each(|field| args.field(field.counter));
        }
        self.call_function(ServerFunction::read(), &layout.keys, &args).await
    }

    /// Returns the states in a reply, carried over from previous limits where there is none yet.
    pub(super) fn states(&self, layout: &HashLayout, reply: &LuaReply) -> States {
        let text = |wanted: HashField| {
            let at = layout.fields().position(|field| field == wanted)?;
            reply.texts.get(at).and_then(Option::as_deref)
        };
        let state = |(check, of): (usize, &Check<'_>)| {
            let live = |state: &state::State| state::is_live(state, of.limit, reply.now);
            let own = text(HashField { check, ago: 0, counter: of.counter });
            let own = own.and_then(|text| state_text::decode(text, of, reply.now));
            let own = own.filter(live);
            if own.is_some() || of.previous.is_none() {
                return own;
            }
            let remembered = previous_limits(of).zip(1..).map(|(previous, ago)| {
                state_text::decode(
                    text(HashField { check, ago, counter: previous.counter })?,
                    &previous.limit,
                    reply.now,
                )
            });
            state::carried(of, remembered.collect(), reply.now)
        };
        self.call.checks.iter().enumerate().map(state).collect()
    }

    /// Returns the verdicts on what the Lua has done.
    fn outcome_of(&self, layout: &HashLayout, reply: LuaReply) -> Result<Outcome, StoreError> {
        let mut states = self.states(layout, &reply);
        let verdicts = state::run(self.call, &mut states, reply.now);
        let passes = verdicts.iter().all(|verdict| verdict.allowed);
        let is_take = matches!(self.call.action, Action::Take { .. });
        if is_take && passes != (reply.code == LuaCode::Passes) {
            return Err(StoreError::new(
                "the Lua and this program decided differently: please report it as a bug",
            ));
        }
        Ok(Outcome { verdicts, states, now: reply.now })
    }
}

pub(super) fn too_late() -> StoreError {
    StoreError::new("Redis reached the call after its deadline and did nothing: allow more time")
        .with_kind(StoreErrorKind::TimedOut)
}

fn floor(span: Span) -> Span {
    Span::from_nanos(span.as_nanos() / 1_000 * 1_000)
}

fn in_whole_micros<'a>(check: &Check<'a>) -> Check<'a> {
    Check { patience: floor(check.patience), ..*check }
}
