//! A hall that visitors come to, each on a thread of its own, and what must hold there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use shuttle::thread::{self, Thread};
use tollgate::rules::{Decision, Reason, RuleLimiter};
use tollgate::testing::ManualClock;
use tollgate::{Limiter, Request, Rules, Time};

/// How a visitor behaves.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Way {
    /// Waits until it may go on, or is refused.
    Stays,
    /// Leaves once it is to wait.
    LeavesAtOnce,
    /// Leaves when it is woken, not knowing why.
    LeavesWhenWoken,
}

/// Who comes, and how.
pub(crate) type Visit = (&'static str, Way);

/// What is limited.
#[derive(Clone, Copy)]
pub(crate) struct Of {
    /// Whether it is one each second.
    pub(crate) rate: bool,
    /// So many at a time.
    pub(crate) at_once: usize,
}

impl Of {
    pub(crate) const RATE: Of = Of { rate: true, at_once: usize::MAX };

    pub(crate) const fn places(at_once: usize) -> Of {
        Of { rate: false, at_once }
    }
}

/// A visitor's thread: whether it stands still, and whether it was woken since.
#[derive(Default)]
struct Sleeper {
    thread: OnceLock<Thread>,
    is_still: AtomicBool,
    is_woken: AtomicBool,
    is_gone: AtomicBool,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.get().filter(|_| !self.is_gone.load(Ordering::Relaxed)) {
            thread.unpark();
        }
    }
}

impl Sleeper {
    fn stirs(&self) -> bool {
        let is_asleep =
            self.is_still.load(Ordering::Relaxed) && !self.is_woken.load(Ordering::Relaxed);
        !is_asleep && !self.is_gone.load(Ordering::Relaxed)
    }
}

/// What became of the visitors of a key.
#[derive(Default)]
struct Book {
    /// After how many seconds each went on.
    went: Vec<u64>,
    in_flight: usize,
    refused: usize,
    left: usize,
}

pub(crate) struct Hall {
    limiter: RuleLimiter,
    clock: ManualClock,
    began: Time,
    of: Of,
    /// How many may stand in line.
    line: usize,
    visits: &'static [Visit],
    sleepers: Vec<Arc<Sleeper>>,
    books: Mutex<BTreeMap<&'static str, Book>>,
    seconds: AtomicUsize,
}

impl Hall {
    pub(crate) fn new(rules: Rules, of: Of, line: usize, visits: &'static [Visit]) -> Arc<Hall> {
        let clock = ManualClock::new();
        let limiter = Limiter::builder().clock(&clock).build_rules(rules);
        let sleepers = visits.iter().map(|_| Arc::default()).collect();
        let (began, books, seconds) = (clock.now(), Mutex::default(), AtomicUsize::new(0));
        Arc::new(Hall { limiter, clock, began, of, line, visits, sleepers, books, seconds })
    }

    /// Lets everybody come, and looks at what is left behind.
    pub(crate) fn run(self: Arc<Hall>) {
        let spawn = |number| {
            let hall = self.clone();
            thread::spawn(move || hall.visit(number))
        };
        let threads: Vec<_> = (0..self.visits.len()).map(spawn).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        self.is_as_it_was();
    }

    fn visit(&self, number: usize) {
        let (user, way) = self.visits[number];
        let sleeper = &self.sleepers[number];
        sleeper.thread.get_or_init(thread::current);
        let request = Request::empty().attribute("user", user);
        match self.wait(&request, way, sleeper) {
            Some(decision) if decision.allowed => {
                self.goes_on(user);
                thread::yield_now();
                self.of_user(user, |book| book.in_flight -= 1);
                self.limiter.release(&decision, Duration::from_millis(1));
            }
            Some(decision) => {
                assert_eq!(decision.reason, Reason::OverLimit);
                self.of_user(user, |book| book.refused += 1);
            }
            None => self.of_user(user, |book| book.left += 1),
        }
        sleeper.is_gone.store(true, Ordering::Relaxed);
        self.lets_time_pass();
    }

    /// What a visitor is told, if it does not leave before.
    fn wait(&self, request: &Request<'_>, way: Way, sleeper: &Arc<Sleeper>) -> Option<Decision> {
        let waker = Waker::from(sleeper.clone());
        let mut admitted = Box::pin(self.limiter.admit(request));
        loop {
            if let Poll::Ready(decision) = admitted.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return Some(decision);
            }
            let standing: usize = self.limiter.waiting().iter().map(|line| line.waiting).sum();
            assert!(standing <= self.line, "{standing} stand in line");
            if way == Way::LeavesAtOnce {
                thread::yield_now();
                return None;
            }
            sleeper.is_still.store(true, Ordering::Relaxed);
            self.lets_time_pass();
            while !sleeper.is_woken.swap(false, Ordering::Relaxed) {
                thread::park();
            }
            sleeper.is_still.store(false, Ordering::Relaxed);
            if way == Way::LeavesWhenWoken {
                return None;
            }
        }
    }

    /// Seconds pass until somebody stirs. Only who waits for the clock may need them.
    fn lets_time_pass(&self) {
        let all_gone = || self.sleepers.iter().all(|it| it.is_gone.load(Ordering::Relaxed));
        while !self.sleepers.iter().any(|it| it.stirs()) && !all_gone() {
            let seconds = self.seconds.fetch_add(1, Ordering::Relaxed);
            let enough = if self.of.rate { self.visits.len() } else { 0 };
            assert!(seconds < enough, "somebody is forgotten");
            self.clock.advance(Duration::from_secs(1));
        }
    }

    fn of_user(&self, user: &'static str, act: impl FnOnce(&mut Book)) {
        act(self.books.lock().unwrap().entry(user).or_default());
    }

    fn goes_on(&self, user: &'static str) {
        let at = self.now();
        self.of_user(user, |book| {
            book.in_flight += 1;
            book.went.push(at);
            assert!(book.in_flight <= self.of.at_once, "no place is free");
            assert!(!self.of.rate || book.went.len() as u64 <= at + 1, "more than the rate");
        });
    }

    fn now(&self) -> u64 {
        self.clock.now().since(self.began).as_nanos() / 1_000_000_000
    }

    /// Everybody had an end, nobody is inside, and nothing is charged but what was used.
    fn is_as_it_was(&self) {
        assert!(self.limiter.waiting().is_empty(), "the room is closed");
        let mut ended = 0;
        for (user, book) in &*self.books.lock().unwrap() {
            ended += book.went.len() + book.refused + book.left;
            // There was room for all, so nobody was in the way of anybody.
            if self.line >= self.visits.len() - 1 {
                assert_eq!(book.refused, 0, "{user}: {:?}", book.went);
            }
            let request = Request::empty().attribute("user", *user);
            let ask = || self.limiter.decide(&request);
            if self.of.rate {
                let next = (book.went.len() as u64).saturating_sub(self.now());
                let asked = ask();
                assert_eq!(asked.wait, Duration::from_secs(next), "{user}: {:?}", book.went);
                self.limiter.release(&asked, Duration::ZERO);
            }
            if self.of.at_once < usize::MAX {
                let asked = std::iter::repeat_with(ask);
                let free: Vec<Decision> = asked.take_while(|it| it.allowed).collect();
                assert_eq!(free.len(), self.of.at_once, "{user}");
                free.iter().for_each(|it| self.limiter.release(it, Duration::ZERO));
            }
        }
        assert_eq!(ended, self.visits.len());
    }
}
