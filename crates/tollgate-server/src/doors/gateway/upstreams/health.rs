//! The health of an upstream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::clock;

/// The first ejection time of an unreachable upstream, in milliseconds; doubled each time.
const FIRST_REST_MS: u64 = 1_000;
/// The maximum number of doublings.
const MOST_DOUBLINGS: u32 = 6;
/// The time for one request to probe an ejected upstream, in milliseconds.
const FINDING_OUT_MS: u64 = 1_000;
/// The time in which a recovered upstream takes fewer requests than its share, in milliseconds.
const WARM_UP_MS: u64 = 10_000;
/// The number of consecutive late responses that eject an upstream.
const LATE_IN_A_ROW: u32 = 3;

/// The health of an upstream.
#[derive(Debug)]
pub(super) struct UpstreamHealth {
    name: String,
    /// The number of ejections since the last response.
    rests: AtomicU32,
    /// The end of the ejection, in monotonic milliseconds.
    until_ms: AtomicU64,
    late: AtomicU32,
    /// The time of the recovery, in monotonic milliseconds; zero if there was none.
    back_ms: AtomicU64,
    /// Whether a recovery has not been noticed yet.
    is_back: AtomicBool,
    /// The result of the last health check, if there is one.
    says_well: AtomicBool,
    /// Whether the upstream is healthy; shared with the metrics.
    shown: Arc<AtomicBool>,
}

impl UpstreamHealth {
    pub(super) fn new(name: String, shown: Arc<AtomicBool>) -> UpstreamHealth {
        UpstreamHealth {
            name,
            rests: AtomicU32::new(0),
            until_ms: AtomicU64::new(0),
            late: AtomicU32::new(0),
            back_ms: AtomicU64::new(0),
            is_back: AtomicBool::new(false),
            says_well: AtomicBool::new(true),
            shown,
        }
    }

    /// Returns whether the upstream may be sent a request. After an ejection, one request at a time
    /// probes the upstream.
    pub(super) fn takes_requests(&self) -> bool {
        if self.shown.load(Ordering::Relaxed) {
            return true;
        }
        let (now, until) = (clock::monotonic_ms(), self.until_ms.load(Ordering::Relaxed));
        // A probe may be cancelled, so another request probes a moment later.
        let finds_out = |until| {
            let next = now + FINDING_OUT_MS;
            let order = Ordering::Relaxed;
            self.until_ms.compare_exchange(until, next, order, order).is_ok()
        };
        self.says_well.load(Ordering::Relaxed) && now >= until && finds_out(until)
    }

    /// Returns whether the upstream is healthy.
    pub(super) fn is_well(&self) -> bool {
        self.shown.load(Ordering::Relaxed)
    }

    /// Returns whether the upstream takes this request where another could: a recovered one takes
    /// few at first, and its full share after a while.
    pub(super) fn takes_its_share(&self) -> bool {
        self.back_ms.load(Ordering::Relaxed) == 0 || self.takes_its_share_at(clock::monotonic_ms())
    }

    fn takes_its_share_at(&self, now_ms: u64) -> bool {
        let back_ms = self.back_ms.load(Ordering::Relaxed);
        if back_ms == 0 {
            return true;
        }
        let since_ms = now_ms.saturating_sub(back_ms);
        if since_ms >= WARM_UP_MS {
            // Only the first request resets it, because the upstream may have recovered again.
            let order = Ordering::Relaxed;
            let _ = self.back_ms.compare_exchange(back_ms, 0, order, order);
        }
        fastrand::u64(..WARM_UP_MS) < since_ms
    }

    /// Returns whether the upstream has recovered since the last call.
    pub(super) fn notice_return(&self) -> bool {
        self.is_back.load(Ordering::Relaxed) && self.is_back.swap(false, Ordering::Relaxed)
    }

    /// Records a response of any status.
    pub(super) fn answered(&self) {
        if self.late.load(Ordering::Relaxed) > 0 {
            self.late.store(0, Ordering::Relaxed);
        }
        if !self.shown.load(Ordering::Relaxed) {
            self.rests.store(0, Ordering::Relaxed);
            self.show("it answers again");
        }
    }

