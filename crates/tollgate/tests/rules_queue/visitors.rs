//! Requests that stand in line, polled only when they are woken: who is forgotten stays forever.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tollgate::rules::{Decision, RuleLimiter};
use tollgate::testing::ManualClock;
use tollgate::{Limiter, Request, Time};

/// Whether a task is to be polled.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Admitted = Pin<Box<dyn Future<Output = Decision> + Send>>;

struct Task {
    future: Admitted,
    flag: Arc<Flag>,
}

/// Everybody who came, by number.
pub(crate) struct Visitors {
    pub(crate) clock: ManualClock,
    pub(crate) limiter: RuleLimiter,
    began: Time,
    tasks: BTreeMap<usize, Task>,
    /// Who is done: their number, when, and how.
    pub(crate) done: Vec<(usize, u64, Decision)>,
}

impl Visitors {
    pub(crate) fn new(rules: &str) -> Visitors {
        let clock = ManualClock::new();
        let rules = format!("rules: [{rules}]").parse().unwrap();
        let limiter = Limiter::builder().clock(&clock).build_rules(rules);
        let began = clock.now();
        Visitors { clock, limiter, began, tasks: BTreeMap::new(), done: Vec::new() }
    }

    /// Milliseconds since the beginning.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now().since(self.began).as_nanos() / 1_000_000
    }

    /// Somebody comes.
    pub(crate) fn comes(&mut self, number: usize, request: Request<'static>) {
        let limiter = self.limiter.clone();
        self.starts(number, Box::pin(async move { limiter.admit(&request).await }));
    }

    /// Somebody comes who may go to any of several upstreams, the others of which are full.
    pub(crate) fn comes_to_any(&mut self, number: usize, to: [Request<'static>; 2]) {
        let limiter = self.limiter.clone();
        let [own, other] = to;
        let any = async move { limiter.admit_at_any(&own, &[other]).await.0 };
        self.starts(number, Box::pin(any));
    }

    fn starts(&mut self, number: usize, future: Admitted) {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        self.tasks.insert(number, Task { future, flag });
        self.settle();
    }

    /// Somebody of that key comes.
    pub(crate) fn of(&mut self, number: usize, user: &'static str) {
        self.comes(number, Request::empty().attribute("user", user));
    }

    /// Somebody gives up; whether it was still there.
    pub(crate) fn leaves(&mut self, number: usize) -> bool {
        let was_there = self.tasks.remove(&number).is_some();
        self.settle();
        was_there
    }

    /// Polls those who were woken, until nobody is.
    pub(crate) fn settle(&mut self) {
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

    /// Time passes, by the millisecond.
    pub(crate) fn passes(&mut self, ms: u64) {
        for _ in 0..ms {
            self.clock.advance(Duration::from_millis(1));
            self.settle();
        }
    }

    /// Who was let through, and when.
    pub(crate) fn let_through(&self) -> Vec<(usize, u64)> {
        let allowed = self.done.iter().filter(|(_, _, decision)| decision.allowed);
        allowed.map(|(number, at, _)| (*number, *at)).collect()
    }

    /// Who was refused, when, and when it may come back (ms).
    pub(crate) fn refused(&self) -> Vec<(usize, u64, u64)> {
        let refused = self.done.iter().filter(|(_, _, decision)| !decision.allowed);
        let back = |decision: &Decision| decision.retry_after.unwrap().as_millis() as u64;
        refused.map(|(number, at, decision)| (*number, *at, back(decision))).collect()
    }

    pub(crate) fn waiting(&self) -> usize {
        let rooms: usize = self.limiter.waiting().iter().map(|room| room.waiting).sum();
        assert_eq!(rooms, self.tasks.len(), "everybody who waits stands in line");
        rooms
    }
}
