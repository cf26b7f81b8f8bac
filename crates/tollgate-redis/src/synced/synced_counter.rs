//! A synced counter.

use std::sync::Arc;

use tollgate::state::{self, State};
use tollgate::{Action, Check, Limit, LimitAlgorithm, Time, Verdict};

use crate::local::counter_name::CounterName;
use crate::local::decision::apply;

/// The state of a counter on this node, and what the store does not know of it.
#[derive(Debug)]
pub(super) struct SyncedCounter {
    pub(super) limit: Arc<Limit>,
    pub(super) state: Option<State>,
    /// The time of the state, by the store's clock.
    pub(super) at: Time,
    /// The units spent, less those given back, since the last push to the store.
    pub(super) unreported: i64,
    /// Whether some of these units are older than an interval.
    pub(super) late: bool,
    /// Whether there was a request since the last exchange.
    pub(super) used: bool,
    pub(super) idle: u32,
}

impl SyncedCounter {
    /// Moves the state back if the store's clock has stepped back.
    fn follow_clock(&mut self, now: Time) {
        if now < self.at
            && let Some(state) = &mut self.state
        {
            state::rewind(state, &self.limit, Some(self.at), now);
        }
        self.at = now;
    }

    /// Drops unreported units of a window that has ended.
    pub(super) fn roll(&mut self, now: Time) {
        self.follow_clock(now);
        let live = |state: &State| state::is_live(state, &self.limit, now);
        let is_window = matches!(self.limit.algorithm(), LimitAlgorithm::FixedWindow(_));
        if is_window && self.unreported != 0 && !self.state.as_ref().is_some_and(live) {
            self.unreported = 0;
        }
    }

    pub(super) fn apply(&mut self, action: Action, check: &Check<'_>, now: Time) -> Verdict {
        apply(action, check, &mut self.state, now)
    }

    pub(super) fn record(&mut self, action: Action, cost: u64) {
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        self.unreported = match action {
            Action::Refund => self.unreported.saturating_sub(cost),
            _ => self.unreported.saturating_add(cost),
        };
    }

    /// Returns the units to push to the store, and resets their count.
    pub(super) fn take_unreported(&mut self, name: &CounterName, now: Time) -> i64 {
        self.roll(now);
        let reported = match self.late && self.unreported > 0 {
            false => self.unreported,
            // Units that have refilled meanwhile do not count any more.
            true => {
                let check = name.check(&self.limit, 0);
                let remaining = apply(Action::Peek, &check, &mut self.state.clone(), now).remaining;
                let used = self.limit.capacity().saturating_sub(remaining);
                match remaining {
                    0 => self.unreported,
                    _ => self.unreported.min(i64::try_from(used).unwrap_or(i64::MAX)),
                }
            }
        };
        (self.unreported, self.late) = (0, false);
        reported
    }
}
