//! The session of a client: runs commands and writes their replies in order.

use std::net::IpAddr;
use std::str;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::{Action, Retry, Span, Verdict};
use tollgate_rules::{Adjustment, Decision};

use super::batch::{CachedLimitIndex, DecisionBatch, ReplyForm};
use super::client_identity::{self, ClientIdentity};
use super::command::RespCommand;
use super::command_table::{self, CommandKind, CommandSpec};
use super::parser::{CommandBounds, CommandParser};
use super::reply_buffer::ReplyBuffer;
use super::throttle::{ThrottleArguments, integer};
use super::{arguments, decision_reply, introspection};
use crate::access::Permission;
use crate::decisions::InlineLimitList;
use crate::server::Context;
use crate::telemetry::DoorName;

/// The size of replies at which they are sent before more commands run, in bytes.
const SEND_THRESHOLD: usize = 64 << 10;
/// The maximum length of an unknown command in an error.
const MAX_QUOTED_CHARS: usize = 128;

/// The session of one connection.
#[derive(Debug)]
pub(super) struct RespSession {
    context: Context,
    peer: Option<IpAddr>,
    identity: ClientIdentity,
    parser: CommandParser,
    batch: DecisionBatch,
    pub(super) replies: ReplyBuffer,
}

/// The next step once the replies are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Read more bytes.
    Read,
    /// Run more commands that are already received.
    RunMore,
    /// Close the connection.
    Close,
}

/// The state of a decision that was added to the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchState {
    /// More decisions may join the batch.
    Open,
    /// The batch is full and must be decided now.
    Full,
}

impl RespSession {
    pub(super) fn new(context: Context, peer: Option<IpAddr>) -> RespSession {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
        let id = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let identity = ClientIdentity::new(id, context.access.clone());
        let (parser, batch, replies) = Default::default();
        RespSession { context, peer, identity, parser, batch, replies }
    }

