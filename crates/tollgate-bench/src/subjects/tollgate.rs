//! tollgate itself, as a user holds it.

use tollgate::{Clock, Key, KeyedLimiter, Limit, Limiter};

use crate::subjects::{BATCH, Batch, Drain, Subject};
use crate::workload::Allowance;

/// tollgate with keys.
pub(crate) struct Keyed(KeyedLimiter);

impl Keyed {
    pub(crate) fn new(allowance: Allowance) -> Keyed {
        Keyed::with(&[&spell(allowance)])
    }

    /// On the kernel's coarse clock, as users choose who would rather be quick than precise.
    pub(crate) fn coarse(allowance: Allowance) -> Keyed {
        let limit = parse(&spell(allowance));
        Keyed(Limiter::builder().limit(limit).clock(Clock::coarse()).build_keyed())
    }

    /// With limits as a user writes them.
    pub(crate) fn with(limits: &[&str]) -> Keyed {
        let limits: Vec<Limit> = limits.iter().map(|limit| parse(limit)).collect();
        Keyed(Limiter::keyed(limits))
    }
}

impl Subject<String> for Keyed {
    #[inline]
    fn allow(&self, key: &String) -> bool {
        self.0.check(key.as_str()).is_ok()
    }
}

impl Subject<u64> for Keyed {
    #[inline]
    fn allow(&self, key: &u64) -> bool {
        self.0.check(*key).is_ok()
    }
}

impl Drain<String> for Keyed {
    fn drain(&self, key: &String, burst: u32) {
        assert!(self.0.check_n(key.as_str(), u64::from(burst)).is_ok(), "tollgate refused");
    }
}

impl Batch<String> for Keyed {
    #[inline]
    fn allow_batch(&self, keys: &[String; BATCH]) -> u64 {
        let keys = keys.each_ref().map(|key| Key::from(key.as_str()));
        let mut allowed = 0;
        self.0.check_each(&keys, |answer| allowed += u64::from(answer.is_ok()));
        allowed
    }
}

/// tollgate with one state.
pub(crate) struct Single(Limiter);

impl Single {
    pub(crate) fn new(allowance: Allowance) -> Single {
        Single(Limiter::new(parse(&spell(allowance))))
    }

    /// On the kernel's coarse clock.
    pub(crate) fn coarse(allowance: Allowance) -> Single {
        let limit = parse(&spell(allowance));
        Single(Limiter::builder().limit(limit).clock(Clock::coarse()).build())
    }
}

impl Subject<()> for Single {
    #[inline]
    fn allow(&self, (): &()) -> bool {
        self.0.check().is_ok()
    }
}

impl Drain<()> for Single {
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
