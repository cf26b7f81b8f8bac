//! A conversation: commands in, answers out, in the same order.

use std::net::IpAddr;
use std::str;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::rules::{Adjustment, Decision};
use tollgate::{Action, Retry, Span, Verdict};

use super::batch::{Batch, Form, Handle};
use super::command::Command;
use super::greet::{self, Guest};
use super::reply::Replies;
use super::request::{Bounds, Parser};
use super::table::{self, Known, Verb};
use super::throttle::{Throttle, integer};
use super::{about, asking, fields};
use crate::server::Context;
use crate::telemetry::DoorName;

/// Once so much is to be sent, it is sent before more is answered.
const ENOUGH: usize = 64 << 10;
/// What an error repeats of an unknown command.
const REPEATED: usize = 128;

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Session {
    context: Context,
    peer: Option<IpAddr>,
    guest: Guest,
    parser: Parser,
    batch: Batch,
    pub(super) replies: Replies,
}

/// What to do once the answers are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Wait for more.
    Read,
    /// There is more to answer.
    Answer,
    /// End the connection.
    Close,
}

/// What became of a command that can be put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Put {
    /// More may come before it is decided.
    Aside,
    /// It is decided now, with those before it.
    Due,
}

impl Session {
    pub(super) fn new(context: Context, peer: Option<IpAddr>) -> Session {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
        let id = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let guest = Guest::new(id, context.config.clone());
        let (parser, batch, replies) = Default::default();
        Session { context, peer, guest, parser, batch, replies }
    }

