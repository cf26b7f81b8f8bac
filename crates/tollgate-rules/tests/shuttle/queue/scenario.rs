//! Clients that send requests on threads of their own, and the invariants of their queue.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use shuttle::thread::{self, Thread};
use tollgate::Time;
use tollgate::testing::ManualClock;
use tollgate_rules::{Decision, Reason, Request, RuleLimiter, Rules};

use crate::support::release;

/// The behaviour of a client.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ClientBehaviour {
    /// Waits until the request passes or is refused.
    Waits,
    /// Cancels the request as soon as it must wait.
    CancelsAtOnce,
    /// Cancels the request when it is woken.
    CancelsWhenWoken,
    /// Waits, and then holds its permit until all others have ended.
    HoldsPermit,
}

/// The names and the behaviour of a client. Several names are alternatives, such as upstreams.
pub(crate) type Client = (&'static str, ClientBehaviour);

/// The limit of the rule.
#[derive(Clone, Copy)]
pub(crate) struct LimitKind {
    /// Whether the limit is one request per second.
    pub(crate) rate: bool,
    /// The maximum number of concurrent requests.
    pub(crate) max_in_flight: usize,
}

impl LimitKind {
    pub(crate) const RATE: LimitKind = LimitKind { rate: true, max_in_flight: usize::MAX };

    pub(crate) const fn concurrent(max_in_flight: usize) -> LimitKind {
        LimitKind { rate: false, max_in_flight }
    }
}

/// The thread of a client: whether it is parked, and whether it was woken since.
#[derive(Default)]
struct ClientThread {
    thread: OnceLock<Thread>,
    is_parked: AtomicBool,
    is_woken: AtomicBool,
    has_ended: AtomicBool,
    /// Whether it only waits for the others to end.
    is_holding: AtomicBool,
}

impl Wake for ClientThread {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.get().filter(|_| !self.has_ended.load(Ordering::Relaxed))
        {
            thread.unpark();
        }
    }
}

impl ClientThread {
    /// Whether its request is not finished.
    fn is_waiting(&self) -> bool {
        !self.has_ended.load(Ordering::Relaxed) && !self.is_holding.load(Ordering::Relaxed)
    }

    fn is_runnable(&self) -> bool {
        let is_asleep =
            self.is_parked.load(Ordering::Relaxed) && !self.is_woken.load(Ordering::Relaxed);
        self.is_waiting() && !is_asleep
    }
}

fn last_name(names: &'static str) -> &'static str {
    names.rsplit(' ').next().unwrap_or(names)
}

/// A request with this name as user and upstream.
fn request(name: &str) -> Request<'_> {
    Request::empty().attribute("user", name).attribute("upstream", name)
}

/// The outcomes of the requests of a key.
#[derive(Default)]
struct KeyOutcomes {
    /// The second at which each request passed.
    started: Vec<u64>,
    in_flight: usize,
    refused: usize,
    cancelled: usize,
}

pub(crate) struct QueueScenario {
    limiter: RuleLimiter,
    clock: ManualClock,
    began: Time,
    limit: LimitKind,
    /// The capacity of the queue.
    capacity: usize,
    clients: &'static [Client],
    threads: Vec<Arc<ClientThread>>,
    outcomes: Mutex<BTreeMap<&'static str, KeyOutcomes>>,
    seconds: AtomicUsize,
    /// Whether a thread is advancing the clock.
    is_advancing: AtomicBool,
}

impl QueueScenario {
    pub(crate) fn new(
        rules: Rules,
        limit: LimitKind,
        capacity: usize,
        clients: &'static [Client],
    ) -> Arc<QueueScenario> {
        let clock = ManualClock::new();
        let limiter = RuleLimiter::builder().clock(&clock).build(rules);
        let threads = clients.iter().map(|_| Arc::default()).collect();
        let (began, outcomes, seconds) = (clock.now(), Mutex::default(), AtomicUsize::new(0));
        Arc::new(QueueScenario {
            limiter,
            clock,
            began,
            limit,
            capacity,
            clients,
            threads,
            outcomes,
            seconds,
            is_advancing: AtomicBool::new(false),
        })
    }

    /// Runs all clients, and checks the final state.
    pub(crate) fn run(self: Arc<QueueScenario>) {
        let spawn = |number| {
            let scenario = self.clone();
            thread::spawn(move || scenario.run_client(number))
        };
        let threads: Vec<_> = (0..self.clients.len()).map(spawn).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        self.assert_unchanged();
    }

    fn run_client(&self, number: usize) {
        let (names, behaviour) = self.clients[number];
        let thread = &self.threads[number];
        thread.thread.get_or_init(thread::current);
        match self.wait(names, behaviour, thread) {
            Some((decision, user)) if decision.allowed => {
                self.record_start(user);
                thread::yield_now();
                if behaviour == ClientBehaviour::HoldsPermit {
                    self.hold_permit(thread);
                }
                self.update_outcomes(user, |outcomes| outcomes.in_flight -= 1);
                release(&decision, Duration::from_millis(1));
            }
            Some((decision, user)) => {
                assert_eq!(decision.reason, Reason::OverLimit);
                self.update_outcomes(user, |outcomes| outcomes.refused += 1);
            }
            None => self.update_outcomes(last_name(names), |outcomes| outcomes.cancelled += 1),
        }
        thread.has_ended.store(true, Ordering::Relaxed);
        self.advance_until_runnable();
    }

