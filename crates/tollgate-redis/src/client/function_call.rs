//! Calls functions at a server, by name or, where there are no functions, by the hash of a script.
//! A function that the server does not know is loaded and called in one pipeline.

use std::sync::atomic::Ordering;

use redis::{Cmd, Pipeline, Value};
use tokio::time::Instant;

use super::command_reply::CommandReply;
use super::server::Server;
use crate::arguments::Arguments;
use crate::error::CallError;
use crate::function::ServerFunction;

/// The way in which a server runs functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptMode {
    /// Not known yet: functions are tried first.
    Unknown = 0,
    Functions = 1,
    Scripts = 2,
}

impl ScriptMode {
    fn of_server(server: &Server) -> ScriptMode {
        match server.script_mode.load(Ordering::Relaxed) {
            1 => ScriptMode::Functions,
            2 => ScriptMode::Scripts,
            _ => ScriptMode::Unknown,
        }
    }

    fn set(self, server: &Server) {
        server.script_mode.store(self as u8, Ordering::Relaxed);
    }
}

/// A function with its keys and arguments.
pub(super) struct FunctionCall<'a> {
    pub(super) function: &'a ServerFunction,
    pub(super) keys: &'a Arguments,
    pub(super) args: &'a Arguments,
}

impl FunctionCall<'_> {
    /// Calls the function at a server. With `asking`, the server answers for a slot that it is
    /// importing.
    pub(super) async fn run(
        &self,
        server: &Server,
        asking: bool,
        until: Instant,
    ) -> Result<CommandReply, CallError> {
        let script_mode = ScriptMode::of_server(server);
        let reply = match asking {
            false => {
                CommandReply::from_value(server.send(&self.command(script_mode), until).await?)
            }
            true => self.send(server, script_mode, false, true, until).await?,
        };
        let reply = match (script_mode, reply) {
            (ScriptMode::Scripts, CommandReply::UnknownScript(_)) => {
                self.send(server, script_mode, true, asking, until).await?
            }
            (_, CommandReply::UnknownScript(_)) => {
                match self.send(server, script_mode, true, asking, until).await? {
                    CommandReply::UnknownScript(reason) => {
                        self.without_functions(server, &reason, asking, until).await?
                    }
                    reply => reply,
                }
            }
            (ScriptMode::Unknown | ScriptMode::Functions, CommandReply::UnknownCommand(reason)) => {
                self.without_functions(server, &reason, asking, until).await?
            }
            (_, reply) => reply,
        };
        match &reply {
            CommandReply::Done(_) => {
                server.record_write();
                if script_mode == ScriptMode::Unknown
                    && ScriptMode::of_server(server) == ScriptMode::Unknown
                {
                    ScriptMode::Functions.set(server);
                }
            }
            CommandReply::Unavailable(reason) => {
                server.mark_down(CallError::refused(&server.name, reason))
            }
            CommandReply::NoWrites(reason) => server.record_refused_write(reason),
            _ => {}
        }
        Ok(reply)
    }

    /// Switches to scripts: the server has no functions, or the user may not call them.
    async fn without_functions(
        &self,
        server: &Server,
        reason: &str,
        asking: bool,
        until: Instant,
    ) -> Result<CommandReply, CallError> {
        tracing::debug!(server = %server.name, reason, "no functions; using scripts");
        ScriptMode::Scripts.set(server);
        self.send(server, ScriptMode::Scripts, true, asking, until).await
    }

    /// Sends the call, after loading the function if `load` is set.
    async fn send(
        &self,
        server: &Server,
        script_mode: ScriptMode,
        load: bool,
        asking: bool,
        until: Instant,
    ) -> Result<CommandReply, CallError> {
        let mut commands = Pipeline::new();
        if load {
            // An error of loading shows in the call that follows. "Already exists" is fine.
            match script_mode {
                ScriptMode::Scripts => {
                    commands.cmd("SCRIPT").arg("LOAD").arg(&self.function.script)
                }
                _ => commands.cmd("FUNCTION").arg("LOAD").arg(&*self.function.library),
            };
        }
        if asking {
            commands.cmd("ASKING");
        }
        commands.add_command(self.command(script_mode));
        let mut answers = server.send_all(&commands, until).await?;
        if load && let Some(Value::ServerError(error)) = answers.first() {
            tracing::debug!(server = %server.name, ?error, "cannot load a function");
        }
        Ok(CommandReply::from_value(answers.pop().unwrap_or(Value::Nil)))
    }

    fn command(&self, script_mode: ScriptMode) -> Cmd {
        let mut command = match script_mode {
            ScriptMode::Scripts => redis::cmd("EVALSHA"),
            _ => redis::cmd("FCALL"),
        };
        command.arg(match script_mode {
            ScriptMode::Scripts => &self.function.sha1,
            _ => &self.function.name,
        });
        command.arg(self.keys.len()).arg(self.keys).arg(self.args);
        command
    }
}
