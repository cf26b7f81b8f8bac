//! tollgate itself, as users call it.

use tollgate::{Clock, Key, KeyedLimiter, Limit, Limiter};

use crate::subjects::{BATCH, Batch, Drain, Subject};
use crate::workload::Allowance;

/// tollgate with keys.
pub(crate) struct TollgateKeyed(KeyedLimiter);

impl TollgateKeyed {
    pub(crate) fn new(allowance: Allowance) -> TollgateKeyed {
        TollgateKeyed::with(&[&spell(allowance)])
    }

    /// Creates a limiter on the kernel's coarse clock, which is faster and less precise.
    pub(crate) fn coarse(allowance: Allowance) -> TollgateKeyed {
        let limit = parse(&spell(allowance));
        TollgateKeyed(Limiter::builder().limit(limit).clock(Clock::coarse()).build_keyed())
    }

    /// Creates a limiter with limits as users write them.
    pub(crate) fn with(limits: &[&str]) -> TollgateKeyed {
        let limits: Vec<Limit> = limits.iter().map(|limit| parse(limit)).collect();
        TollgateKeyed(Limiter::keyed(limits))
    }
}

impl Subject<String> for TollgateKeyed {
    #[inline]
    fn allow(&self, key: &String) -> bool {
        self.0.check(key.as_str()).is_ok()
    }
}

impl Subject<u64> for TollgateKeyed {
    #[inline]
    fn allow(&self, key: &u64) -> bool {
        self.0.check(*key).is_ok()
    }
}

impl Drain<String> for TollgateKeyed {
    fn drain(&self, key: &String, burst: u32) {
        assert!(self.0.check_n(key.as_str(), u64::from(burst)).is_ok(), "tollgate refused");
    }
}

impl Batch<String> for TollgateKeyed {
    #[inline]
    fn allow_batch(&self, keys: &[String; BATCH]) -> u64 {
        let keys = keys.each_ref().map(|key| Key::from(key.as_str()));
        let mut allowed = 0;
        self.0.check_each(&keys, |answer| allowed += u64::from(answer.is_ok()));
        allowed
    }
}

/// tollgate with one state.
pub(crate) struct TollgateSingle(Limiter);

impl TollgateSingle {
    pub(crate) fn new(allowance: Allowance) -> TollgateSingle {
        TollgateSingle(Limiter::new(parse(&spell(allowance))))
    }

    /// Creates a limiter on the kernel's coarse clock.
    pub(crate) fn coarse(allowance: Allowance) -> TollgateSingle {
        let limit = parse(&spell(allowance));
        TollgateSingle(Limiter::builder().limit(limit).clock(Clock::coarse()).build())
    }
}

impl Subject<()> for TollgateSingle {
    #[inline]
    fn allow(&self, (): &()) -> bool {
        self.0.check().is_ok()
    }
}

impl Drain<()> for TollgateSingle {
    fn drain(&self, (): &(), burst: u32) {
        assert!(self.0.check_n(u64::from(burst)).is_ok(), "tollgate refused to drain");
    }
}

fn spell(allowance: Allowance) -> String {
    format!("1/{}s burst {}", allowance.every.as_secs(), allowance.burst)
}

fn parse(limit: &str) -> Limit {
    limit.parse().unwrap_or_else(|error| panic!("`{limit}`: {error}"))
}
