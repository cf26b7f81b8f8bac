//! Where the counters of a test are, and what lies between a node and them.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use parking_lot::Mutex;
use tollgate::state::{self, State};
use tollgate::testing::ManualClock;
use tollgate::{Bucket, Call, Check, Clock, Span, StoreError, StoreErrorKind, Time};

use super::Random;
use crate::modes::Truth;
use crate::strict::{Outcome, States, in_micros};

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Table(Mutex<HashMap<(Bucket, String), State>>);

impl Table {
    fn run(&self, call: Call<'_>, now: Time) -> Outcome {
        let mut table = self.0.lock();
        let name = |check: &Check<'_>| (check.bucket, format!("{:?}", check.key));
        let mut states: States =
            call.checks.iter().map(|check| table.get(&name(check)).cloned()).collect();
        let verdicts = state::run(call, &mut states, now).into_iter().map(in_micros).collect();
        for (check, state) in call.checks.iter().zip(&states) {
            match state {
                Some(state) => table.insert(name(check), state.clone()),
                None => table.remove(&name(check)),
            };
        }
        Outcome { verdicts, states, now }
    }
}

/// The way of one node to the table.
pub(super) struct Wire {
    table: Arc<Table>,
    clock: Clock,
    /// How far its estimate of the table's time is ahead.
    pub(super) ahead: Mutex<Span>,
    /// Looks a question takes on its way, at most, and an answer.
    pub(super) slow: AtomicU64,
    pub(super) away: AtomicBool,
    random: Mutex<Random>,
    calls: AtomicU64,
}

impl Wire {
    pub(super) fn new(table: Arc<Table>, clock: &ManualClock) -> Wire {
        Wire {
            table,
            clock: clock.into(),
            ahead: Mutex::new(Span::ZERO),
            slow: AtomicU64::new(0),
            away: AtomicBool::new(false),
            random: Mutex::new(Random(7)),
            calls: AtomicU64::new(0),
        }
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Takes a few looks.
    async fn delay(&self) {
        let mut looks = self.random.lock().below(self.slow.load(Ordering::Relaxed) + 1);
        poll_fn(|context| {
            context.waker().wake_by_ref();
            looks = looks.saturating_sub(1);
            if looks == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn late(&self, sent: Time) -> Result<(), StoreError> {
        match self.clock.now().since(sent) > self.patience() {
            true => Err(StoreError::new("late").of(StoreErrorKind::TimedOut)),
            false => Ok(()),
        }
    }
}

impl Truth for Wire {
    async fn run(&self, call: Call<'_>) -> Result<Outcome, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.away.load(Ordering::Relaxed) {
            return Err(StoreError::new("away").of(StoreErrorKind::Resting));
        }
        let sent = self.clock.now();
        self.delay().await;
        self.late(sent)?;
        let outcome = self.table.run(call, self.clock.now());
        self.delay().await;
        self.late(sent)?;
        Ok(outcome)
    }

    fn latest(&self, _check: &Check<'_>) -> Option<Time> {
        Some(self.clock.now() + *self.ahead.lock())
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn place(&self, _check: &Check<'_>) -> u32 {
        0
    }

    fn patience(&self) -> Span {
        Span::from_millis(50)
    }
}
