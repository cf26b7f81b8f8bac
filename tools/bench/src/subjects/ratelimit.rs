//! ratelimit: a lock-free token bucket, without keys.

use ratelimit::Ratelimiter;

use crate::subjects::{Drain, Subject};
use crate::workload::Allowance;

/// ratelimit with a full bucket.
pub(crate) struct Ratelimit(Ratelimiter);

impl Ratelimit {
    pub(crate) fn new(allowance: Allowance) -> Ratelimit {
        let burst = u64::from(allowance.burst);
        let bucket = Ratelimiter::builder(1)
            .period(allowance.every)
            .max_tokens(burst)
            .initial_available(burst)
            .build();
        Ratelimit(bucket.expect("a valid bucket"))
    }
}

impl Subject<()> for Ratelimit {
    #[inline]
    fn allow(&self, (): &()) -> bool {
        self.0.try_wait().is_ok()
    }
}

impl Drain<()> for Ratelimit {
    fn drain(&self, (): &(), burst: u32) {
        assert!(self.0.try_wait_n(u64::from(burst)).is_ok(), "ratelimit refused to drain");
    }
}
