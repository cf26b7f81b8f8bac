//! A limit with its state.
//!
//! Stores differ in where states live. What happens to them is written here, once: an
//! [`Account`] pairs a limit with the state of one key, and [`together`] runs a request over a
//! slice of them.

mod carry;
mod leaving;
mod places;
mod together;

use smallvec::SmallVec;
use tollgate_core::{
    Algorithm, ConcurrencyState, FixedWindowState, MeterState, Retry, SlidingLogState,
    SlidingSlotsState, SlidingWindowState, Span, Standing, Time, Verdict, WarmUpState,
};

use crate::Reserve;
use crate::adaptive::AdaptiveState;
use crate::limit::{Engine, Limit};
use crate::store::{Action, Check};

pub(crate) use together::{Accounts, only, run};

/// One verdict for each limit asked, in the order they were given.
///
/// ```
/// use tollgate::Verdicts;
/// let none = Verdicts::new();
/// assert!(none.iter().all(|verdict| verdict.allowed));
/// ```
pub type Verdicts = SmallVec<[Verdict; 4]>;

/// What is remembered for one key under one limit. Whatever grows is boxed, so that the small
/// ones, which are most of them, stay cheap to move.
///
/// ```
/// use tollgate::state::State;
/// use tollgate::{Limit, Time};
/// let limit: Limit = "5/min fixed".parse()?;
/// assert!(matches!(State::fresh(&limit, Time::EPOCH), State::FixedWindow(_)));
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum State {
    /// Of a token bucket, a leaky bucket or GCRA.
    Meter(MeterState),
    /// Of fixed windows.
    FixedWindow(FixedWindowState),
    /// Of a sliding window of two counters.
    SlidingWindow(SlidingWindowState),
    /// Of a sliding window of many slots.
    SlidingSlots(Box<SlidingSlotsState>),
    /// Of a sliding log.
    SlidingLog(Box<SlidingLogState>),
    /// Of a rate that warms up.
    WarmUp(WarmUpState),
    /// Who is in flight.
    Leases(Box<ConcurrencyState>),
    /// Who is in flight, and what was learned from them.
    Adaptive(Box<AdaptiveState>),
    /// An unlimited key remembers nothing.
    Nothing,
}

/// A limit, the state of a key under it, and what is asked of it.
#[derive(Clone, Debug)]
pub(crate) struct Account<'a> {
    pub(crate) limit: &'a Limit,
    pub(crate) state: State,
    pub(crate) cost: u64,
    /// Names the holder where the limit is on concurrency.
    pub(crate) lease: u64,
    /// The furthest place in line it may take.
    pub(crate) patience: Span,
    /// What must be left.
    pub(crate) reserve: Reserve,
    /// The account before this one, in the same request, that is about the same state.
    pub(crate) same_as: Option<usize>,
}

/// Runs `$body` with the algorithm and state of an account's kind; limits on concurrency and
/// unlimited have arms of their own.
macro_rules! each_algorithm {
    ($account:expr, |$algorithm:ident, $state:ident| $body:expr,
     |$places:ident, $leases:ident| $concurrent:expr, $unlimited:expr) => {
        match ($account.limit.engine(), &mut $account.state) {
            (Engine::Meter($algorithm), State::Meter($state)) => $body,
            (Engine::FixedWindow($algorithm), State::FixedWindow($state)) => $body,
            (Engine::SlidingWindow($algorithm), State::SlidingWindow($state)) => $body,
            (Engine::SlidingSlots($algorithm), State::SlidingSlots($state)) => $body,
            (Engine::SlidingLog($algorithm), State::SlidingLog($state)) => $body,
            (Engine::WarmUp($algorithm), State::WarmUp($state)) => $body,
            (Engine::Concurrent($places), State::Leases($leases)) => $concurrent,
            (Engine::Adaptive(range), State::Adaptive(state)) => {
                let $places = state.places(range);
                let $leases = &mut state.leases;
                $concurrent
            }
            _ => $unlimited,
        }
    };
}

use each_algorithm;

