//! A backend in memory that several nodes share, with delays and outages.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use parking_lot::Mutex;
use tollgate::state::{self, State};
use tollgate::testing::ManualClock;
use tollgate::{Check, Clock, CounterId, Span, StoreCall, StoreError, StoreErrorKind, Time};

use super::Random;
use crate::backend::Backend;
use crate::strict::{Outcome, States, in_micros};

/// The counters of a test.
#[derive(Debug, Default)]
pub(super) struct SharedCounters(Mutex<HashMap<(CounterId, String), State>>);

impl SharedCounters {
    fn run(&self, call: StoreCall<'_>, now: Time) -> Outcome {
        let mut table = self.0.lock();
        let name = |check: &Check<'_>| (check.counter, format!("{:?}", check.key));
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

/// The backend of one node, over the shared counters.
pub(super) struct FakeBackend {
    table: Arc<SharedCounters>,
    clock: Clock,
    /// The error of its estimate of the backend's time.
    pub(super) ahead: Mutex<Span>,
    /// The maximum number of polls that a request takes in each direction.
    pub(super) slow: AtomicU64,
    pub(super) away: AtomicBool,
    random: Mutex<Random>,
    calls: AtomicU64,
}

impl FakeBackend {
    pub(super) fn new(table: Arc<SharedCounters>, clock: &ManualClock) -> FakeBackend {
        FakeBackend {
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

    /// Takes a few polls.
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
            true => Err(StoreError::new("late").with_kind(StoreErrorKind::TimedOut)),
            false => Ok(()),
        }
    }
}

impl Backend for FakeBackend {
    async fn run(&self, call: StoreCall<'_>) -> Result<Outcome, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.away.load(Ordering::Relaxed) {
            return Err(StoreError::new("away").with_kind(StoreErrorKind::Unavailable));
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

    fn route(&self, _check: &Check<'_>) -> u32 {
        0
    }

    fn patience(&self) -> Span {
        Span::from_millis(50)
    }
}