    /// Returns the maximum size of a command.
    pub(super) fn bounds(&self) -> &'static CommandBounds {
        if self.identity.is_authenticated {
            &CommandBounds::AUTHENTICATED
        } else {
            &CommandBounds::ANONYMOUS
        }
    }

    /// Runs the commands in `received`; returns how many bytes they were.
    pub(super) async fn run(&mut self, received: &mut [u8]) -> (usize, NextStep) {
        self.identity.refresh();
        let mut used = 0;
        let next = loop {
            let length = match self.parser.next(&mut received[used..], self.bounds()) {
                Ok(Some(length)) => length,
                Ok(None) => break NextStep::Read,
                Err(error) => {
                    self.decide(received).await;
                    self.replies.error(&format!("ERR {error}"));
                    return (received.len(), NextStep::Close);
                }
            };
            let spans = std::mem::take(&mut self.parser.spans);
            let command = RespCommand::new(&received[used..used + length], &spans, used);
            used += length;
            let mut next = NextStep::Read;
            let batched = self.add_to_batch(&command);
            if batched != Some(BatchState::Open) {
                self.decide(received).await;
            }
            if batched.is_none() {
                next = self.run_command(&command).await;
            }
            self.parser.spans = spans;
            match next {
                NextStep::Read if self.replies.bytes().len() < SEND_THRESHOLD => {}
                NextStep::Read => break NextStep::RunMore,
                next => break next,
            }
        };
        self.decide(received).await;
        (used, next)
    }

    /// Makes the decisions of the batch.
    #[inline]
    async fn decide(&mut self, received: &[u8]) {
        self.batch.decide(&self.context.decisions, received, &mut self.replies).await;
    }

    /// Adds a `CL.THROTTLE` or `TG.LIMIT` with a cached limit to the batch.
    #[inline]
    fn add_to_batch(&mut self, command: &RespCommand<'_>) -> Option<BatchState> {
        let name = command.get(0);
        let decision = match name.len() {
            11 if name.eq_ignore_ascii_case(b"CL.THROTTLE") => self.cached_throttle(command),
            8 if name.eq_ignore_ascii_case(b"TG.LIMIT") => self.cached_limit(command),
            _ => None,
        };
        let (limit, cost) = decision.filter(|_| self.identity.may_decide)?;
        match self.batch.push(command.span(1), limit, cost) {
            true => Some(BatchState::Full),
            false => Some(BatchState::Open),
        }
    }

    /// Returns the cached limit and the cost of a `CL.THROTTLE`.
    #[inline]
    fn cached_throttle(&mut self, command: &RespCommand<'_>) -> Option<(CachedLimitIndex, u64)> {
        let cost = match command.len() {
            5 => 1,
            6 => u64::try_from(integer(command.get(5))?).ok()?,
            _ => return None,
        };
        let limit = self.batch.find_limit(ReplyForm::Throttle, command.raw(2, 4)?)?;
        Some((limit, cost))
    }

    /// Returns the cached limit and the cost of a `TG.LIMIT`.
    fn cached_limit(&mut self, command: &RespCommand<'_>) -> Option<(CachedLimitIndex, u64)> {
        let cost = arguments::cost_of_limit(command).ok()?;
        let limit = self.batch.find_limit(ReplyForm::Fields, command.get(2))?;
        Some((limit, cost))
    }

    /// Runs a command that is not in the batch.
    async fn run_command(&mut self, command: &RespCommand<'_>) -> NextStep {
        if command.len() == 0 {
            return NextStep::Read;
        }
        // A browser was tricked into sending HTTP: the rest of its request must not run as commands.
        if command.is(0, "POST") || command.is(0, "Host:") {
            return NextStep::Close;
        }
        let spec = command_table::find(command.get(0));
        if !self.identity.is_authenticated
            && !spec.is_some_and(|spec| spec.kind.is_allowed_anonymously())
        {
            self.replies.error("NOAUTH Authentication required.");
            return NextStep::Read;
        }
        let Some(spec) = spec else {
            self.replies.error(&unknown_command(command));
            return NextStep::Read;
        };
        if !accepts(spec, command.len()) {
            let name = spec.name.to_ascii_lowercase();
            let error = format!("ERR wrong number of arguments for '{name}' command");
            self.replies.error(&error);
            return NextStep::Read;
        }
        if let Err(error) = self.execute(spec.kind, command).await {
            self.replies.error(&error);
        }
        if spec.kind == CommandKind::Quit { NextStep::Close } else { NextStep::Read }
    }

    async fn execute(
        &mut self,
        kind: CommandKind,
        command: &RespCommand<'_>,
    ) -> Result<(), String> {
        if let Some(permission) = kind.permission() {
            self.identity.authorize(permission)?;
        }
        let replies = &mut self.replies;
        match kind {
            CommandKind::Throttle => return self.throttle(command).await,
            CommandKind::Limit => return self.limit(command).await,
            CommandKind::Check => return self.check(command).await,
            CommandKind::Peek => return self.adjust(command, Adjustment::Peek, Action::Peek).await,
            CommandKind::ResetCounters => {
                return self.adjust(command, Adjustment::Reset, Action::Reset).await;
            }
            CommandKind::Ping => match command.len() {
                1 => replies.simple("PONG"),
                2 => replies.bulk(command.get(1)),
                _ => return Err("ERR wrong number of arguments for 'ping' command".into()),
            },
            CommandKind::Echo => replies.bulk(command.get(1)),
            CommandKind::Hello => self.identity.hello(command, replies),
            CommandKind::Auth => self.identity.auth(command, replies),
            CommandKind::Info => introspection::info(&self.context, command, replies),
            CommandKind::Command => introspection::command(command, replies),
            CommandKind::Quit => replies.ok(),
            CommandKind::Select => client_identity::select(command, replies),
            CommandKind::Client => self.identity.client(command, replies),
            CommandKind::Reset => self.identity.reset(replies),
        }
        Ok(())
    }

    /// Runs `CL.THROTTLE` with a limit that is not cached, or with a refund.
    async fn throttle(&mut self, command: &RespCommand<'_>) -> Result<(), String> {
        let throttle = ThrottleArguments::read(command)?;
        if command.len() > 6 {
            return Err("ERR wrong number of arguments for 'cl.throttle' command".into());
        }
        if throttle.quantity < 0 && !self.context.access.is_open() {
            self.identity.authorize(Permission::Change)?;
        }
        if throttle.is_blocked() {
            self.replies.throttle(&blocked_verdict(throttle.quantity > 0));
            return Ok(());
        }
        let decisions = &self.context.decisions;
        let limit =
            throttle.inline_limit(decisions).map_err(|error| arguments::wrong_limit(&error))?;
        let (key, amount) = (command.get(1), throttle.quantity.unsigned_abs());
        let verdict = match throttle.quantity {
            0.. => decisions.check_inline(DoorName::Resp, key, &limit, amount).await,
            _ => decisions
                .adjust_inline(Action::Refund, key, &limit, amount)
                .await
                .map(refund_verdict),
        };
        self.replies.throttle(&verdict.map_err(|error| format!("ERR {error}"))?);
        if let Some(text) = command.raw(2, 4) {
            self.batch.cache_limit(ReplyForm::Throttle, text, limit);
        }
        Ok(())
    }

    /// Runs `TG.LIMIT` with a limit that is not cached.
    async fn limit(&mut self, command: &RespCommand<'_>) -> Result<(), String> {
        let decisions = &self.context.decisions;
        if command.len() > 3 && !command.is(3, "COST") {
            let (limits, cost) = arguments::limits_and_cost(decisions, command)?;
            let key = command.get(1);
            let verdicts = decisions.check_inline_limits(DoorName::Resp, key, &limits, cost).await;
            let verdicts = verdicts.map_err(|error| format!("ERR {error}"))?;
            if let Some(verdict) = InlineLimitList::deciding(&verdicts) {
                decision_reply::write_limit(verdict, &mut self.replies);
            }
            return Ok(());
        }
        let cost = arguments::cost_of_limit(command)?;
        let limit = arguments::limit(decisions, command.get(2))?;
        let verdict = decisions.check_inline(DoorName::Resp, command.get(1), &limit, cost).await;
        decision_reply::write_limit(
            &verdict.map_err(|error| format!("ERR {error}"))?,
            &mut self.replies,
        );
        self.batch.cache_limit(ReplyForm::Fields, command.get(2), limit);
        Ok(())
    }

    /// Runs `TG.CHECK`.
    async fn check(&mut self, command: &RespCommand<'_>) -> Result<(), String> {
        let (request, cost) = arguments::request(command, self.peer)?;
        let decision = self.context.decisions.check(DoorName::Resp, &request, cost).await;
        self.reply_decision(command, &decision)
    }

    /// Writes the reply to a decision by rules.
    fn reply_decision(
        &mut self,
        command: &RespCommand<'_>,
        decision: &Decision,
    ) -> Result<(), String> {
        let domain = str::from_utf8(command.get(1)).ok().filter(|domain| !domain.is_empty());
        if let Some(why) = self.context.decisions.unknown_domain(domain, decision) {
            return Err(format!("ERR {why}"));
        }
        decision_reply::write_decision(decision, &mut self.replies);
        Ok(())
    }

    /// Reads or changes counters, of an inline limit or of rules.
    async fn adjust(
        &mut self,
        command: &RespCommand<'_>,
        adjustment: Adjustment,
        action: Action,
    ) -> Result<(), String> {
        let decisions = &self.context.decisions;
        if arguments::has_inline_limit(command) {
            let limit = arguments::limit(decisions, command.get(2))?;
            let verdict = decisions.adjust_inline(action, command.get(1), &limit, 0).await;
            decision_reply::write_limit(
                &verdict.map_err(|error| format!("ERR {error}"))?,
                &mut self.replies,
            );
            return Ok(());
        }
        let (request, _) = arguments::request(command, self.peer)?;
        let decision = decisions.adjust(&request, adjustment).await;
        self.reply_decision(command, &decision.map_err(|error| format!("ERR {error}"))?)
    }
}

