//! The bound on the state of one counter: limits that could exceed it are rejected.

use super::InvalidLimit;
use super::algorithm::LimitAlgorithm;
use super::keyword::Keyword;

/// The most entries of one counter: requests in a log, or permits in flight.
///
/// A log stores the time of every request in its window, and a concurrency limit stores a lease for
/// every permit. So the amount of such a limit bounds the size of its counters, and a limit with a
/// larger amount is not valid, wherever it comes from.
///
/// The value keeps a counter below a mebibyte in memory, and at 600 kB or less in Redis. Redis reads and
/// writes a counter as a whole for every decision: ten thousand permits take it 5 milliseconds, and a
/// hundred thousand would take longer than a store has to answer.
///
/// ```
/// use tollgate::Limit;
/// use tollgate::limit::MAX_ENTRIES;
/// assert!(Limit::per_hour(MAX_ENTRIES)?.log().is_ok());
/// assert!(Limit::per_hour(MAX_ENTRIES + 1)?.log().is_err());
/// assert!(Limit::per_hour(MAX_ENTRIES + 1)?.sliding()?.slots(60).is_ok());
/// assert!(Limit::concurrent(MAX_ENTRIES + 1).is_err());
/// # Ok::<(), tollgate::limit::InvalidLimit>(())
/// ```
pub const MAX_ENTRIES: u64 = 10_000;

/// Rejects an algorithm whose state could have more than [`MAX_ENTRIES`] entries.
///
/// A sliding window has fewer slots than that, and other states do not grow.
pub(super) fn check(algorithm: &LimitAlgorithm) -> Result<(), InvalidLimit> {
    let stores = match algorithm {
        LimitAlgorithm::SlidingLog(_) => Keyword::Log,
        LimitAlgorithm::Concurrent(_) => Keyword::Concurrent,
        LimitAlgorithm::Adaptive(_) => Keyword::Adaptive,
        _ => return Ok(()),
    };
    match algorithm.capacity() {
        ..=MAX_ENTRIES => Ok(()),
        amount => Err(InvalidLimit::TooManyEntries { algorithm: stores.as_str(), amount }),
    }
}
