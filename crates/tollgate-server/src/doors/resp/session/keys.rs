//! Commands on keys: the counters of `CL.THROTTLE`, and the keys of script libraries.
//!
//! In Redis both are keys of one key space. So `DEL`, `EXISTS` and `TTL` look for both here; the other
//! commands are for the keys of script libraries, whose values are whole numbers.

use tollgate::{Action, Limit, Span};

use super::super::command::RespCommand;
use super::super::keys::{KeyError, KeySpace, KeyValue};
use super::super::throttle::integer;
use super::RespSession;
use crate::access::Permission;
use crate::decisions::InlineLimit;

/// The unit of a time in a command or its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::doors::resp) enum TimeUnit {
    Seconds,
    Milliseconds,
}

impl TimeUnit {
    /// Returns a time in milliseconds, if it is in range.
    fn to_ms(self, time: i64) -> Option<i64> {
        match self {
            TimeUnit::Seconds => time.checked_mul(1_000),
            TimeUnit::Milliseconds => Some(time),
        }
    }
}

impl RespSession {
    /// Checks the right to remove or lower counters, which `CL.THROTTLE` with a negative quantity
    /// does too. A door without tokens gives it to every client, as Redis does.
    pub(super) fn authorize_reset(&self) -> Result<(), String> {
        match self.context.access.is_open() {
            true => Ok(()),
            false => self.identity.authorize(Permission::Change),
        }
    }

    /// Checks that the keys of script libraries can be stored.
    pub(super) fn require_memory_store(&self) -> Result<(), String> {
        match self.context.decisions.store().memory() {
            Some(_) => Ok(()),
            None => {
                Err("ERR the keys of script libraries need the memory store: this server shares \
                         its counters in Redis, which the library can use directly"
                    .into())
            }
        }
    }

    /// Runs `body` on the keys of script libraries in the current database.
    fn with_keys<R>(&self, body: impl FnOnce(&mut KeySpace<'_>) -> R) -> R {
        let now = self.context.decisions.clock().now();
        self.shared.keys.with(self.database, now, body)
    }

    /// Returns how long the counter of `CL.THROTTLE` of a key lasts; zero if there is none.
    async fn throttle_ttl(&self, key: &[u8]) -> Result<Span, String> {
        let verdict = self.on_throttle_key(Action::Peek, key).await?;
        Ok(verdict.reset_after)
    }

    async fn on_throttle_key(
        &self,
        action: Action,
        key: &[u8],
    ) -> Result<tollgate::Verdict, String> {
        // Every limit reads the same arrival time, so any will do.
        let limit = Limit::per_second(1).map_err(|error| format!("ERR {error}"))?;
        let limit = InlineLimit::on_shared_counter(self.database, limit);
        let verdict = self.context.decisions.adjust_inline(action, key, &limit, 0).await;
        verdict.map_err(|error| format!("ERR {error}"))
    }

    /// Replies to `DEL key ...`: the number of keys that existed.
    pub(super) async fn delete(&mut self, command: &RespCommand<'_>) -> Result<(), String> {
        self.authorize_reset()?;
        let mut removed = 0;
        for key in command.arguments_from(1) {
            let mut existed = self.with_keys(|keys| keys.remove(key));
            if self.throttle_ttl(key).await? > Span::ZERO {
                self.on_throttle_key(Action::Reset, key).await?;
                existed = true;
            }
            removed += i64::from(existed);
        }
        self.replies.integer(removed);
        Ok(())
    }

    /// Replies to `EXISTS key ...`: the number of keys that exist.
    pub(super) async fn exists(&mut self, command: &RespCommand<'_>) -> Result<(), String> {
        let mut found = 0;
        for key in command.arguments_from(1) {
            let exists = self.with_keys(|keys| keys.exists(key))
                || self.throttle_ttl(key).await? > Span::ZERO;
            found += i64::from(exists);
        }
        self.replies.integer(found);
        Ok(())
    }

    /// Replies to `TTL key` and `PTTL key`.
    pub(super) async fn ttl(
        &mut self,
        command: &RespCommand<'_>,
        unit: TimeUnit,
    ) -> Result<(), String> {
        let key = command.get(1);
        let mut ttl_ms = self.with_keys(|keys| keys.ttl_ms(key));
        if ttl_ms == -2 {
            ttl_ms = match self.throttle_ttl(key).await? {
                Span::ZERO => -2,
                span => i64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX),
            };
        }
        self.replies.integer(match unit {
            // Redis rounds to the nearest second.
            TimeUnit::Seconds if ttl_ms >= 0 => ttl_ms.saturating_add(500) / 1_000,
            _ => ttl_ms,
        });
        Ok(())
    }