    /// Records that the upstream is unreachable.
    pub(super) fn unreachable(&self, why: &dyn std::fmt::Display) {
        let rests = self.rests.fetch_add(1, Ordering::Relaxed).min(MOST_DOUBLINGS);
        let until = clock::monotonic_ms() + (FIRST_REST_MS << rests);
        self.until_ms.store(until, Ordering::Relaxed);
        self.show(why);
    }

    /// Records a late response.
    pub(super) fn late(&self) {
        if self.late.fetch_add(1, Ordering::Relaxed) + 1 >= LATE_IN_A_ROW {
            self.unreachable(&"it does not answer in time");
        }
    }

    /// Records the result of a health check.
    pub(super) fn says(&self, well: Result<(), String>) {
        self.says_well.store(well.is_ok(), Ordering::Relaxed);
        match well {
            Ok(()) => self.answered(),
            Err(why) => self.show(&why),
        }
    }

    /// Logs a change of the health, once.
    fn show(&self, why: impl std::fmt::Display) {
        let well =
            self.rests.load(Ordering::Relaxed) == 0 && self.says_well.load(Ordering::Relaxed);
        if self.shown.swap(well, Ordering::Relaxed) != well {
            let upstream = &self.name;
            match well {
                true => {
                    self.back_ms.store(clock::monotonic_ms().max(1), Ordering::Relaxed);
                    self.is_back.store(true, Ordering::Relaxed);
                    tracing::info!(%upstream, "the upstream is healthy again: {why}");
                }
                false => tracing::warn!(%upstream, "the upstream is ejected: {why}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_upstream_is_ejected_until_a_probe_succeeds() {
        let shown = Arc::new(AtomicBool::new(true));
        let health = UpstreamHealth::new("a".into(), shown.clone());
        assert!(health.takes_requests());
        health.unreachable(&"gone");
        assert!(!health.takes_requests() && !shown.load(Ordering::Relaxed));
        health.until_ms.store(0, Ordering::Relaxed);
        assert!(health.takes_requests(), "one finds out");
        assert!(!health.takes_requests(), "and no second one meanwhile");
        health.unreachable(&"still");
        let rest = health.until_ms.load(Ordering::Relaxed) - clock::monotonic_ms();
        assert!((1_001..=2_000).contains(&rest), "{rest}");
        health.answered();
        assert!(health.takes_requests() && shown.load(Ordering::Relaxed));
    }

    #[test]
    fn a_recovered_upstream_takes_few_requests_at_first() {
        let health = UpstreamHealth::new("a".into(), Arc::new(AtomicBool::new(true)));
        let share = |later_ms| {
            let now_ms = clock::monotonic_ms() + later_ms;
            (0..1_000).filter(|_| health.takes_its_share_at(now_ms)).count()
        };
        assert_eq!((share(0), health.notice_return()), (1_000, false));
        health.unreachable(&"gone");
        health.answered();
        assert!(health.notice_return() && !health.notice_return());
        assert!((350..650).contains(&share(WARM_UP_MS / 2)), "half of it");
        assert_eq!(share(WARM_UP_MS + 1), 1_000);
        assert_eq!(share(0), 1_000, "and that is that");
    }

    #[test]
    fn one_late_response_does_not_eject() {
        let health = UpstreamHealth::new("a".into(), Arc::new(AtomicBool::new(true)));
        for _ in 0..5 {
            health.late();
            health.late();
            health.answered();
            assert!(health.takes_requests());
        }
        (0..LATE_IN_A_ROW).for_each(|_| health.late());
        assert!(!health.takes_requests());
    }

    #[test]
    fn an_upstream_that_fails_its_health_check_is_ejected_until_it_passes() {
        let health = UpstreamHealth::new("a".into(), Arc::new(AtomicBool::new(true)));
        health.says(Err("503".into()));
        assert!(!health.takes_requests());
        health.says(Ok(()));
        assert!(health.takes_requests());
    }
}
