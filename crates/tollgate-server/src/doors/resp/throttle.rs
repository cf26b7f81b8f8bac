//! `CL.THROTTLE key max_burst count period [quantity]`, as redis-cell has it.

use std::sync::Arc;
use std::time::Duration;

use tollgate::Limit;

use super::command::Command;
use crate::engine::{Brought, BroughtError, Engine};

/// A limit in redis-cell's words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Throttle {
    /// What passes at once beside the first one; nothing ever passes if it is -1.
    max_burst: i64,
    count: u64,
    period: u64,
    /// What is asked for; given back if negative.
    pub(super) quantity: i64,
}

impl Throttle {
    /// Reads the arguments; what is wrong is said as redis-cell says it.
    pub(super) fn read(command: &Command<'_>) -> Result<Throttle, String> {
        let store = |why: String| format!("ERR Cell error: Store error: {why}");
        let number = |index: usize| {
            integer(command.get(index)).ok_or_else(|| {
                store(format!("Couldn't parse as integer: {}", command.shown(index)))
            })
        };
        let (max_burst, count, period) = (number(2)?, number(3)?, number(4)?);
        let quantity = if command.len() > 5 { number(5)? } else { 1 };
        let (Ok(count @ 1..), Ok(period @ 1..)) = (u64::try_from(count), u64::try_from(period))
        else {
            return Err(store("Zero rates are not supported".into()));
        };
        if max_burst < -1 {
            return Err(store("max_burst must be at least -1".into()));
        }
        Ok(Throttle { max_burst, count, period, quantity })
    }

    /// Whether the limit lets nothing pass, whoever asks.
    pub(super) fn is_shut(&self) -> bool {
        self.max_burst == -1
    }

    /// The limit, ready to decide by. redis-cell keeps one arrival time for a key whatever limit
    /// comes with it; here a key is counted apart under every limit.
    pub(super) fn brought(&self, engine: &Engine) -> Result<Arc<Brought>, BroughtError> {
        let Throttle { max_burst, count, period, .. } = *self;
        engine.brought_as(&format!("{max_burst} {count} {period}"), || {
            let limit = Limit::new(count, Duration::from_secs(period));
            let burst = max_burst.unsigned_abs() + 1;
            limit.and_then(|limit| limit.burst(burst)).map_err(BroughtError::Invalid)
        })
    }
}

/// A number, as Redis writes them.
#[inline]
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    match text {
        [digit @ b'0'..=b'9'] => Some(i64::from(digit - b'0')),
        text => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}
