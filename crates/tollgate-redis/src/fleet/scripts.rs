//! Runs our scripts at a server: as functions where it has them, by their hash where not. What it
//! does not know is loaded and called in one go.

use std::sync::atomic::Ordering;

use redis::{Cmd, Pipeline, Value};
use tokio::time::Instant;

use super::reply::Reply;
use super::server::Server;
use crate::script::Script;
use crate::trouble::Trouble;
use crate::words::Words;

/// How a server takes scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Road {
    /// Not known yet: functions are tried first.
    Unknown = 0,
    Functions = 1,
    Hashes = 2,
}

impl Road {
    fn of(server: &Server) -> Road {
        match server.road.load(Ordering::Relaxed) {
            1 => Road::Functions,
            2 => Road::Hashes,
            _ => Road::Unknown,
        }
    }

    fn set(self, server: &Server) {
        server.road.store(self as u8, Ordering::Relaxed);
    }
}

/// A script with what it is about.
pub(super) struct Job<'a> {
    pub(super) script: &'a Script,
    pub(super) keys: &'a Words,
    pub(super) words: &'a Words,
}

impl Job<'_> {
    /// Runs it at a server. With `asking` the server answers although the slot is not its own yet.
    pub(super) async fn run(
        &self,
        server: &Server,
        asking: bool,
        until: Instant,
    ) -> Result<Reply, Trouble> {
        let road = Road::of(server);
        let reply = match asking {
            false => Reply::of(server.send(&self.command(road), until).await?),
            true => self.send(server, road, false, true, until).await?,
        };
        let reply = match (road, reply) {
            (Road::Hashes, Reply::UnknownScript(_)) => {
                self.send(server, road, true, asking, until).await?
            }
            (_, Reply::UnknownScript(_)) => {
                match self.send(server, road, true, asking, until).await? {
                    Reply::UnknownScript(why) => {
                        self.without_functions(server, &why, asking, until).await?
                    }
                    reply => reply,
                }
            }
            (Road::Unknown | Road::Functions, Reply::UnknownCommand(why)) => {
                self.without_functions(server, &why, asking, until).await?
            }
            (_, reply) => reply,
        };
        match &reply {
            Reply::Done(_) => {
                server.was_willing();
                if road == Road::Unknown && Road::of(server) == Road::Unknown {
                    Road::Functions.set(server);
                }
            }
            Reply::Unwell(why) => server.rest(Trouble::refused(&server.name, why)),
            Reply::NoWrites(why) => server.was_unwilling(why),
            _ => {}
        }
        Ok(reply)
    }

    /// The server has no functions, or does not let us use them.
    async fn without_functions(
        &self,
        server: &Server,
        why: &str,
        asking: bool,
        until: Instant,
    ) -> Result<Reply, Trouble> {
        tracing::debug!(server = %server.name, why, "no functions, going on with scripts");
        Road::Hashes.set(server);
        self.send(server, Road::Hashes, true, asking, until).await
    }

    /// Sends it, after loading it if told so.
    async fn send(
        &self,
        server: &Server,
        road: Road,
        load: bool,
        asking: bool,
        until: Instant,
    ) -> Result<Reply, Trouble> {
        let mut commands = Pipeline::new();
        if load {
            // What is wrong with loading shows when it is called; that it is there already is fine.
            match road {
                Road::Hashes => commands.cmd("SCRIPT").arg("LOAD").arg(&self.script.text),
                _ => commands.cmd("FUNCTION").arg("LOAD").arg(self.script.library),
            };
        }
        if asking {
            commands.cmd("ASKING");
        }
        commands.add_command(self.command(road));
        let mut answers = server.send_all(&commands, until).await?;
        if load && let Some(Value::ServerError(error)) = answers.first() {
            tracing::debug!(server = %server.name, ?error, "a script was not loaded");
        }
        Ok(Reply::of(answers.pop().unwrap_or(Value::Nil)))
    }

    fn command(&self, road: Road) -> Cmd {
        let mut command = match road {
            Road::Hashes => redis::cmd("EVALSHA"),
            _ => redis::cmd("FCALL"),
        };
        command.arg(match road {
            Road::Hashes => &self.script.sha1,
            _ => &self.script.function,
        });
        command.arg(self.keys.len()).arg(self.keys).arg(self.words);
        command
    }
}
