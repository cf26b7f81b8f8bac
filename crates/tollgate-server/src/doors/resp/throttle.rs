//! `CL.THROTTLE key max_burst count period [quantity]`, compatible with redis-cell.

use std::sync::Arc;
use std::time::Duration;

use tollgate::Limit;

use super::command::RespCommand;
use crate::decisions::{DecisionService, InlineLimit, InlineLimitError};

/// The arguments of `CL.THROTTLE` after the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThrottleArguments {
    /// The burst beside the first request; -1 allows nothing at all.
    max_burst: i64,
    count: u64,
    period: u64,
    /// The cost; a negative one is a refund.
    pub(super) quantity: i64,
}

impl ThrottleArguments {
    /// Reads the arguments; errors have the texts of redis-cell.
    pub(super) fn read(command: &RespCommand<'_>) -> Result<ThrottleArguments, String> {
        let error = |why: String| format!("ERR Cell error: Store error: {why}");
        let number = |index: usize| {
            integer(command.get(index)).ok_or_else(|| {
                error(format!("Couldn't parse as integer: {}", command.display(index)))
            })
        };
        let (max_burst, count, period) = (number(2)?, number(3)?, number(4)?);
        let quantity = if command.len() > 5 { number(5)? } else { 1 };
        let (Ok(count @ 1..), Ok(period @ 1..)) = (u64::try_from(count), u64::try_from(period))
        else {
            return Err(error("Zero rates are not supported".into()));
        };
        if max_burst < -1 {
            return Err(error("max_burst must be at least -1".into()));
        }
        Ok(ThrottleArguments { max_burst, count, period, quantity })
    }

    /// Returns whether the limit allows nothing at all.
    pub(super) fn is_blocked(&self) -> bool {
        self.max_burst == -1
    }

    /// Returns the inline limit of the arguments.
    ///
    /// redis-cell has one arrival time per key, whatever the limit; here a key has one counter for
    /// each limit.
    pub(super) fn inline_limit(
        &self,
        decisions: &DecisionService,
    ) -> Result<Arc<InlineLimit>, InlineLimitError> {
        let ThrottleArguments { max_burst, count, period, .. } = *self;
        decisions.inline_limit_or(&format!("{max_burst} {count} {period}"), || {
            let limit = Limit::new(count, Duration::from_secs(period));
            let burst = max_burst.unsigned_abs() + 1;
            limit.and_then(|limit| limit.burst(burst)).map_err(InlineLimitError::Invalid)
        })
    }
}

/// Parses an integer argument.
#[inline]
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    match text {
        [digit @ b'0'..=b'9'] => Some(i64::from(digit - b'0')),
        text => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}
