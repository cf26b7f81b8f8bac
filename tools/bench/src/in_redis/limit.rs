//! The limits of the benchmark, in the notation of each limiter.

/// A limit per day.
///
/// Tokens are refilled so slowly that keys stay alive for the whole run, and an exhausted one stays
/// exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DailyLimit(pub(crate) u64);

/// A limit that is never reached.
pub(crate) const WIDE: DailyLimit = DailyLimit(10_000);
/// A limit of which only the first request passes.
pub(crate) const TIGHT: DailyLimit = DailyLimit(1);

pub(crate) const DAY_SECONDS: u64 = 86_400;

impl DailyLimit {
    /// Returns the limit as tollgate and the Python package `limits` write it.
    pub(crate) fn text(self) -> String {
        format!("{}/day", self.0)
    }

    /// Returns the most that may pass in the first `seconds`.
    pub(crate) fn most_in(self, seconds: f64) -> f64 {
        (self.0 as f64 * (1.0 + seconds / DAY_SECONDS as f64)).floor()
    }

    /// Returns the arguments of `token_bucket.lua`: capacity, tokens per millisecond.
    pub(crate) fn token_bucket(self) -> [String; 2] {
        let per_ms = self.0 as f64 / (DAY_SECONDS as f64 * 1e3);
        [self.0.to_string(), per_ms.to_string()]
    }

    /// Returns the arguments of `gcra.lua`: burst, microseconds per token.
    pub(crate) fn gcra(self) -> [String; 2] {
        [self.0.to_string(), (DAY_SECONDS * 1_000_000 / self.0).to_string()]
    }

    /// Returns the arguments of redis-cell: one less than the burst, count, seconds.
    pub(crate) fn redis_cell(self) -> [String; 3] {
        [self.0 - 1, self.0, DAY_SECONDS].map(|number| number.to_string())
    }
}
