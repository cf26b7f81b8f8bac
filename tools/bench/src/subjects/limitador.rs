//! limitador: fixed windows in memory. A decision starts from a map of request attributes, as in its
//! server.

use std::collections::HashMap;

use limitador::RateLimiter;
use limitador::limit::{Context, Limit, Namespace};

use crate::subjects::{Drain, Subject};
use crate::workload::Allowance;

/// limitador with one limit per `user`.
pub(crate) struct Limitador {
    limiter: RateLimiter,
    namespace: Namespace,
}

impl Limitador {
    /// Creates a limiter of at most twice `keys` counters, so that nothing measured is evicted.
    pub(crate) fn new(allowance: Allowance, keys: usize) -> Limitador {
        let limiter = RateLimiter::new(keys as u64 * 2 + 1_000);
        let user = "user".try_into().expect("a valid expression");
        let window_secs = allowance.every.as_secs() * u64::from(allowance.burst);
        limiter.add_limit(Limit::new(
            "bench",
            u64::from(allowance.burst),
            window_secs,
            Vec::new(),
            vec![user],
        ));
        Limitador { limiter, namespace: "bench".into() }
    }

    fn take(&self, key: &str, cost: u64) -> bool {
        let values = HashMap::from([("user".to_owned(), key.to_owned())]);
        let context = Context::from(values);
        let checked = self.limiter.check_rate_limited_and_update(&self.namespace, &context, cost);
        checked.is_ok_and(|result| !result.limited)
    }
}

impl Subject<String> for Limitador {
    #[inline]
    fn allow(&self, key: &String) -> bool {
        self.take(key, 1)
    }
}

impl Drain<String> for Limitador {
    fn drain(&self, key: &String, burst: u32) {
        assert!(self.take(key, u64::from(burst)), "limitador refused to drain");
    }
}
