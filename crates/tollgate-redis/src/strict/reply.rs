//! What the Lua answers.

use redis::Value;
use tollgate::{Span, StoreError, StoreErrorKind, Time, Verdict};

use super::text;

/// The codes of `lua/common.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// Refused, or changed by somebody else meanwhile.
    Refused,
    /// Done.
    Passes,
    /// The caller no longer waits: nothing was done.
    Late,
    /// Lua has no numbers for it: nothing was done.
    Beyond,
    /// A calendar's period was not the one told: nothing was done.
    Stale,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) now: Time,
    pub(super) code: Code,
    /// The states as they were; none where there is none.
    pub(super) texts: Vec<Option<Vec<u8>>>,
}

impl Reply {
    pub(super) fn read(value: Value) -> Result<Reply, StoreError> {
        let strange = |what: &Value| {
            StoreError::new(format!("Redis answered something else than asked: {what:?}"))
                .of(StoreErrorKind::Refused)
        };
        let Value::Array(parts) = value else { return Err(strange(&value)) };
        let mut parts = parts.into_iter();
        let (Some(Value::Int(now)), Some(Value::Int(code))) = (parts.next(), parts.next()) else {
            return Err(strange(&Value::Nil));
        };
        let code = match code {
            0 => Code::Refused,
            1 => Code::Passes,
            2 => Code::Late,
            3 => Code::Beyond,
            4 => Code::Stale,
            other => return Err(strange(&Value::Int(other))),
        };
        let texts = parts.map(|part| match part {
            Value::Nil => Ok(None),
            Value::BulkString(text) => Ok(Some(text)),
            other => Err(strange(&other)),
        });
        let now = text::time(u64::try_from(now).unwrap_or(0));
        Ok(Reply { now, code, texts: texts.collect::<Result<_, _>>()? })
    }
}

/// The verdict in whole microseconds, which is all that Redis tells apart; rounded up, so that
/// nobody comes back too early.
pub(crate) fn in_micros(mut verdict: Verdict) -> Verdict {
    let ceil = |span: Span| Span::from_micros(span.as_micros_ceil());
    verdict.reset_after = ceil(verdict.reset_after);
    verdict.wait = ceil(verdict.wait);
    if let tollgate::Retry::After(span) = &mut verdict.retry {
        *span = ceil(*span);
    }
    verdict
}