/// What an unlimited limit answers.
const UNLIMITED: Standing = Standing {
    overdrawn: Span::ZERO,
    delay: Span::ZERO,
    remaining: u64::MAX,
    reset_after: Span::ZERO,
};

impl State {
    /// The state of a key never seen.
    pub fn fresh(limit: &Limit, now: Time) -> State {
        match limit.engine() {
            Engine::Meter(algorithm) => State::Meter(algorithm.fresh(now)),
            Engine::FixedWindow(algorithm) => State::FixedWindow(algorithm.fresh(now)),
            Engine::SlidingWindow(algorithm) => State::SlidingWindow(algorithm.fresh(now)),
            Engine::SlidingSlots(algorithm) => State::SlidingSlots(Box::new(algorithm.fresh(now))),
            Engine::SlidingLog(algorithm) => State::SlidingLog(Box::new(algorithm.fresh(now))),
            Engine::WarmUp(algorithm) => State::WarmUp(algorithm.fresh(now)),
            Engine::Concurrent(_) => State::Leases(Box::default()),
            Engine::Adaptive(range) => State::Adaptive(Box::new(AdaptiveState::new(range))),
            Engine::Unlimited => State::Nothing,
        }
    }

    /// Whether this is a state of such a limit.
    pub fn fits(&self, limit: &Limit) -> bool {
        matches!(
            (self, limit.engine()),
            (State::Meter(_), Engine::Meter(_))
                | (State::FixedWindow(_), Engine::FixedWindow(_))
                | (State::SlidingWindow(_), Engine::SlidingWindow(_))
                | (State::SlidingSlots(_), Engine::SlidingSlots(_))
                | (State::SlidingLog(_), Engine::SlidingLog(_))
                | (State::WarmUp(_), Engine::WarmUp(_))
                | (State::Leases(_), Engine::Concurrent(_))
                | (State::Adaptive(_), Engine::Adaptive(_))
                | (State::Nothing, Engine::Unlimited)
        )
    }

    /// From when on this is as good as no state at all.
    pub fn full_at(&self, limit: &Limit) -> Time {
        Account::new(limit, self.clone(), 0).full_at()
    }

    /// A copy of a state that costs nothing worth saving to copy.
    #[inline]
    fn small(&self) -> Option<State> {
        Some(match *self {
            State::Meter(state) => State::Meter(state),
            State::FixedWindow(state) => State::FixedWindow(state),
            State::SlidingWindow(state) => State::SlidingWindow(state),
            State::WarmUp(state) => State::WarmUp(state),
            State::Nothing => State::Nothing,
            _ => return None,
        })
    }
}

