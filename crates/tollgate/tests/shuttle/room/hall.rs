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
    /// Stays, and then keeps its place until all others are gone.
    Keeps,
}

/// Who comes, and how. Who has several names may be any of them: that is how upstreams are chosen.
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
    /// Whether it only waits for others to be gone.
    is_keeping: AtomicBool,
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
    /// Whether it still wants something.
    fn is_here(&self) -> bool {
        !self.is_gone.load(Ordering::Relaxed) && !self.is_keeping.load(Ordering::Relaxed)
    }

    fn stirs(&self) -> bool {
        let is_asleep =
            self.is_still.load(Ordering::Relaxed) && !self.is_woken.load(Ordering::Relaxed);
        self.is_here() && !is_asleep
    }
}

fn last_of(names: &'static str) -> &'static str {
    names.rsplit(' ').next().unwrap_or(names)
}

/// A request of that name, whatever the rule calls it.
fn request(name: &str) -> Request<'_> {
    Request::empty().attribute("user", name).attribute("upstream", name)
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
        let (names, way) = self.visits[number];
        let sleeper = &self.sleepers[number];
        sleeper.thread.get_or_init(thread::current);
        match self.wait(names, way, sleeper) {
            Some((decision, user)) if decision.allowed => {
                self.goes_on(user);
                thread::yield_now();
                if way == Way::Keeps {
                    self.keeps(sleeper);
                }
                self.of_user(user, |book| book.in_flight -= 1);
                self.limiter.release(&decision, Duration::from_millis(1));
            }
            Some((decision, user)) => {
                assert_eq!(decision.reason, Reason::OverLimit);
                self.of_user(user, |book| book.refused += 1);
            }
            None => self.of_user(last_of(names), |book| book.left += 1),
        }
        sleeper.is_gone.store(true, Ordering::Relaxed);
        self.lets_time_pass();
    }

    /// Waits for the others to be gone, who must do without its place.
    fn keeps(&self, sleeper: &Sleeper) {
        sleeper.is_keeping.store(true, Ordering::Relaxed);
        self.lets_time_pass();
        while self.sleepers.iter().any(|it| it.is_here()) {
            thread::yield_now();
        }
    }

    /// A visitor comes, under each of its names if need be; under which it was decided.
    async fn enters(&self, names: &'static str) -> (Decision, &'static str) {
        let last = last_of(names);
        let mut full = Vec::new();
        for name in names.split(' ').filter(|name| *name != last) {
            let request = request(name);
            match self.limiter.admit_if_free(&request).await {
                Some(decision) => return (decision, name),
                None => full.push((request, name)),
            }
        }
        let (others, names): (Vec<_>, Vec<_>) = full.into_iter().unzip();
        match others.is_empty() {
            true => (self.limiter.admit(&request(last)).await, last),
            false => {
                let (decision, other) = self.limiter.admit_at_any(&request(last), &others).await;
                (decision, other.map_or(last, |other| names[other]))
            }
        }
    }

    /// What a visitor is told, if it does not leave before.
    fn wait(
        &self,
        names: &'static str,
        way: Way,
        sleeper: &Arc<Sleeper>,
    ) -> Option<(Decision, &'static str)> {
        let waker = Waker::from(sleeper.clone());
        let mut admitted = Box::pin(self.enters(names));
        loop {
            if let Poll::Ready(decided) = admitted.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(decided);
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
        let all = || self.sleepers.iter();
        while all().any(|it| it.is_here()) && !all().any(|it| it.stirs()) {
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
            let request = request(user);
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
