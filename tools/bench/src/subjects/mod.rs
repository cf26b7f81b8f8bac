//! The measured limiters, each behind a small trait.

pub(crate) mod governor;
pub(crate) mod leaky_bucket;
pub(crate) mod limitador;
pub(crate) mod ratelimit;
pub(crate) mod throttlecrab;
pub(crate) mod tollgate;

/// A limiter with keys of type `K`; without keys, `K` is `()`.
pub(crate) trait Subject<K>: Send + Sync {
    /// Decides one request of cost 1.
    fn allow(&self, key: &K) -> bool;
}

/// A limiter that can be emptied for a key in one call, to set up denials.
pub(crate) trait Drain<K>: Subject<K> {
    /// Takes all `burst` tokens of a fresh key.
    fn drain(&self, key: &K, burst: u32);
}

/// The number of decisions in one call of the batch measurements.
pub(crate) const BATCH: usize = 16;

/// A limiter that decides many requests in one call.
pub(crate) trait Batch<K>: Subject<K> {
    /// Decides one request of cost 1 for each key and counts the allowed ones.
    fn allow_batch(&self, keys: &[K; BATCH]) -> u64;
}
