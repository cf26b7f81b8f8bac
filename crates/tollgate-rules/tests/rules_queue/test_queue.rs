//! Queued requests that are polled only when woken, so a lost wake-up is noticed.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tollgate::Time;
use tollgate::testing::ManualClock;
use tollgate_rules::{Decision, Request, RuleLimiter};

/// Whether a task must be polled.
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Admitted = Pin<Box<dyn Future<Output = Decision> + Send>>;

struct Task {
    future: Admitted,
    flag: Arc<WakeFlag>,
}

/// All requests of a test, by number.
pub(crate) struct TestQueue {
    pub(crate) clock: ManualClock,
    pub(crate) limiter: RuleLimiter,
    began: Time,
    tasks: BTreeMap<usize, Task>,
    /// The finished requests: number, time and decision.
    pub(crate) done: Vec<(usize, u64, Decision)>,
}

impl TestQueue {
    pub(crate) fn new(rules: &str) -> TestQueue {
        let clock = ManualClock::new();
        let rules = format!("attributes: [user]\nrules: [{rules}]").parse().unwrap();
        let limiter = RuleLimiter::builder().clock(&clock).build(rules);
        let began = clock.now();
        TestQueue { clock, limiter, began, tasks: BTreeMap::new(), done: Vec::new() }
    }

    /// Milliseconds since the start of the test.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now().since(self.began).as_nanos() / 1_000_000
    }

    /// Admits a request.
    pub(crate) fn arrive(&mut self, number: usize, request: Request<'static>) {
        let limiter = self.limiter.clone();
        self.start(number, Box::pin(async move { limiter.admit(&request).await }));
    }

    /// Admits a request at any of several upstreams.
    pub(crate) fn arrive_at_any(&mut self, number: usize, to: [Request<'static>; 2]) {
        let limiter = self.limiter.clone();
        let any = async move { limiter.admit_any(&to, "upstream").await.0 };
        self.start(number, Box::pin(any));
    }

    fn start(&mut self, number: usize, future: Admitted) {
        let flag = Arc::new(WakeFlag(AtomicBool::new(true)));
        self.tasks.insert(number, Task { future, flag });
        self.poll_woken();
    }

    /// Admits a request of a user.
    pub(crate) fn arrive_as(&mut self, number: usize, user: &'static str) {
        self.arrive(number, Request::empty().attribute("user", user));
    }

    /// Cancels a request; returns `false` if it was finished.
    pub(crate) fn cancel(&mut self, number: usize) -> bool {
        let was_there = self.tasks.remove(&number).is_some();
        self.poll_woken();
        was_there
    }

    /// Polls woken requests until none is left.
    pub(crate) fn poll_woken(&mut self) {
        loop {
            let mut woken = None;
            for (number, task) in &mut self.tasks {
                if task.flag.0.swap(false, Ordering::SeqCst) {
                    woken = Some(*number);
                    break;
                }
            }
            let Some(number) = woken else { return };
            let task = self.tasks.get_mut(&number).unwrap();
            let waker = Waker::from(task.flag.clone());
            let polled = task.future.as_mut().poll(&mut Context::from_waker(&waker));
            if let Poll::Ready(decision) = polled {
                self.tasks.remove(&number);
                self.done.push((number, self.now_ms(), decision));
            }
        }
    }

    /// Advances the clock, one millisecond at a time.
    pub(crate) fn advance_ms(&mut self, ms: u64) {
        for _ in 0..ms {
            self.clock.advance(Duration::from_millis(1));
            self.poll_woken();
        }
    }

    /// The requests that passed, and when.
    pub(crate) fn let_through(&self) -> Vec<(usize, u64)> {
        let allowed = self.done.iter().filter(|(_, _, decision)| decision.allowed);
        allowed.map(|(number, at, _)| (*number, *at)).collect()
    }

    /// The requests that were refused, when, and when to retry, in milliseconds.
    pub(crate) fn refused(&self) -> Vec<(usize, u64, u64)> {
        let refused = self.done.iter().filter(|(_, _, decision)| !decision.allowed);
        let back = |decision: &Decision| decision.retry_after.unwrap().as_millis() as u64;
        refused.map(|(number, at, decision)| (*number, *at, back(decision))).collect()
    }

    pub(crate) fn waiting(&self) -> usize {
        let waiting: usize = self.limiter.status().queues().iter().map(|queue| queue.waiting).sum();
        assert_eq!(waiting, self.tasks.len(), "every pending request is in a queue");
        waiting
    }
}
