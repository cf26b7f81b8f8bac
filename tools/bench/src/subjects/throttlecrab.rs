//! throttlecrab: GCRA over a periodic store. The limiter needs `&mut self`, so threads share it behind a
//! mutex; the caller provides the clock.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the real clock")]

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use throttlecrab::{PeriodicStore, RateLimiter};

use crate::subjects::{Drain, Subject};
use crate::workload::Allowance;

/// throttlecrab as a program with threads uses it.
pub(crate) struct Throttlecrab {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    burst: i64,
    every_secs: i64,
}

impl Throttlecrab {
    pub(crate) fn new(allowance: Allowance) -> Throttlecrab {
        Throttlecrab {
            limiter: Mutex::new(RateLimiter::new(PeriodicStore::new())),
            burst: i64::from(allowance.burst),
            every_secs: allowance.every.as_secs() as i64,
        }
    }

    #[inline]
    fn take(&self, key: &str, cost: i64) -> bool {
        let now = SystemTime::now();
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        let decision = limiter.rate_limit(key, self.burst, 1, self.every_secs, cost, now);
        decision.is_ok_and(|(allowed, _)| allowed)
    }
}

impl Subject<String> for Throttlecrab {
    #[inline]
    fn allow(&self, key: &String) -> bool {
        self.take(key, 1)
    }
}

impl Drain<String> for Throttlecrab {
    fn drain(&self, key: &String, burst: u32) {
        assert!(self.take(key, i64::from(burst)), "throttlecrab refused to drain");
    }
}