impl<'a> Account<'a> {
    pub(crate) fn new(limit: &'a Limit, state: State, cost: u64) -> Account<'a> {
        let (patience, reserve) = (Span::MAX, Reserve::None);
        Account { limit, state, cost, lease: 0, patience, reserve, same_as: None }
    }

    /// The account of a check, given what is remembered of its key.
    #[inline]
    pub(crate) fn open(check: &Check<'a>, state: Option<State>, now: Time) -> Account<'a> {
        let Check { limit, cost, lease, patience, reserve, .. } = *check;
        let state = state.unwrap_or_else(|| State::fresh(limit, now));
        Account { limit, state, cost, lease, patience, reserve, same_as: None }
    }

    /// What could ever be spent at once.
    pub(crate) fn capacity(&self) -> u64 {
        match (self.limit.engine(), &self.state) {
            (Engine::Adaptive(range), State::Adaptive(state)) => state.places(range).capacity(),
            _ => self.limit.capacity(),
        }
    }

    /// Charges the state and says whether that may be kept. A state on the heap is charged only
    /// if so.
    #[inline(always)]
    fn attempt(&mut self, now: Time, max_wait: Span) -> Verdict {
        let (cost, lease) = (self.cost, self.lease);
        let max_wait = max_wait.min(self.patience);
        if !self.reserve.is_none() {
            return self.attempt_leaving(now, max_wait);
        }
        each_algorithm!(
            self,
            |algorithm, state| algorithm.attempt(state, now, cost, max_wait),
            |places, leases| places.acquire(leases, now, cost, lease),
            Verdict::allow(u64::MAX, UNLIMITED)
        )
    }

    fn refuse(&mut self, now: Time) -> Verdict {
        let (cost, lease) = (self.cost, self.lease);
        if !self.reserve.is_none() {
            return self.refuse_leaving(now);
        }
        each_algorithm!(
            self,
            |algorithm, state| algorithm.refuse(state, now, cost),
            |places, leases| places.acquire(leases, now, cost, lease),
            Verdict::allow(u64::MAX, UNLIMITED)
        )
    }

    /// How things stand, with nothing spent.
    pub(crate) fn peek(&mut self, now: Time) -> Standing {
        each_algorithm!(
            self,
            |algorithm, state| algorithm.peek(state, now),
            |places, leases| places.peek(leases, now),
            UNLIMITED
        )
    }

    /// The standing as a verdict on a request of no cost.
    pub(crate) fn look(&mut self, now: Time) -> Verdict {
        let standing = self.peek(now);
        match standing.overdrawn {
            Span::ZERO => Verdict::allow(self.capacity(), standing),
            owed => Verdict::deny(self.capacity(), standing, Retry::After(owed)),
        }
    }

    /// Spends or gives back without asking.
    pub(crate) fn charge(&mut self, now: Time, cost: i64) {
        let lease = self.lease;
        each_algorithm!(
            self,
            |algorithm, state| algorithm.charge(state, now, cost),
            |places, leases| if cost < 0 {
                places.release(leases, now, lease);
            },
            ()
        );
    }

    /// Refused requests are spent as well.
    fn counts_denied(&mut self) -> bool {
        each_algorithm!(
            self,
            |algorithm, _state| algorithm.counts_denied(),
            |_places, _leases| false,
            false
        )
    }

    fn restore(&mut self, before: &Option<State>) {
        if let Some(state) = before {
            self.state = state.clone();
        }
    }

    /// Charges the state if that is allowed.
    fn take(&mut self, now: Time, max_wait: Span) -> Verdict {
        let before = self.state.small();
        let verdict = self.attempt(now, max_wait);
        if verdict.allowed {
            return verdict;
        }
        self.restore(&before);
        self.refuse(now)
    }

    /// What taking would be answered; the state stays as it is.
    fn try_take(&mut self, now: Time, max_wait: Span) -> Verdict {
        let before = self.state.clone();
        let verdict = self.take(now, max_wait);
        self.state = before;
        verdict
    }

    /// Does what `action` says, with nobody else to ask.
    pub(crate) fn run(&mut self, action: Action, now: Time) -> Verdict {
        match action {
            Action::Take { max_wait } => self.take(now, max_wait),
            Action::Try { max_wait } => self.try_take(now, max_wait),
            _ => {
                self.adjust(action, now);
                self.look(now)
            }
        }
    }

    /// Does what asks nobody.
    fn adjust(&mut self, action: Action, now: Time) {
        let cost = i64::try_from(self.cost).unwrap_or(i64::MAX);
        match action {
            Action::Take { .. } | Action::Try { .. } | Action::Peek => {}
            Action::Spend => self.charge(now, cost),
            Action::Refund => self.charge(now, -cost),
            Action::Release { rtt, dropped } => self.release(now, rtt, dropped),
            Action::Renew => self.renew(now),
            Action::Reset => self.state = State::fresh(self.limit, now),
        }
    }

    /// From when on the state is as good as none.
    pub(crate) fn full_at(&mut self) -> Time {
        if let (Engine::Adaptive(range), State::Adaptive(state)) =
            (self.limit.engine(), &self.state)
        {
            return state.full_at(range);
        }
        each_algorithm!(
            self,
            |algorithm, state| algorithm.full_at(state),
            |places, leases| places.full_at(leases),
            Time::EPOCH
        )
    }

    /// The same, given a verdict that describes the state. It says so unless an earlier account
    /// of the same request was about the same state.
    #[inline]
    pub(crate) fn full_after(&mut self, verdict: &Verdict, now: Time) -> Time {
        match self.same_as {
            None => now + verdict.reset_after,
            Some(_) => self.full_at(),
        }
    }
}
