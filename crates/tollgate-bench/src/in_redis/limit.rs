//! The limits of the benchmark, in the words of everybody who takes part.

/// So many a day. Tokens come back so slowly that keys stay alive for the whole run, and one that
/// is exhausted stays exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Daily(pub(crate) u64);

/// Nobody reaches it.
pub(crate) const WIDE: Daily = Daily(10_000);
/// The first request passes, and no other.
pub(crate) const TIGHT: Daily = Daily(1);

pub(crate) const DAY_SECONDS: u64 = 86_400;

impl Daily {
    /// As tollgate and the Python package `limits` write it.
    pub(crate) fn text(self) -> String {
        format!("{}/day", self.0)
    }

    /// The most that may pass in so many seconds, from the first on.
    pub(crate) fn most_in(self, seconds: f64) -> f64 {
        (self.0 as f64 * (1.0 + seconds / DAY_SECONDS as f64)).floor()
    }

    /// For `token_bucket.lua`: capacity, tokens a millisecond.
    pub(crate) fn token_bucket(self) -> [String; 2] {
        let per_ms = self.0 as f64 / (DAY_SECONDS as f64 * 1e3);
        [self.0.to_string(), per_ms.to_string()]
    }

    /// For `gcra.lua`: burst, microseconds for each.
    pub(crate) fn gcra(self) -> [String; 2] {
        [self.0.to_string(), (DAY_SECONDS * 1_000_000 / self.0).to_string()]
    }

    /// For redis-cell: one less than passes at once, so many in so many seconds.
    pub(crate) fn redis_cell(self) -> [String; 3] {
        [self.0 - 1, self.0, DAY_SECONDS].map(|number| number.to_string())
    }
}
