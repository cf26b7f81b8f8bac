//! The session of a client: runs commands and writes their replies in order.

mod decisions;
mod keys;
mod scripts;
mod transaction;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::Action;
use tollgate_rules::Adjustment;

use super::batch::{CachedLimitIndex, DecisionBatch, ReplyForm};
use super::client_identity::ClientIdentity;
use super::command::RespCommand;
use super::command_table::{self, CommandKind, CommandSpec};
use super::parser::{CommandBounds, CommandParser};
use super::reply_buffer::ReplyBuffer;
use super::throttle::integer;
use super::{SharedState, arguments, introspection};
use crate::decisions::Database;
use crate::server::Context;
pub(super) use keys::TimeUnit;
use transaction::Transaction;

/// The size of replies at which they are sent before more commands run, in bytes.
const SEND_THRESHOLD: usize = 64 << 10;
/// The maximum length of an unknown command in an error.
const MAX_QUOTED_CHARS: usize = 128;

/// The session of one connection.
#[derive(Debug)]
pub(super) struct RespSession {
    context: Context,
    shared: Arc<SharedState>,
    peer: Option<IpAddr>,
    identity: ClientIdentity,
    /// The key space that the client has selected.
    database: Database,
    parser: CommandParser,
    batch: DecisionBatch,
    /// The commands since `MULTI`.
    transaction: Option<Box<Transaction>>,
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
    pub(super) fn new(
        context: Context,
        shared: Arc<SharedState>,
        peer: Option<IpAddr>,
    ) -> RespSession {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
        let id = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let identity = ClientIdentity::new(id, context.access.clone());
        let (database, parser, batch, replies) = Default::default();
        let transaction = None;
        RespSession {
            context,
            shared,
            peer,
            identity,
            database,
            parser,
            batch,
            transaction,
            replies,
        }
    }

    /// Returns the memory of the replies and of an open transaction, in bytes.
    pub(super) fn buffer_bytes(&self) -> usize {
        let queued = self.transaction.as_ref().map_or(0, |queued| queued.buffer_bytes());
        self.replies.capacity() + queued
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
            let next = self.step(&command, received).await;
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

    /// Adds a command to the batch or runs it; `received` contains the keys of the batch.
    #[inline]
    async fn step(&mut self, command: &RespCommand<'_>, received: &[u8]) -> NextStep {
        let batched = self.add_to_batch(command);
        if batched != Some(BatchState::Open) {
            self.decide(received).await;
        }
        match batched {
            Some(_) => NextStep::Read,
            None => self.run_command(command).await,
        }
    }

    /// Makes the decisions of the batch.
    #[inline]
    async fn decide(&mut self, received: &[u8]) {
        self.batch.decide(&self.context.decisions, received, &mut self.replies).await;
    }

    /// Adds a `CL.THROTTLE`, `THROTTLE` or `TG.LIMIT` with a cached limit to the batch.
    #[inline]
    fn add_to_batch(&mut self, command: &RespCommand<'_>) -> Option<BatchState> {
        let name = command.get(0);
        let decision = match name.len() {
            11 if name.eq_ignore_ascii_case(b"CL.THROTTLE") => {
                self.cached_throttle(ReplyForm::Throttle, command)
            }
            8 if name.eq_ignore_ascii_case(b"TG.LIMIT") => self.cached_limit(command),
            8 if name.eq_ignore_ascii_case(b"THROTTLE") => {
                self.cached_throttle(ReplyForm::Throttlecrab, command)
            }
            _ => None,
        };
        let is_now = self.identity.may_decide && self.transaction.is_none();
        let (limit, cost) = decision.filter(|_| is_now)?;
        match self.batch.push(command.span(1), limit, cost) {
            true => Some(BatchState::Full),
            false => Some(BatchState::Open),
        }
    }

    /// Returns the cached limit and the cost of a `CL.THROTTLE` or `THROTTLE`.
    #[inline]
    fn cached_throttle(
        &mut self,
        form: ReplyForm,
        command: &RespCommand<'_>,
    ) -> Option<(CachedLimitIndex, u64)> {
        let cost = match command.len() {
            5 => 1,
            6 => u64::try_from(integer(command.get(5))?).ok()?,
            _ => return None,
        };
        let limit = self.batch.find_limit(form, command.raw(2, 4)?)?;
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
        if self.queue(command) {
            return NextStep::Read;
        }
        let Some(spec) = spec else {
            self.replies.error(&unknown_command(command));
            return NextStep::Read;
        };
        if !accepts(spec, command.len()) {
            self.replies.error(&wrong_arguments(spec));
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
            CommandKind::Throttle(dialect) => return self.throttle(dialect, command).await,
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
            CommandKind::Select => return self.select(command),
            CommandKind::Client => self.identity.client(command, self.database, replies),
            CommandKind::Reset => {
                self.transaction = None;
                self.set_database(Database::default());
                self.identity.reset(&mut self.replies);
            }
            CommandKind::Multi => self.multi(),
            // Boxed: a transaction runs commands, and this function is one of them.
            CommandKind::Exec => return Box::pin(self.exec()).await,
            CommandKind::Discard => return self.discard(),
            CommandKind::Eval => return Box::pin(self.eval(command)).await,
            CommandKind::EvalSha => return Box::pin(self.eval_sha(command)).await,
            CommandKind::Script => return self.script(command),
            CommandKind::Delete => return Box::pin(self.delete(command)).await,
            CommandKind::Exists => return Box::pin(self.exists(command)).await,
            CommandKind::Ttl(unit) => return Box::pin(self.ttl(command, unit)).await,
            CommandKind::Expire(unit) => return self.expire(command, unit),
            CommandKind::Get => return self.get(command),
            CommandKind::Set => return self.set(command),
            CommandKind::Increment(sign) => return self.increment(command, sign),
        }
        Ok(())
    }

    /// Replies to `SELECT`, which chooses the key space.
    fn select(&mut self, command: &RespCommand<'_>) -> Result<(), String> {
        let number = integer(command.get(1));
        let number = number.ok_or("ERR value is not an integer or out of range")?;
        self.set_database(Database::new(number).ok_or("ERR DB index is out of range")?);
        self.replies.ok();
        Ok(())
    }

    fn set_database(&mut self, database: Database) {
        if self.database != database {
            self.database = database;
            // The cached limits have the counters of the other database.
            self.batch.clear_limits();
        }
    }
}

fn accepts(spec: &CommandSpec, arguments: usize) -> bool {
    match usize::try_from(spec.arity) {
        Ok(exactly) => arguments == exactly,
        Err(_) => arguments as u64 >= spec.arity.unsigned_abs(),
    }
}

fn wrong_arguments(spec: &CommandSpec) -> String {
    format!("ERR wrong number of arguments for '{}' command", spec.name.to_ascii_lowercase())
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
