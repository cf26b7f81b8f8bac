//! How advance charges were settled, for telemetry.

use std::fmt;
use std::sync::Arc;

/// How a rule's advance charge was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SettledAs {
    /// The actual cost was never known; the charge stays.
    Kept,
    /// The actual cost equals the charge.
    Exact,
    /// The actual cost is lower, but too late for a refund.
    Expired,
    /// The actual cost is lower; the difference was refunded.
    Refunded,
    /// The actual cost is higher; the difference was charged, as debt where the limit is used up.
    Overrun,
    /// The actual cost is higher, but the store did not answer; the difference is charged when it
    /// next decides on the counter.
    Owed,
}

impl SettledAs {
    /// All variants.
    pub const ALL: [SettledAs; 6] = [
        SettledAs::Kept,
        SettledAs::Exact,
        SettledAs::Expired,
        SettledAs::Refunded,
        SettledAs::Overrun,
        SettledAs::Owed,
    ];

    /// Returns the name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            SettledAs::Kept => "kept",
            SettledAs::Exact => "exact",
            SettledAs::Expired => "expired",
            SettledAs::Refunded => "refunded",
            SettledAs::Overrun => "overrun",
            SettledAs::Owed => "owed",
        }
    }
}

type SettlementObserver = dyn Fn(&str, &str, SettledAs) + Send + Sync;

/// The function that is called when charges are settled, if any.
#[derive(Clone, Default)]
pub(crate) struct SettlementListener(Option<Arc<SettlementObserver>>);

impl SettlementListener {
    pub(crate) fn new(observer: impl Fn(&str, &str, SettledAs) + Send + Sync + 'static) -> Self {
        SettlementListener(Some(Arc::new(observer)))
    }

    pub(crate) fn notify(&self, domain: &str, rule: &str, settled: SettledAs) {
        if let Some(observer) = &self.0 {
            observer(domain, rule, settled);
        }
    }
}

impl fmt::Debug for SettlementListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SettlementListener").field(&self.0.is_some()).finish()
    }
}