    /// Replies to `EXPIRE key seconds` and `PEXPIRE key milliseconds`, on keys of script libraries.
    ///
    /// The counters of `CL.THROTTLE` expire when they are full; another expiry would change what
    /// they allow.
    pub(super) fn expire(
        &mut self,
        command: &RespCommand<'_>,
        unit: TimeUnit,
    ) -> Result<(), String> {
        self.require_memory_store()?;
        let time = integer(command.get(2)).ok_or(KeyError::NotAnInteger.to_string())?;
        let ttl_ms = unit.to_ms(time).ok_or(KeyError::Expiry("expire").to_string())?;
        let current_ms = self.with_keys(|keys| keys.ttl_ms(command.get(1)));
        if current_ms >= 0 && ttl_ms < current_ms {
            self.authorize_reset()?;
        }
        let existed = self.with_keys(|keys| keys.expire(command.get(1), ttl_ms));
        self.replies.integer(i64::from(existed));
        Ok(())
    }

    /// Replies to `GET key`, on keys of script libraries.
    pub(super) fn get(&mut self, command: &RespCommand<'_>) -> Result<(), String> {
        self.require_memory_store()?;
        let text = self.with_keys(|keys| keys.text(command.get(1)));
        match text.map_err(|error| error.to_string())? {
            Some(text) => self.replies.text(&text),
            None => self.replies.null(),
        }
        Ok(())
    }

    /// Replies to `SET key number [EX s|PX ms] [NX|XX]`.
    pub(super) fn set(&mut self, command: &RespCommand<'_>) -> Result<(), String> {
        self.require_memory_store()?;
        self.authorize_reset()?;
        let Some(value) = integer(command.get(2)) else {
            return Err(
                "ERR values are whole numbers here: tollgate keeps counters, not texts".into()
            );
        };
        let (mut ttl_ms, mut must_exist) = (None, None);
        let mut at = 3;
        while at < command.len() {
            let unit = match () {
                () if command.is(at, "EX") => TimeUnit::Seconds,
                () if command.is(at, "PX") => TimeUnit::Milliseconds,
                () if command.is(at, "NX") && must_exist.is_none() => {
                    must_exist = Some(false);
                    at += 1;
                    continue;
                }
                () if command.is(at, "XX") && must_exist.is_none() => {
                    must_exist = Some(true);
                    at += 1;
                    continue;
                }
                () => return Err("ERR syntax error".into()),
            };
            if ttl_ms.is_some() || at + 1 >= command.len() {
                return Err("ERR syntax error".into());
            }
            let time = integer(command.get(at + 1)).ok_or(KeyError::NotAnInteger.to_string())?;
            let time_ms = unit.to_ms(time).and_then(|ms| u64::try_from(ms).ok());
            let time_ms = time_ms.filter(|ms| *ms > 0);
            ttl_ms = Some(time_ms.ok_or(KeyError::Expiry("set").to_string())?);
            at += 2;
        }
        let key = command.get(1);
        let is_set = self.with_keys(|keys| {
            let is_wanted = must_exist.is_none_or(|must_exist| keys.exists(key) == must_exist);
            if is_wanted {
                keys.set(key, KeyValue::Integer(value), ttl_ms);
            }
            is_wanted
        });
        if is_set {
            self.replies.ok()
        } else {
            self.replies.null()
        }
        Ok(())
    }

    /// Replies to `INCR`, `DECR`, `INCRBY` and `DECRBY`.
    pub(super) fn increment(&mut self, command: &RespCommand<'_>, sign: i64) -> Result<(), String> {
        self.require_memory_store()?;
        let amount = match command.len() {
            2 => Some(1),
            _ => integer(command.get(2)),
        };
        let by = amount.and_then(|amount| amount.checked_mul(sign));
        let by = by.ok_or(KeyError::NotAnInteger.to_string())?;
        if by < 0 {
            self.authorize_reset()?;
        }
        let sum = self.with_keys(|keys| keys.increment(command.get(1), by));
        self.replies.integer(sum.map_err(|error| error.to_string())?);
        Ok(())
    }
}