    /// Waits until the others have ended without the permit of this client.
    fn hold_permit(&self, thread: &ClientThread) {
        thread.is_holding.store(true, Ordering::Relaxed);
        self.advance_until_runnable();
        while self.threads.iter().any(|it| it.is_waiting()) {
            thread::yield_now();
        }
    }

    /// Admits a request under any of its names; returns the name it was decided under.
    async fn admit(&self, names: &'static str) -> (Decision, &'static str) {
        let names: Vec<&'static str> = names.split(' ').collect();
        let requests: Vec<_> = names.iter().map(|name| request(name)).collect();
        let (decision, alternative) = self.limiter.admit_any(&requests, "upstream").await;
        (decision, names[alternative])
    }

    /// Returns the decision on a request, unless the client cancels it.
    fn wait(
        &self,
        names: &'static str,
        behaviour: ClientBehaviour,
        thread: &Arc<ClientThread>,
    ) -> Option<(Decision, &'static str)> {
        let waker = Waker::from(thread.clone());
        let mut admitted = Box::pin(self.admit(names));
        loop {
            if let Poll::Ready(decided) = admitted.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(decided);
            }
            let waiting: usize =
                self.limiter.status().queues().iter().map(|queue| queue.waiting).sum();
            assert!(waiting <= self.capacity, "{waiting} requests wait");
            if behaviour == ClientBehaviour::CancelsAtOnce {
                thread::yield_now();
                return None;
            }
            thread.is_parked.store(true, Ordering::Relaxed);
            self.advance_until_runnable();
            while !thread.is_woken.swap(false, Ordering::Relaxed) {
                thread::park();
            }
            thread.is_parked.store(false, Ordering::Relaxed);
            if behaviour == ClientBehaviour::CancelsWhenWoken {
                return None;
            }
        }
    }

    /// Advances the clock until a thread is runnable. Only requests that wait for a slot need it.
    ///
    /// One thread at a time: a thread that is advancing has yet to wake those whose time has come, so
    /// until then it is unknown whether all sleep.
    fn advance_until_runnable(&self) {
        let all = || self.threads.iter();
        while all().any(|it| it.is_waiting())
            && !all().any(|it| it.is_runnable())
            && !self.is_advancing.swap(true, Ordering::Relaxed)
        {
            let seconds = self.seconds.fetch_add(1, Ordering::Relaxed);
            let enough = if self.limit.rate { self.clients.len() } else { 0 };
            assert!(seconds < enough, "a wake-up was lost");
            self.clock.advance(Duration::from_secs(1));
            self.is_advancing.store(false, Ordering::Relaxed);
        }
    }

    fn update_outcomes(&self, user: &'static str, act: impl FnOnce(&mut KeyOutcomes)) {
        act(self.outcomes.lock().unwrap().entry(user).or_default());
    }

    fn record_start(&self, user: &'static str) {
        let at = self.now();
        self.update_outcomes(user, |outcomes| {
            outcomes.in_flight += 1;
            outcomes.started.push(at);
            assert!(outcomes.in_flight <= self.limit.max_in_flight, "no permit is free");
            assert!(
                !self.limit.rate || outcomes.started.len() as u64 <= at + 1,
                "more than the rate"
            );
        });
    }

    fn now(&self) -> u64 {
        self.clock.now().since(self.began).as_nanos() / 1_000_000_000
    }

    /// Asserts that all requests have ended, the queues are empty, and only used capacity is
    /// charged.
    fn assert_unchanged(&self) {
        assert!(self.limiter.status().queues().is_empty(), "the queue is removed");
        let mut ended = 0;
        for (user, outcomes) in &*self.outcomes.lock().unwrap() {
            ended += outcomes.started.len() + outcomes.refused + outcomes.cancelled;
            // The queue had capacity for all requests, so none was displaced.
            if self.capacity >= self.clients.len() - 1 {
                assert_eq!(outcomes.refused, 0, "{user}: {:?}", outcomes.started);
            }
            let request = request(user);
            let ask = || self.limiter.decide_now(&request);
            if self.limit.rate {
                let next = (outcomes.started.len() as u64).saturating_sub(self.now());
                let decision = ask();
                assert_eq!(
                    decision.wait,
                    Duration::from_secs(next),
                    "{user}: {:?}",
                    outcomes.started
                );
                release(&decision, Duration::ZERO);
            }
            if self.limit.max_in_flight < usize::MAX {
                let decision = std::iter::repeat_with(ask);
                let free: Vec<Decision> = decision.take_while(|it| it.allowed).collect();
                assert_eq!(free.len(), self.limit.max_in_flight, "{user}");
                free.iter().for_each(|it| release(it, Duration::ZERO));
            }
        }
        assert_eq!(ended, self.clients.len());
    }
}
