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

/// The health of an upstream when an attempt to use it began.
///
/// Attempts that were under way together fail together, so that only the first of their failures
/// counts. Otherwise a short outage would look like a long row of failures.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttemptStart {
    failures: u64,
    /// Whether the upstream was ejected, so that a failure is no news.
    is_ejected: bool,
}

/// The health of an upstream.
#[derive(Debug)]
pub(super) struct UpstreamHealth {
    name: String,
    /// The number of ejections since the last response.
    rests: AtomicU32,
    /// The end of the ejection, in monotonic milliseconds.
    until_ms: AtomicU64,
    /// The time from which the next probe may be sent, in monotonic milliseconds.
    probe_ms: AtomicU64,
    /// The number of failures that ever counted.
    failures: AtomicU64,
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
            probe_ms: AtomicU64::new(0),
            failures: AtomicU64::new(0),
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
        self.is_well() || self.starts_probe(clock::monotonic_ms())
    }

    /// Returns whether a request of now probes the upstream.
    fn starts_probe(&self, now_ms: u64) -> bool {
        if !self.says_well.load(Ordering::Relaxed) || self.is_ejected(now_ms) {
            return false;
        }
        // A probe may be cancelled, so another request probes a moment later.
        let (probe_ms, order) = (self.probe_ms.load(Ordering::Relaxed), Ordering::Relaxed);
        let next_ms = now_ms + FINDING_OUT_MS;
        now_ms >= probe_ms
            && self.probe_ms.compare_exchange(probe_ms, next_ms, order, order).is_ok()
    }

    fn is_ejected(&self, now_ms: u64) -> bool {
        now_ms < self.until_ms.load(Ordering::Relaxed)
    }

    /// Records the start of an attempt to use the upstream.
    pub(super) fn start_attempt(&self) -> AttemptStart {
        let failures = self.failures.load(Ordering::Relaxed);
        // The clock is not read for a healthy upstream.
        let is_ejected = !self.is_well() && self.is_ejected(clock::monotonic_ms());
        AttemptStart { failures, is_ejected }
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

    /// Records that an attempt could not reach the upstream.
    ///
    /// Only a failure that says something new counts: not that of an attempt during an ejection, and
    /// not that of an attempt that began before the last failure.
    pub(super) fn unreachable(&self, start: AttemptStart, why: &dyn std::fmt::Display) {
        let (known, order) = (start.failures, Ordering::Relaxed);
        if start.is_ejected
            || self.failures.compare_exchange(known, known + 1, order, order).is_err()
        {
            return;
        }
        let rests = self.rests.fetch_add(1, Ordering::Relaxed).min(MOST_DOUBLINGS);
        let until = clock::monotonic_ms() + (FIRST_REST_MS << rests);
        self.until_ms.store(until, Ordering::Relaxed);
        self.show(why);
    }

    /// Records that the response to an attempt was late.
    pub(super) fn late(&self, start: AttemptStart) {
        if self.late.fetch_add(1, Ordering::Relaxed) + 1 >= LATE_IN_A_ROW {
            self.unreachable(start, &"it does not answer in time");
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
        health.unreachable(health.start_attempt(), &"gone");
        assert!(!health.takes_requests() && !shown.load(Ordering::Relaxed));
        health.until_ms.store(0, Ordering::Relaxed);
        assert!(health.takes_requests(), "one finds out");
        assert!(!health.takes_requests(), "and no second one meanwhile");
        health.unreachable(health.start_attempt(), &"still");
        let rest = health.until_ms.load(Ordering::Relaxed) - clock::monotonic_ms();
        assert!((1_001..=2_000).contains(&rest), "{rest}");
        health.answered();
        assert!(health.takes_requests() && shown.load(Ordering::Relaxed));
    }

    /// Returns the rest of an ejection, in milliseconds.
    fn rest_ms(health: &UpstreamHealth) -> u64 {
        health.until_ms.load(Ordering::Relaxed).saturating_sub(clock::monotonic_ms())
    }

    #[test]
    fn attempts_that_fail_together_are_one_failure() {
        let health = UpstreamHealth::new("a".into(), Arc::new(AtomicBool::new(true)));
        let starts: Vec<_> = (0..24).map(|_| health.start_attempt()).collect();
        starts.iter().for_each(|start| health.unreachable(*start, &"gone"));
        assert!(rest_ms(&health) <= FIRST_REST_MS, "{}", rest_ms(&health));
        // While the upstream is ejected, requests without another choice still try it.
        (0..24).for_each(|_| health.unreachable(health.start_attempt(), &"still"));
        assert!(rest_ms(&health) <= FIRST_REST_MS, "{}", rest_ms(&health));
        health.until_ms.store(0, Ordering::Relaxed);
        let probe = health.start_attempt();
        starts.iter().for_each(|start| health.late(*start));
        assert_eq!(rest_ms(&health), 0, "these began before the last failure");
        health.unreachable(probe, &"still");
        let rest = rest_ms(&health);
        assert!(FIRST_REST_MS < rest && rest <= 2 * FIRST_REST_MS, "{rest}");
    }

    #[test]
    fn a_recovered_upstream_takes_few_requests_at_first() {
        let health = UpstreamHealth::new("a".into(), Arc::new(AtomicBool::new(true)));
        let share = |later_ms| {
            let now_ms = clock::monotonic_ms() + later_ms;
            (0..1_000).filter(|_| health.takes_its_share_at(now_ms)).count()
        };
        assert_eq!((share(0), health.notice_return()), (1_000, false));
        health.unreachable(health.start_attempt(), &"gone");
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
            health.late(health.start_attempt());
            health.late(health.start_attempt());
            health.answered();
            assert!(health.takes_requests());
        }
        (0..LATE_IN_A_ROW).for_each(|_| health.late(health.start_attempt()));
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
