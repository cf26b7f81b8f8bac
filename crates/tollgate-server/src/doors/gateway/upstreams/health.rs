//! Whether an upstream can be sent requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::clock;

/// How long who cannot be reached is set aside at first, in milliseconds; doubled each time.
const FIRST_REST_MS: u64 = 1_000;
/// How often at most.
const MOST_DOUBLINGS: u32 = 6;
/// How long one request has to find out whether an upstream is back, in milliseconds.
const FINDING_OUT_MS: u64 = 1_000;
/// How long who is back takes fewer requests than its share, in milliseconds.
const WARM_UP_MS: u64 = 10_000;
/// So many answers must be late, none in between, for an upstream to be set aside.
const LATE_IN_A_ROW: u32 = 3;

/// Whether an upstream can be sent requests.
#[derive(Debug)]
pub(super) struct Health {
    name: String,
    /// Rests since it last answered.
    rests: AtomicU32,
    /// Until when it rests, in milliseconds of this process.
    until_ms: AtomicU64,
    late: AtomicU32,
    /// When it came back, in milliseconds of this process; never yet if zero.
    back_ms: AtomicU64,
    /// Whether it came back and nobody has taken notice yet.
    is_back: AtomicBool,
    /// What it last said of itself, where it is asked.
    says_well: AtomicBool,
    /// Whether all is well, for metrics.
    shown: Arc<AtomicBool>,
}

impl Health {
    pub(super) fn new(name: String, shown: Arc<AtomicBool>) -> Health {
        Health {
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

    /// Whether it may be sent a request. Of those that rest, one request at a time finds out
    /// whether it is back.
    pub(super) fn takes_requests(&self) -> bool {
        if self.shown.load(Ordering::Relaxed) {
            return true;
        }
        let (now, until) = (clock::monotonic_ms(), self.until_ms.load(Ordering::Relaxed));
        // Who finds out may leave without a word: somebody else does a moment later.
        let finds_out = |until| {
            let next = now + FINDING_OUT_MS;
            let order = Ordering::Relaxed;
            self.until_ms.compare_exchange(until, next, order, order).is_ok()
        };
        self.says_well.load(Ordering::Relaxed) && now >= until && finds_out(until)
    }

    /// Whether it is well.
    pub(super) fn is_well(&self) -> bool {
        self.shown.load(Ordering::Relaxed)
    }

    /// Whether it takes this request where another could: who is just back takes few at first, and
    /// its full share only after a while.
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
            // Only the first to see it: it may be back anew.
            let order = Ordering::Relaxed;
            let _ = self.back_ms.compare_exchange(back_ms, 0, order, order);
        }
        fastrand::u64(..WARM_UP_MS) < since_ms
    }

    /// Whether it is back since this was last asked.
    pub(super) fn notice_return(&self) -> bool {
        self.is_back.load(Ordering::Relaxed) && self.is_back.swap(false, Ordering::Relaxed)
    }

    /// It answered, whatever it said.
    pub(super) fn answered(&self) {
        if self.late.load(Ordering::Relaxed) > 0 {
            self.late.store(0, Ordering::Relaxed);
        }
        if !self.shown.load(Ordering::Relaxed) {
            self.rests.store(0, Ordering::Relaxed);
            self.show("it answers again");
        }
    }

    /// It cannot be reached.
    pub(super) fn unreachable(&self, why: &dyn std::fmt::Display) {
        let rests = self.rests.fetch_add(1, Ordering::Relaxed).min(MOST_DOUBLINGS);
        let until = clock::monotonic_ms() + (FIRST_REST_MS << rests);
        self.until_ms.store(until, Ordering::Relaxed);
        self.show(why);
    }

    /// It did not answer in time.
    pub(super) fn late(&self) {
        if self.late.fetch_add(1, Ordering::Relaxed) + 1 >= LATE_IN_A_ROW {
            self.unreachable(&"it does not answer in time");
        }
    }

    /// It was asked how it is.
    pub(super) fn says(&self, well: Result<(), String>) {
        self.says_well.store(well.is_ok(), Ordering::Relaxed);
        match well {
            Ok(()) => self.answered(),
            Err(why) => self.show(&why),
        }
    }

    /// Tells of a change, once.
    fn show(&self, why: impl std::fmt::Display) {
        let well =
            self.rests.load(Ordering::Relaxed) == 0 && self.says_well.load(Ordering::Relaxed);
        if self.shown.swap(well, Ordering::Relaxed) != well {
            let upstream = &self.name;
            match well {
                true => {
                    self.back_ms.store(clock::monotonic_ms().max(1), Ordering::Relaxed);
                    self.is_back.store(true, Ordering::Relaxed);
                    tracing::info!(%upstream, "the upstream is well again: {why}");
                }
                false => tracing::warn!(%upstream, "the upstream is set aside: {why}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_be_reached_rests_until_one_request_finds_it_back() {
        let shown = Arc::new(AtomicBool::new(true));
        let health = Health::new("a".into(), shown.clone());
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
    fn who_is_back_takes_few_requests_at_first() {
        let health = Health::new("a".into(), Arc::new(AtomicBool::new(true)));
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
    fn one_late_answer_is_no_illness() {
        let health = Health::new("a".into(), Arc::new(AtomicBool::new(true)));
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
    fn who_says_that_it_is_unwell_is_left_alone_until_it_says_otherwise() {
        let health = Health::new("a".into(), Arc::new(AtomicBool::new(true)));
        health.says(Err("503".into()));
        assert!(!health.takes_requests());
        health.says(Ok(()));
        assert!(health.takes_requests());
    }
}
