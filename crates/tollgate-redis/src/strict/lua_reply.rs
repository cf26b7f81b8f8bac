//! The reply of the Lua.

use redis::Value;
use tollgate::{Span, StoreError, StoreErrorKind, Time, Verdict};

use super::state_text;

/// The codes of `lua/common.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LuaCode {
    /// The call was refused, or a state has changed meanwhile.
    Refused,
    /// The call passed.
    Passes,
    /// The deadline has passed: nothing was done.
    Late,
    /// Lua cannot represent the numbers: nothing was done.
    Beyond,
    /// The calendar's period was not the one sent: nothing was done.
    Stale,
}

/// The reply to a call.
#[derive(Debug)]
pub(super) struct LuaReply {
    pub(super) now: Time,
    pub(super) code: LuaCode,
    /// The states before the call; `None` where there was none.
    pub(super) texts: Vec<Option<Vec<u8>>>,
}

impl LuaReply {
    pub(super) fn read(value: Value) -> Result<LuaReply, StoreError> {
        let unexpected = |reply: &Value| {
            StoreError::new(format!("unexpected reply from Redis: {reply:?}"))
                .with_kind(StoreErrorKind::Refused)
        };
        let Value::Array(parts) = value else { return Err(unexpected(&value)) };
        let mut parts = parts.into_iter();
        let (Some(Value::Int(now)), Some(Value::Int(code))) = (parts.next(), parts.next()) else {
            return Err(unexpected(&Value::Nil));
        };
        let code = match code {
            0 => LuaCode::Refused,
            1 => LuaCode::Passes,
            2 => LuaCode::Late,
            3 => LuaCode::Beyond,
            4 => LuaCode::Stale,
            other => return Err(unexpected(&Value::Int(other))),
        };
        let texts = parts.map(|part| match part {
            Value::Nil => Ok(None),
            Value::BulkString(text) => Ok(Some(text)),
            other => Err(unexpected(&other)),
        });
        let now = state_text::time(u64::try_from(now).unwrap_or(0));
        Ok(LuaReply { now, code, texts: texts.collect::<Result<_, _>>()? })
    }
}

/// Rounds a verdict up to whole microseconds, the resolution of Redis, so that no retry comes too
/// early.
pub(crate) fn in_micros(mut verdict: Verdict) -> Verdict {
    let ceil = |span: Span| Span::from_micros(span.as_micros_ceil());
    verdict.reset_after = ceil(verdict.reset_after);
    verdict.wait = ceil(verdict.wait);
    if let tollgate::Retry::After(span) = &mut verdict.retry {
        *span = ceil(*span);
    }
    verdict
}
