//! governor: GCRA, keyed by a DashMap with the default hasher, or direct.

use std::hash::Hash;
use std::num::NonZeroU32;

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::subjects::{Drain, Subject};
use crate::workload::Allowance;

/// governor with keys.
pub(crate) struct GovernorKeyed<K: Hash + Eq + Clone>(DefaultKeyedRateLimiter<K>);

impl<K: Hash + Eq + Clone> GovernorKeyed<K> {
    pub(crate) fn new(allowance: Allowance) -> GovernorKeyed<K> {
        GovernorKeyed(RateLimiter::keyed(quota(allowance)))
    }
}

impl<K: Hash + Eq + Clone + Send + Sync> Subject<K> for GovernorKeyed<K> {
    #[inline]
    fn allow(&self, key: &K) -> bool {
        self.0.check_key(key).is_ok()
    }
}

impl<K: Hash + Eq + Clone + Send + Sync> Drain<K> for GovernorKeyed<K> {
    fn drain(&self, key: &K, burst: u32) {
        let burst = NonZeroU32::new(burst).expect("a burst above zero");
        assert!(matches!(self.0.check_key_n(key, burst), Ok(Ok(()))), "governor refused to drain");
    }
}

/// governor with one state.
pub(crate) struct GovernorDirect(DefaultDirectRateLimiter);

impl GovernorDirect {
    pub(crate) fn new(allowance: Allowance) -> GovernorDirect {
        GovernorDirect(RateLimiter::direct(quota(allowance)))
    }
}

impl Subject<()> for GovernorDirect {
    #[inline]
    fn allow(&self, (): &()) -> bool {
        self.0.check().is_ok()
    }
}

impl Drain<()> for GovernorDirect {
    fn drain(&self, (): &(), burst: u32) {
        let burst = NonZeroU32::new(burst).expect("a burst above zero");
        assert!(matches!(self.0.check_n(burst), Ok(Ok(()))), "governor refused to drain");
    }
}

fn quota(allowance: Allowance) -> Quota {
    let burst = NonZeroU32::new(allowance.burst).expect("a burst above zero");
    Quota::with_period(allowance.every).expect("a period above zero").allow_burst(burst)
}
