//! Inline limits: limits that callers send along instead of using rules.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tollgate::limit::{InvalidLimit, ParseLimitError};
use tollgate::{Check, CounterId, Key, Limit, LimitAlgorithm};

/// The maximum number of cached texts. Texts come from clients, so the cache is bounded.
const MAX_CACHED: usize = 4096;
/// The maximum length of a text, in bytes.
const MAX_TEXT_LENGTH: usize = 256;

/// An inline limit and the id of its counters.
///
/// A key has one counter for every inline limit, except that the limits of `CL.THROTTLE` share one.
#[derive(Clone, Debug)]
pub(crate) struct InlineLimit {
    pub(crate) limit: Limit,
    pub(crate) counter: CounterId,
    /// Whether the limits of other calls use the same counter.
    limit_varies: bool,
}

/// One of the key spaces of the Redis protocol, which clients choose with `SELECT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Database(u8);

impl Database {
    /// The number of databases, as in the default configuration of Redis.
    pub(crate) const COUNT: u8 = 16;

    /// Returns the database of a number, if there is one.
    pub(crate) fn new(number: i64) -> Option<Database> {
        u8::try_from(number).ok().filter(|number| *number < Database::COUNT).map(Database)
    }

    pub(crate) fn number(self) -> u8 {
        self.0
    }

    /// Returns the id of the counters of `CL.THROTTLE`.
    fn throttle_counter(self) -> CounterId {
        CounterId::from_parts(&["throttle", &self.0.to_string()])
    }
}

/// The reason why a text is not a limit.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum InlineLimitError {
    /// The text cannot be parsed.
    #[error(transparent)]
    Limit(#[from] ParseLimitError),
    /// The numbers of the text are out of range.
    #[error("{0}")]
    Invalid(InvalidLimit),
    /// The rate is above one token a nanosecond.
    #[error("the rate is above one token a nanosecond")]
    TooFast,
    /// The text is too long.
    #[error("a limit has at most {MAX_TEXT_LENGTH} characters, such as 10/s burst 20")]
    TooLong,
}

impl InlineLimit {
    /// Creates an inline limit. Its counters depend on the meaning of the limit, not on its
    /// spelling.
    pub(crate) fn new(limit: Limit) -> InlineLimit {
        let counter = CounterId::from_parts(&["brought", &limit.to_string()]);
        InlineLimit { limit, counter, limit_varies: false }
    }

    /// Creates an inline limit on the one counter that a key has in a database, whatever its limit:
    /// a token bucket in [whole nanoseconds](Limit::with_whole_nanoseconds).
    pub(crate) fn on_shared_counter(database: Database, bucket: Limit) -> InlineLimit {
        let (limit, counter) = (bucket.with_whole_nanoseconds(), database.throttle_counter());
        InlineLimit { limit, counter, limit_varies: true }
    }

    /// Returns the check of a key. Inline limits come and go, so their counters are kept apart from
    /// those of rules.
    #[inline]
    pub(crate) fn check<'c>(&'c self, key: &'c [u8], cost: u64) -> Check<'c> {
        Check {
            apart: true,
            limit_varies: self.limit_varies,
            ..Check::new(self.counter, Key::Bytes(key), &self.limit, cost)
        }
    }

    /// Returns a new permit id if the limit is on concurrency. The permit is free when its lease
    /// ends.
    pub(super) fn lease(&self) -> u64 {
        if self.has_permits() { fastrand::u64(..) | 1 << 63 } else { 0 }
    }

    /// Returns whether the limit is on concurrency: its permits are held and returned, not spent.
    pub(super) fn has_permits(&self) -> bool {
        let algorithm = self.limit.algorithm();
        matches!(algorithm, LimitAlgorithm::Concurrent(_) | LimitAlgorithm::Adaptive(_))
    }
}

/// A cache of parsed inline limits, by their text.
#[derive(Debug, Default)]
pub(super) struct InlineLimitCache(RwLock<HashMap<Box<str>, Arc<InlineLimit>>>);

impl InlineLimitCache {
    pub(super) fn get(&self, text: &str) -> Result<Arc<InlineLimit>, InlineLimitError> {
        self.get_or(text, || Ok(InlineLimit::new(text.parse()?)))
    }

    /// Returns the cached limit of a text in another notation, or the one that `limit` makes of it.
    pub(super) fn get_or(
        &self,
        text: &str,
        limit: impl FnOnce() -> Result<InlineLimit, InlineLimitError>,
    ) -> Result<Arc<InlineLimit>, InlineLimitError> {
        if let Some(cached) = self.0.read().get(text) {
            return Ok(cached.clone());
        }
        if text.len() > MAX_TEXT_LENGTH {
            return Err(InlineLimitError::TooLong);
        }
        let inline = Arc::new(limit()?);
        let mut cached = self.0.write();
        if cached.len() >= MAX_CACHED {
            cached.clear();
        }
        cached.insert(text.into(), inline.clone());
        Ok(inline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_known_by_what_it_says() {
        let cache = InlineLimitCache::default();
        let same = [cache.get("10/s"), cache.get("10 / s"), cache.get("600/min burst 10")];
        let [one, two, three] = same.map(|inline| inline.unwrap().counter);
        assert_eq!(one, two);
        assert_ne!(one, three);
    }

    #[test]
    fn callers_cannot_fill_the_memory() {
        let cache = InlineLimitCache::default();
        for rate in 1..10_000 {
            cache.get(&format!("{rate}/s")).unwrap();
        }
        assert!(cache.0.read().len() <= MAX_CACHED);
        assert!(matches!(cache.get(&"9".repeat(300)), Err(InlineLimitError::TooLong)));
    }
}
