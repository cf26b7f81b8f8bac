//! The token bucket of `CL.THROTTLE` (redis-cell) and of `THROTTLE` and `POST /throttle`
//! (throttlecrab): a key has one counter, whatever the limit that comes with the call.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Limit, Retry, Span, Verdict};

use super::{Database, DecisionService, InlineLimit, InlineLimitError};

/// The origin of a call, which decides what `max_burst` means and how the reply looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThrottleDialect {
    /// `CL.THROTTLE`: the bucket holds one token more than `max_burst`.
    RedisCell,
    /// `THROTTLE`: the bucket holds `max_burst` tokens.
    Throttlecrab,
}

/// The arguments of `CL.THROTTLE` and `THROTTLE` after the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThrottleArguments {
    /// The tokens that the bucket holds; 0 allows nothing at all.
    pub(crate) burst: u64,
    pub(crate) count: u64,
    /// The time in which `count` tokens are refilled, in seconds.
    pub(crate) period: u64,
    /// The cost; a negative one is a refund.
    pub(crate) quantity: i64,
}

impl ThrottleArguments {
    /// Checks the arguments.
    pub(crate) fn new(
        dialect: ThrottleDialect,
        max_burst: i64,
        count: i64,
        period: i64,
        quantity: i64,
    ) -> Result<ThrottleArguments, String> {
        let cell = |why: &str| Err(format!("ERR Cell error: Store error: {why}"));
        let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
        let (count, period) = (positive(count), positive(period));
        match (dialect, count, period) {
            (ThrottleDialect::RedisCell, Some(count), Some(period)) => match max_burst {
                -1.. => {
                    let burst = max_burst.wrapping_add(1) as u64;
                    Ok(ThrottleArguments { burst, count, period, quantity })
                }
                _ => cell("max_burst must be at least -1"),
            },
            (ThrottleDialect::RedisCell, ..) => cell("Zero rates are not supported"),
            (ThrottleDialect::Throttlecrab, ..) if quantity < 0 => {
                Err(format!("ERR negative quantity: {quantity}"))
            }
            (ThrottleDialect::Throttlecrab, Some(count), Some(period)) if max_burst > 0 => {
                Ok(ThrottleArguments { burst: max_burst as u64, count, period, quantity })
            }
            (ThrottleDialect::Throttlecrab, ..) => {
                Err("ERR invalid rate limit parameters: max_burst, count_per_period and period \
                     must be at least 1"
                    .into())
            }
        }
    }

    /// Returns whether the limit allows nothing at all.
    pub(crate) fn is_blocked(&self) -> bool {
        self.burst == 0
    }

    /// Returns the inline limit of the arguments.
    ///
    /// A key has one counter in a database, whatever the limit, as in redis-cell: the theoretical
    /// arrival time. Another limit compares the same time with its own burst.
    pub(crate) fn inline_limit(
        &self,
        decisions: &DecisionService,
        database: Database,
    ) -> Result<Arc<InlineLimit>, InlineLimitError> {
        let ThrottleArguments { burst, count, period, .. } = *self;
        let words = format!("{} {burst} {count} {period}", database.number());
        decisions.inline_limit_or(&words, || {
            // A token of less than a nanosecond would be rounded up, to a slower rate.
            if u128::from(count) > u128::from(period) * 1_000_000_000 {
                return Err(InlineLimitError::TooFast);
            }
            let bucket = Limit::new(count, Duration::from_secs(period));
            let bucket = bucket.and_then(|bucket| bucket.burst(burst));
            bucket
                .map(|bucket| InlineLimit::on_shared_counter(database, bucket))
                .map_err(InlineLimitError::Invalid)
        })
    }
}

/// Returns the times of throttlecrab's replies, in seconds rounded up: until the bucket is full, and
/// until the request passes, which is 0 if it has passed and -1 if it never can.
pub(crate) fn throttlecrab_times(verdict: &Verdict) -> (i64, i64) {
    let seconds = |span: Span| span.as_nanos().div_ceil(1_000_000_000) as i64;
    let retry = match verdict.retry {
        _ if verdict.allowed => 0,
        Retry::Never => -1,
        Retry::Now => 1,
        Retry::After(span) => seconds(span).max(1),
    };
    (seconds(verdict.reset_after), retry)
}