fn accepts(spec: &CommandSpec, arguments: usize) -> bool {
    match usize::try_from(spec.arity) {
        Ok(exactly) => arguments == exactly,
        Err(_) => arguments as u64 >= spec.arity.unsigned_abs(),
    }
}

/// Returns the error about an unknown command, with the text of Redis.
fn unknown_command(command: &RespCommand<'_>) -> String {
    let name: String = command.display(0).chars().take(MAX_QUOTED_CHARS).collect();
    let mut quoted = String::new();
    for index in 1..command.len() {
        if quoted.len() >= MAX_QUOTED_CHARS {
            break;
        }
        let argument: String =
            command.display(index).chars().take(MAX_QUOTED_CHARS - quoted.len()).collect();
        quoted += &format!("'{argument}' ");
    }
    format!("ERR unknown command '{name}', with args beginning with: {quoted}")
}

/// Returns the verdict of a limit that allows nothing at all.
fn blocked_verdict(limited: bool) -> Verdict {
    Verdict {
        allowed: !limited,
        limit: 0,
        remaining: 0,
        reset_after: Span::ZERO,
        retry: if limited { Retry::Never } else { Retry::Now },
        wait: Span::ZERO,
    }
}

/// Returns the verdict of a refund, which is never limited.
fn refund_verdict(verdict: Verdict) -> Verdict {
    Verdict { allowed: true, retry: Retry::Now, ..verdict }
}
