//! leaky-bucket: made for waiting in async code, without keys; `try_acquire` is its decision.

use leaky_bucket::RateLimiter;

use crate::subjects::{Drain, Subject};
use crate::workload::Allowance;

/// leaky-bucket with all its tokens.
pub(crate) struct LeakyBucket(RateLimiter);

impl LeakyBucket {
    pub(crate) fn new(allowance: Allowance) -> LeakyBucket {
        let burst = allowance.burst as usize;
        let mut bucket = RateLimiter::builder();
        bucket.max(burst).initial(burst).refill(1).interval(allowance.every);
        LeakyBucket(bucket.build())
    }
}

impl Subject<()> for LeakyBucket {
    #[inline]
    fn allow(&self, (): &()) -> bool {
        self.0.try_acquire(1)
    }
}

impl Drain<()> for LeakyBucket {
    fn drain(&self, (): &(), burst: u32) {
        assert!(self.0.try_acquire(burst as usize), "leaky-bucket refused to drain");
    }
}
