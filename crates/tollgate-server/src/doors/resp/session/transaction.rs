//! `MULTI`, `EXEC` and `DISCARD`: commands that are queued and run together.
//!
//! Redis runs nothing else meanwhile. Here each command is atomic by itself, and commands of other
//! clients may run in between; the replies come together, in order.

use super::super::command::RespCommand;
use super::super::command_table::{self, CommandKind};
use super::super::parser::ArgumentSpan;
use super::{NextStep, RespSession, accepts};

/// The maximum number of queued commands.
const MAX_COMMANDS: usize = 10_000;
/// The maximum size of the queued commands, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// The commands that a client has queued since `MULTI`.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// The queued commands, one after the other.
    bytes: Vec<u8>,
    spans: Vec<ArgumentSpan>,
    commands: Vec<QueuedCommand>,
    /// Whether a command could not be queued, so that `EXEC` must fail.
    is_aborted: bool,
}

/// The position of a queued command.
#[derive(Clone, Copy, Debug)]
struct QueuedCommand {
    start: usize,
    end: usize,
    first_span: usize,
    last_span: usize,
}

impl Transaction {
    /// Returns the memory of the queue, in bytes.
    pub(super) fn buffer_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.spans.capacity() * size_of::<ArgumentSpan>()
            + self.commands.capacity() * size_of::<QueuedCommand>()
    }

    /// Queues a command; returns the error if it cannot be.
    fn queue(&mut self, command: &RespCommand<'_>) -> Result<(), String> {
        check(command)?;
        let (bytes, spans) = (command.bytes(), command.spans());
        if self.commands.len() >= MAX_COMMANDS || self.bytes.len() + bytes.len() > MAX_BYTES {
            return Err(format!(
                "ERR a transaction has at most {MAX_COMMANDS} commands and {MAX_BYTES} bytes"
            ));
        }
        let (start, first_span) = (self.bytes.len(), self.spans.len());
        self.bytes.extend_from_slice(bytes);
        self.spans.extend_from_slice(spans);
        let (end, last_span) = (self.bytes.len(), self.spans.len());
        self.commands.push(QueuedCommand { start, end, first_span, last_span });
        Ok(())
    }

    fn command(&self, index: usize) -> RespCommand<'_> {
        let QueuedCommand { start, end, first_span, last_span } = self.commands[index];
        RespCommand::new(&self.bytes[start..end], &self.spans[first_span..last_span], start)
    }
}

/// Checks what Redis checks before it queues a command.
fn check(command: &RespCommand<'_>) -> Result<(), String> {
    let Some(spec) = command_table::find(command.get(0)) else {
        return Err(super::unknown_command(command));
    };
    if !accepts(spec, command.len()) {
        return Err(super::wrong_arguments(spec));
    }
    match spec.kind {
        CommandKind::Multi => Err("ERR MULTI calls can not be nested".into()),
        // The first two change who the client is; the replies of the others are long.
        CommandKind::Hello | CommandKind::Auth | CommandKind::Info | CommandKind::Command => {
            Err("ERR Command not allowed inside a transaction".into())
        }
        _ => Ok(()),
    }
}

impl RespSession {
    /// Replies to `MULTI`.
    pub(super) fn multi(&mut self) {
        self.transaction = Some(Box::default());
        self.replies.ok();
    }

    /// Queues a command of an open transaction; `EXEC`, `DISCARD`, `RESET` and `QUIT` are not queued.
    pub(super) fn queue(&mut self, command: &RespCommand<'_>) -> bool {
        let Some(transaction) = &mut self.transaction else { return false };
        if ["EXEC", "DISCARD", "RESET", "QUIT"].iter().any(|name| command.is(0, name)) {
            return false;
        }
        match transaction.queue(command) {
            Ok(()) => self.replies.simple("QUEUED"),
            Err(error) => {
                transaction.is_aborted = true;
                self.replies.error(&error);
            }
        }
        true
    }

    /// Replies to `DISCARD`.
    pub(super) fn discard(&mut self) -> Result<(), String> {
        match self.transaction.take() {
            Some(_) => self.replies.ok(),
            None => return Err("ERR DISCARD without MULTI".into()),
        }
        Ok(())
    }

    /// Runs the queued commands.
    pub(super) async fn exec(&mut self) -> Result<(), String> {
        let Some(transaction) = self.transaction.take() else {
            return Err("ERR EXEC without MULTI".into());
        };
        if transaction.is_aborted {
            return Err("EXECABORT Transaction discarded because of previous errors.".into());
        }
        self.replies.array(transaction.commands.len());
        for index in 0..transaction.commands.len() {
            // No queued command closes the connection.
            let step: NextStep = self.step(&transaction.command(index), &transaction.bytes).await;
            debug_assert_eq!(step, NextStep::Read);
        }
        self.decide(&transaction.bytes).await;
        Ok(())
    }
}
