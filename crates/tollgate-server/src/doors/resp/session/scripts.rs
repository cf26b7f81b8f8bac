//! `EVAL`, `EVALSHA` and `SCRIPT`, for the scripts that the door knows.

use smallvec::SmallVec;

use super::super::command::RespCommand;
use super::super::introspection;
use super::super::parser::ArgumentSpan;
use super::super::scripts::{
    self, PublishedScript, SUPPORTED, ScriptArgument, ScriptCall, ScriptEffect, ThrottleScript,
};
use super::super::throttle::integer;
use super::RespSession;
use crate::access::Permission;
use crate::decisions::ThrottleDialect;
use crate::telemetry::DoorName;

/// The keys or the arguments of a script.
type Values<'a> = SmallVec<[&'a [u8]; 8]>;

/// The keys and arguments of `EVAL script numkeys [key ...] [argument ...]`.
struct EvalArguments<'a> {
    keys: Values<'a>,
    arguments: Values<'a>,
}

impl<'a> EvalArguments<'a> {
    fn read(command: &RespCommand<'a>) -> Result<EvalArguments<'a>, String> {
        let Some(count) = integer(command.get(2)) else {
            return Err("ERR value is not an integer or out of range".into());
        };
        let Ok(count) = usize::try_from(count) else {
            return Err("ERR Number of keys can't be negative".into());
        };
        if count > command.len() - 3 {
            return Err("ERR Number of keys can't be greater than number of args".into());
        }
        let mut keys: Values<'a> = command.arguments_from(3).collect();
        let arguments = keys.drain(count..).collect();
        Ok(EvalArguments { keys, arguments })
    }
}

impl RespSession {
    /// Replies to `EVAL`.
    pub(super) async fn eval(&mut self, command: &RespCommand<'_>) -> Result<(), String> {
        let values = EvalArguments::read(command)?;
        let sha1 = sha1_of(command.get(1));
        if let Some(script) = scripts::published(&sha1) {
            return self.run_published(script, &values);
        }
        if let Some(script) = self.shared.scripts.find(&sha1) {
            return self.run_throttle(&script, &values).await;
        }
        let script = ThrottleScript::parse(command.get(1)).ok_or_else(unsupported_script)?;
        self.shared.scripts.add(&sha1, script.clone());
        self.run_throttle(&script, &values).await
    }

    /// Replies to `EVALSHA`. Published scripts need not be loaded.
    pub(super) async fn eval_sha(&mut self, command: &RespCommand<'_>) -> Result<(), String> {
        let values = EvalArguments::read(command)?;
        let sha1 = String::from_utf8_lossy(command.get(1)).to_ascii_lowercase();
        if let Some(script) = scripts::published(&sha1) {
            return self.run_published(script, &values);
        }
        match self.shared.scripts.find(&sha1) {
            Some(script) => self.run_throttle(&script, &values).await,
            None => Err("NOSCRIPT No matching script. Please use EVAL.".into()),
        }
    }

    /// Replies to `SCRIPT LOAD|EXISTS|FLUSH`.
    pub(super) fn script(&mut self, command: &RespCommand<'_>) -> Result<(), String> {
        let loaded = &self.shared.scripts;
        match (command.get(1).to_ascii_uppercase().as_slice(), command.len()) {
            (b"LOAD", 3) => {
                let sha1 = sha1_of(command.get(2));
                if scripts::published(&sha1).is_none() {
                    let script = ThrottleScript::parse(command.get(2));
                    loaded.add(&sha1, script.ok_or_else(unsupported_script)?);
                }
                self.replies.text(&sha1);
            }
            (b"EXISTS", 3..) => {
                self.replies.array(command.len() - 2);
                for sha1 in command.arguments_from(2) {
                    let sha1 = String::from_utf8_lossy(sha1).to_ascii_lowercase();
                    let is_known =
                        scripts::published(&sha1).is_some() || loaded.find(&sha1).is_some();
                    self.replies.integer(i64::from(is_known));
                }
            }
            (b"FLUSH", 2) => {
                loaded.clear();
                self.replies.ok();
            }
            (b"FLUSH", 3) if command.is(2, "ASYNC") || command.is(2, "SYNC") => {
                loaded.clear();
                self.replies.ok();
            }
            _ => introspection::unknown_subcommand(command, "SCRIPT", &mut self.replies),
        }
        Ok(())
    }

    fn run_published(
        &mut self,
        script: &PublishedScript,
        values: &EvalArguments<'_>,
    ) -> Result<(), String> {
        match script.effect {
            ScriptEffect::Read => self.identity.authorize(Permission::Peek)?,
            ScriptEffect::Decide => self.identity.authorize(Permission::Decide)?,
            ScriptEffect::Reset => self.authorize_reset()?,
        }
        self.require_memory_store()?;
        let clock = self.context.decisions.clock();
        let now = clock.now();
        let reply = self.shared.keys.with(self.database, now, |space| {
            let (keys, arguments) = (&values.keys, &values.arguments);
            script.run(&mut ScriptCall { keys, arguments, space, now })
        });
        let took = clock.now().since(now);
        self.context.decisions.telemetry().record_duration(DoorName::Resp, 1, took);
        self.replies.script(&reply.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Runs a script that only calls `cl.throttle`, as that command.
    async fn run_throttle(
        &mut self,
        script: &ThrottleScript,
        values: &EvalArguments<'_>,
    ) -> Result<(), String> {
        self.identity.authorize(Permission::Decide)?;
        let no_value =
            || "ERR Lua redis lib command arguments must be strings or integers".to_owned();
        let mut words: Values<'_> = SmallVec::new();
        words.push(b"cl.throttle");
        for argument in &script.arguments {
            match argument {
                ScriptArgument::Key(index) => {
                    words.push(values.keys.get(index - 1).ok_or_else(no_value)?);
                }
                ScriptArgument::Argument(index) => {
                    words.push(values.arguments.get(index - 1).ok_or_else(no_value)?);
                }
                ScriptArgument::Literal(text) => words.push(text),
                ScriptArgument::AllKeys => words.extend_from_slice(&values.keys),
                ScriptArgument::AllArguments => words.extend_from_slice(&values.arguments),
            }
        }
        let mut bytes = Vec::new();
        let mut spans = Vec::new();
        for word in words {
            let from = bytes.len() as u32;
            bytes.extend_from_slice(word);
            spans.push(ArgumentSpan { from, to: bytes.len() as u32 });
        }
        self.throttle(ThrottleDialect::RedisCell, &RespCommand::new(&bytes, &spans, 0)).await
    }
}

fn sha1_of(script: &[u8]) -> String {
    sha1_smol::Sha1::from(script).digest().to_string()
}

fn unsupported_script() -> String {
    format!(
        "ERR tollgate does not run Lua: this script is none of those it knows, which are the \
         published ones of {SUPPORTED}"
    )
}
