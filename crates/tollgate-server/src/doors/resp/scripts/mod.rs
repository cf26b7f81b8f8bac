//! Scripts that the door runs without Lua: the published scripts of rate-limit libraries, known by
//! their SHA-1, and scripts that only call `cl.throttle`.
//!
//! A library's file holds the hashes of its scripts, and a function for each that does on
//! [`KeySpace`] what the script does in Redis: the same commands in the same order, so that replies
//! and errors are the same. Only hashes are stored, not the scripts.

mod loaded;
pub(super) mod lua_number;
mod python_limits;
mod rate_limit_redis;
mod rate_limiter_flexible;
mod redis_rate;
mod throttle_script;
mod upstash;

use smallvec::SmallVec;
use tollgate::Time;

pub(super) use loaded::LoadedScripts;
pub(super) use throttle_script::{ScriptArgument, ThrottleScript};

use super::keys::{KeyError, KeySpace};
use super::reply_buffer::ReplyBuffer;

/// The scripts that the door runs, for errors about others.
pub(super) const SUPPORTED: &str = "rate-limit-redis 3 to 6, limits 2.6 to 5.8 (Python), \
     rate-limiter-flexible 2 to 11, @upstash/ratelimit 2.0.8 to 2.2, go-redis/redis_rate 9.1.1 to 10, and scripts \
     that only call cl.throttle";

/// A published script.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublishedScript {
    /// The SHA-1 of the script, in lower case.
    sha1: &'static str,
    /// The number of keys that the script reads.
    keys: usize,
    /// The number of arguments that the script reads.
    arguments: usize,
    /// What the script may change.
    pub(super) effect: ScriptEffect,
    run: fn(&mut ScriptCall<'_, '_>) -> ScriptResult,
}

/// What a script does to counters, which decides who may run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptEffect {
    /// Reads counters.
    Read,
    /// Decides, and charges counters.
    Decide,
    /// Removes counters.
    Reset,
}

/// A call of a script.
#[derive(Debug)]
pub(super) struct ScriptCall<'c, 't> {
    pub(super) keys: &'c [&'c [u8]],
    pub(super) arguments: &'c [&'c [u8]],
    pub(super) space: &'c mut KeySpace<'t>,
    /// The time that `TIME` returns.
    pub(super) now: Time,
}

/// The reply of a script.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScriptReply {
    Null,
    Integer(i64),
    Text(String),
    List(SmallVec<[ScriptPart; 4]>),
}

/// A part of a list that a script returns.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScriptPart {
    Null,
    Integer(i64),
    Text(String),
}

type ScriptResult = Result<ScriptReply, ScriptError>;

/// The error of a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScriptError {
    #[error(transparent)]
    Key(#[from] KeyError),
    /// An argument is missing, or is not a number; Lua fails where it is used.
    #[error("ERR argument {0} of the script is not a decimal number")]
    Argument(usize),
    #[error("ERR the script needs {keys} keys and {arguments} arguments")]
    Missing { keys: usize, arguments: usize },
    #[error("ERR {0}")]
    Bound(&'static str),
}

impl PublishedScript {
    /// Runs the script.
    pub(super) fn run(&self, call: &mut ScriptCall<'_, '_>) -> ScriptResult {
        let (keys, arguments) = (self.keys, self.arguments);
        if call.keys.len() < keys || call.arguments.len() < arguments {
            return Err(ScriptError::Missing { keys, arguments });
        }
        (self.run)(call)
    }
}

impl ScriptCall<'_, '_> {
    /// Returns an argument as Lua's `tonumber` reads it; the first is 1, as in Lua.
    fn number(&self, index: usize) -> Result<f64, ScriptError> {
        lua_number::parse_number(self.arguments[index - 1]).ok_or(ScriptError::Argument(index))
    }

    /// Returns an argument that goes to a Redis command as it is, where it must be an integer.
    fn integer(&self, index: usize) -> Result<i64, ScriptError> {
        let text = std::str::from_utf8(self.arguments[index - 1]).ok();
        Ok(text.and_then(|text| text.parse().ok()).ok_or(KeyError::NotAnInteger)?)
    }
}

/// Returns the time of `EXPIRE` in milliseconds.
fn seconds_to_ms(seconds: i64) -> Result<i64, KeyError> {
    seconds.checked_mul(1_000).ok_or(KeyError::Expiry("expire"))
}

/// Returns the time of `SET ... PX`, which must be positive.
fn positive_ms(ms: i64) -> Result<u64, KeyError> {
    u64::try_from(ms).ok().filter(|ms| *ms > 0).ok_or(KeyError::Expiry("set"))
}

/// Returns a reply of integers.
fn integers(values: &[i64]) -> ScriptReply {
    ScriptReply::List(values.iter().map(|value| ScriptPart::Integer(*value)).collect())
}

/// Finds a published script by its hash in lower case.
pub(super) fn published(sha1: &str) -> Option<&'static PublishedScript> {
    let libraries: [&[PublishedScript]; 5] = [
        rate_limit_redis::SCRIPTS,
        python_limits::SCRIPTS,
        rate_limiter_flexible::SCRIPTS,
        upstash::SCRIPTS,
        redis_rate::SCRIPTS,
    ];
    libraries.into_iter().flatten().find(|script| script.sha1 == sha1)
}

impl ReplyBuffer {
    /// Writes the reply of a script.
    pub(super) fn script(&mut self, reply: &ScriptReply) {
        match reply {
            ScriptReply::Null => self.null(),
            ScriptReply::Integer(value) => self.integer(*value),
            ScriptReply::Text(text) => self.text(text),
            ScriptReply::List(parts) => {
                self.array(parts.len());
                for part in parts {
                    match part {
                        ScriptPart::Null => self.null(),
                        ScriptPart::Integer(value) => self.integer(*value),
                        ScriptPart::Text(text) => self.text(text),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_is_well_formed_and_unique() {
        let all: Vec<&str> = [
            rate_limit_redis::SCRIPTS,
            python_limits::SCRIPTS,
            rate_limiter_flexible::SCRIPTS,
            upstash::SCRIPTS,
            redis_rate::SCRIPTS,
        ]
        .into_iter()
        .flatten()
        .map(|script| script.sha1)
        .collect();
        for sha1 in &all {
            let is_hex = sha1.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            assert!(sha1.len() == 40 && is_hex, "{sha1}");
            assert_eq!(all.iter().filter(|other| *other == sha1).count(), 1, "{sha1}");
        }
    }
}