    /// What may come as one command.
    pub(super) fn bounds(&self) -> &'static Bounds {
        if self.guest.known { &Bounds::KNOWN } else { &Bounds::STRANGER }
    }

    /// Answers the commands in `received`, and says how many bytes they were.
    pub(super) async fn answer(&mut self, received: &mut [u8]) -> (usize, Next) {
        let mut used = 0;
        let next = loop {
            let length = match self.parser.next(&mut received[used..], self.bounds()) {
                Ok(Some(length)) => length,
                Ok(None) => break Next::Read,
                Err(error) => {
                    self.decide(received).await;
                    self.replies.error(&format!("ERR {error}"));
                    return (received.len(), Next::Close);
                }
            };
            let places = std::mem::take(&mut self.parser.places);
            let command = Command::new(&received[used..used + length], &places, used);
            used += length;
            let mut next = Next::Read;
            let put_off = self.ask(&command);
            if put_off != Some(Put::Aside) {
                self.decide(received).await;
            }
            if put_off.is_none() {
                next = self.run(&command).await;
            }
            self.parser.places = places;
            match next {
                Next::Read if self.replies.bytes().len() < ENOUGH => {}
                Next::Read => break Next::Answer,
                next => break next,
            }
        };
        self.decide(received).await;
        (used, next)
    }

    /// Decides what was put off.
    #[inline]
    async fn decide(&mut self, received: &[u8]) {
        self.batch.decide(&self.context.engine, received, &mut self.replies).await;
    }

    /// The everyday commands, put off to be decided together, if it is one.
    #[inline]
    fn ask(&mut self, command: &Command<'_>) -> Option<Put> {
        let name = command.get(0);
        let asked = match name.len() {
            11 if name.eq_ignore_ascii_case(b"CL.THROTTLE") => self.throttle(command),
            8 if name.eq_ignore_ascii_case(b"TG.LIMIT") => self.limit(command),
            _ => None,
        };
        let (handle, cost) = asked.filter(|_| self.guest.known)?;
        match self.batch.ask(command.place(1), handle, cost) {
            true => Some(Put::Due),
            false => Some(Put::Aside),
        }
    }

    /// A limit that is at hand, written as before.
    #[inline]
    fn throttle(&mut self, command: &Command<'_>) -> Option<(Handle, u64)> {
        let cost = match command.len() {
            5 => 1,
            6 => u64::try_from(integer(command.get(5))?).ok()?,
            _ => return None,
        };
        let handle = self.batch.find(Form::Throttle, command.raw(2, 4)?)?;
        Some((handle, cost))
    }

    fn limit(&mut self, command: &Command<'_>) -> Option<(Handle, u64)> {
        let cost = asking::cost_of_limit(command).ok()?;
        let handle = self.batch.find(Form::Fields, command.get(2))?;
        Some((handle, cost))
    }

    /// Runs any other command.
    async fn run(&mut self, command: &Command<'_>) -> Next {
        if command.len() == 0 {
            return Next::Read;
        }
        // A browser that was lured here: the rest of its request must not be taken for commands.
        if command.is(0, "POST") || command.is(0, "Host:") {
            return Next::Close;
        }
        let known = table::find(command.get(0));
        if !self.guest.known && !known.is_some_and(|known| known.verb.is_open()) {
            self.replies.error("NOAUTH Authentication required.");
            return Next::Read;
        }
        let Some(known) = known else {
            self.replies.error(&unknown(command));
            return Next::Read;
        };
        if !takes(known, command.len()) {
            let name = known.name.to_ascii_lowercase();
            let error = format!("ERR wrong number of arguments for '{name}' command");
            self.replies.error(&error);
            return Next::Read;
        }
        if let Err(error) = self.obey(known.verb, command).await {
            self.replies.error(&error);
        }
        if known.verb == Verb::Quit { Next::Close } else { Next::Read }
    }

    async fn obey(&mut self, verb: Verb, command: &Command<'_>) -> Result<(), String> {
        let replies = &mut self.replies;
        match verb {
            Verb::Throttle => return self.new_throttle(command).await,
            Verb::Limit => return self.new_limit(command).await,
            Verb::Check => return self.check(command).await,
            Verb::Peek => return self.adjust(command, Adjustment::Peek, Action::Peek).await,
            Verb::Forget => return self.adjust(command, Adjustment::Reset, Action::Reset).await,
            Verb::Ping => match command.len() {
                1 => replies.simple("PONG"),
                2 => replies.bulk(command.get(1)),
                _ => return Err("ERR wrong number of arguments for 'ping' command".into()),
            },
            Verb::Echo => replies.bulk(command.get(1)),
            Verb::Hello => self.guest.hello(command, replies),
            Verb::Auth => self.guest.auth(command, replies),
            Verb::Info => about::info(&self.context, command, replies),
            Verb::Command => about::command(command, replies),
            Verb::Quit => replies.ok(),
            Verb::Select => greet::select(command, replies),
            Verb::Client => self.guest.client(command, replies),
            Verb::Reset => self.guest.reset(replies),
        }
        Ok(())
    }

    /// `CL.THROTTLE` with a limit that is not at hand, or something to give back.
    async fn new_throttle(&mut self, command: &Command<'_>) -> Result<(), String> {
        let throttle = Throttle::read(command)?;
        if command.len() > 6 {
            return Err("ERR wrong number of arguments for 'cl.throttle' command".into());
        }
        if throttle.is_shut() {
            self.replies.throttle(&shut(throttle.quantity > 0));
            return Ok(());
        }
        let engine = &self.context.engine;
        let brought = throttle.brought(engine).map_err(|error| asking::wrong_limit(&error))?;
        let (key, amount) = (command.get(1), throttle.quantity.unsigned_abs());
        let verdict = match throttle.quantity {
            0.. => engine.limit(DoorName::Resp, key, &brought, amount).await,
            _ => engine.on(Action::Refund, key, &brought, amount).await.map(given_back),
        };
        self.replies.throttle(&verdict.map_err(|error| format!("ERR {error}"))?);
        if let Some(written) = command.raw(2, 4) {
            self.batch.keep(Form::Throttle, written, brought);
        }
        Ok(())
    }

    /// `TG.LIMIT` with a limit that is not at hand.
    async fn new_limit(&mut self, command: &Command<'_>) -> Result<(), String> {
        let cost = asking::cost_of_limit(command)?;
        let engine = &self.context.engine;
        let brought = asking::limit(engine, command.get(2))?;
        let verdict = engine.limit(DoorName::Resp, command.get(1), &brought, cost).await;
        fields::of_limit(&verdict.map_err(|error| format!("ERR {error}"))?, &mut self.replies);
        self.batch.keep(Form::Fields, command.get(2), brought);
        Ok(())
    }

    async fn check(&mut self, command: &Command<'_>) -> Result<(), String> {
        let (request, cost) = asking::request(command, self.peer)?;
        let decision = self.context.engine.check(DoorName::Resp, &request, cost).await;
        self.decided(command, &decision)
    }

    fn decided(&mut self, command: &Command<'_>, decision: &Decision) -> Result<(), String> {
        let domain = str::from_utf8(command.get(1)).ok().filter(|domain| !domain.is_empty());
        if let Some(why) = self.context.engine.unknown_domain(domain, decision) {
            return Err(format!("ERR {why}"));
        }
        fields::of_decision(decision, &mut self.replies);
        Ok(())
    }

    /// Reads or changes counters: of a key under a limit, or of a request under rules.
    async fn adjust(
        &mut self,
        command: &Command<'_>,
        adjustment: Adjustment,
        action: Action,
    ) -> Result<(), String> {
        let engine = &self.context.engine;
        if asking::names_a_key(command) {
            let brought = asking::limit(engine, command.get(2))?;
            let verdict = engine.on(action, command.get(1), &brought, 0).await;
            fields::of_limit(&verdict.map_err(|error| format!("ERR {error}"))?, &mut self.replies);
            return Ok(());
        }
        let (request, _) = asking::request(command, self.peer)?;
        let decision = engine.adjust(&request, adjustment).await;
        self.decided(command, &decision.map_err(|error| format!("ERR {error}"))?)
    }
}

fn takes(known: &Known, arguments: usize) -> bool {
    match usize::try_from(known.arity) {
        Ok(exactly) => arguments == exactly,
        Err(_) => arguments as u64 >= known.arity.unsigned_abs(),
    }
}

/// In the words of Redis.
fn unknown(command: &Command<'_>) -> String {
    let name: String = command.shown(0).chars().take(REPEATED).collect();
    let mut said = String::new();
    for index in 1..command.len() {
        if said.len() >= REPEATED {
            break;
        }
        let argument: String = command.shown(index).chars().take(REPEATED - said.len()).collect();
        said += &format!("'{argument}' ");
    }
    format!("ERR unknown command '{name}', with args beginning with: {said}")
}

/// The answer of a limit that lets nothing pass.
fn shut(limited: bool) -> Verdict {
    Verdict {
        allowed: !limited,
        limit: 0,
        remaining: 0,
        reset_after: Span::ZERO,
        retry: if limited { Retry::Never } else { Retry::Now },
        wait: Span::ZERO,
    }
}

/// Who gives back is not limited.
fn given_back(verdict: Verdict) -> Verdict {
    Verdict { allowed: true, retry: Retry::Now, ..verdict }
}
