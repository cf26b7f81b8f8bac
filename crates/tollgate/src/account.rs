//! Accounts: limits with the states of keys, and what each action does to them.
//!
//! Stores differ in where they store states, and share this code to decide on them: an
//! [`Account`] pairs a limit with the state of one key, [`all_or_none`] decides a request over a
//! slice of them, and [`slots`] does so for states in a store.

mod all_or_none;
mod carry;
mod permits;
mod slots;
mod state_size;
mod with_reserve;

use smallvec::SmallVec;
use tollgate_core::{
    Algorithm, ConcurrencyState, FixedWindowState, Judgement, MeterState, Retry, Rewind,
    SlidingLogState, SlidingSlotsState, SlidingWindowState, Span, Time, Verdict, WarmUpState,
    Window,
};

use crate::adaptive::AdaptiveState;
use crate::limit::{Limit, LimitAlgorithm};
use crate::store::{Action, Check};
use crate::{Clock, Reserve};

use all_or_none::run;
pub(crate) use slots::{INLINE_CHECKS, Slots, run_on, run_on_single};
pub(crate) use state_size::ALLOCATION_OVERHEAD;

/// The verdicts of a call, one for each of its checks, in their order.
///
/// ```
/// use tollgate::Verdicts;
/// let none = Verdicts::new();
/// assert!(none.iter().all(|verdict| verdict.allowed));
/// ```
pub type Verdicts = SmallVec<[Verdict; 4]>;

/// The state of one key under one limit.
///
/// States that grow are boxed, so that the small ones, which are most of them, stay cheap to move.
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
    /// The state of a token bucket, a leaky bucket or GCRA.
    Meter(MeterState),
    /// The state of a fixed window.
    FixedWindow(FixedWindowState),
    /// The state of a sliding window of two counters.
    SlidingWindow(SlidingWindowState),
    /// The state of a sliding window of many slots.
    SlidingSlots(Box<SlidingSlotsState>),
    /// The state of a sliding log.
    SlidingLog(Box<SlidingLogState>),
    /// The state of a rate that warms up.
    WarmUp(WarmUpState),
    /// The leases in flight under a concurrency limit.
    Leases(Box<ConcurrencyState>),
    /// The leases in flight under an adaptive concurrency limit, and the level of its controller.
    Adaptive(Box<AdaptiveState>),
    /// No state: the key is unlimited.
    Nothing,
}

/// A limit, the state of a key under it, and the parameters of one check.
#[derive(Clone, Debug)]
pub(crate) struct Account<'a> {
    pub(crate) limit: &'a Limit,
    pub(crate) state: State,
    pub(crate) cost: u64,
    /// Identifies the permit, if the limit is on concurrency.
    pub(crate) lease: u64,
    /// The longest wait that the check accepts.
    pub(crate) patience: Span,
    /// The amount that must be left after the charge.
    pub(crate) reserve: Reserve,
    /// The index of an earlier account of the same request that has the same state.
    pub(crate) same_as: Option<usize>,
    /// How far the clock of the state is ahead of the store's, in nanoseconds: calendars follow the
    /// wall clock.
    pub(crate) ahead: i64,
}

/// Runs `$body` with the algorithm and the state of an account.
///
/// Concurrency limits and unlimited accounts have separate arms.
macro_rules! each_algorithm {
    ($account:expr, |$algorithm:ident, $state:ident| $body:expr,
     |$concurrency:ident, $leases:ident| $concurrent:expr, $unlimited:expr) => {
        match ($account.limit.algorithm(), &mut $account.state) {
            (LimitAlgorithm::Meter($algorithm), State::Meter($state)) => $body,
            (LimitAlgorithm::FixedWindow($algorithm), State::FixedWindow($state)) => $body,
            (LimitAlgorithm::SlidingWindow($algorithm), State::SlidingWindow($state)) => $body,
            (LimitAlgorithm::SlidingSlots($algorithm), State::SlidingSlots($state)) => $body,
            (LimitAlgorithm::SlidingLog($algorithm), State::SlidingLog($state)) => $body,
            (LimitAlgorithm::WarmUp($algorithm), State::WarmUp($state)) => $body,
            (LimitAlgorithm::Concurrent($concurrency), State::Leases($leases)) => $concurrent,
            (LimitAlgorithm::Adaptive(range), State::Adaptive(state)) => {
                let $concurrency = state.concurrency(range);
                let $leases = &mut state.leases;
                $concurrent
            }
            _ => $unlimited,
        }
    };
}

use each_algorithm;

/// Returns a time by a clock that is ahead.
#[inline(always)]
fn shifted(now: Time, ahead: i64) -> Time {
    // A clock shows no time near the end of the range.
    Time::from_nanos(now.as_nanos().wrapping_add_signed(ahead))
}

/// The judgement of an unlimited account.
const UNLIMITED: Judgement = Judgement {
    overdrawn: Span::ZERO,
    delay: Span::ZERO,
    remaining: u64::MAX,
    reset_after: Span::ZERO,
};

impl State {
    /// Returns the state of a key that was never seen.
    pub fn fresh(limit: &Limit, now: Time) -> State {
        match limit.algorithm() {
            LimitAlgorithm::Meter(algorithm) => State::Meter(algorithm.fresh(now)),
            LimitAlgorithm::FixedWindow(algorithm) => State::FixedWindow(algorithm.fresh(now)),
            LimitAlgorithm::SlidingWindow(algorithm) => State::SlidingWindow(algorithm.fresh(now)),
            LimitAlgorithm::SlidingSlots(algorithm) => {
                State::SlidingSlots(Box::new(algorithm.fresh(now)))
            }
            LimitAlgorithm::SlidingLog(algorithm) => {
                State::SlidingLog(Box::new(algorithm.fresh(now)))
            }
            LimitAlgorithm::WarmUp(algorithm) => State::WarmUp(algorithm.fresh(now)),
            LimitAlgorithm::Concurrent(_) => State::Leases(Box::default()),
            LimitAlgorithm::Adaptive(range) => State::Adaptive(Box::new(AdaptiveState::new(range))),
            LimitAlgorithm::Unlimited => State::Nothing,
        }
    }

    /// Returns whether this is a state of the algorithm of `limit`.
    pub fn fits(&self, limit: &Limit) -> bool {
        if let (State::WarmUp(state), LimitAlgorithm::WarmUp(algorithm)) = (self, limit.algorithm())
        {
            // A limit that was changed meanwhile may divide the nanosecond differently.
            let ((_, stored_part), (_, free_part)) = state.parts();
            return stored_part.max(free_part) < algorithm.scale();
        }
        matches!(
            (self, limit.algorithm()),
            (State::Meter(_), LimitAlgorithm::Meter(_))
                | (State::FixedWindow(_), LimitAlgorithm::FixedWindow(_))
                | (State::SlidingWindow(_), LimitAlgorithm::SlidingWindow(_))
                | (State::SlidingSlots(_), LimitAlgorithm::SlidingSlots(_))
                | (State::SlidingLog(_), LimitAlgorithm::SlidingLog(_))
                | (State::Leases(_), LimitAlgorithm::Concurrent(_))
                | (State::Adaptive(_), LimitAlgorithm::Adaptive(_))
                | (State::Nothing, LimitAlgorithm::Unlimited)
        )
    }

    /// Returns the time from which on the state equals an absent one.
    pub fn full_at(&self, limit: &Limit) -> Time {
        Account::new(limit, self.clone(), 0).full_at()
    }

    /// Copies a state that is not on the heap; returns `None` for others.
    #[inline]
    fn small_copy(&self) -> Option<State> {
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
    /// Creates an account without a lease, a reserve or a limit on the wait.
    pub(crate) fn new(limit: &'a Limit, state: State, cost: u64) -> Account<'a> {
        let (patience, reserve) = (Span::MAX, Reserve::None);
        Account { limit, state, cost, lease: 0, patience, reserve, same_as: None, ahead: 0 }
    }

    /// Creates the account of a check from the stored state of its key.
    #[inline]
    pub(crate) fn open(check: &Check<'a>, state: Option<State>, now: Time) -> Account<'a> {
        let Check { limit, cost, lease, patience, reserve, .. } = *check;
        let state = state.unwrap_or_else(|| State::fresh(limit, now));
        Account { limit, state, cost, lease, patience, reserve, same_as: None, ahead: 0 }
    }

    /// Makes a calendar follow the wall clock. The end of a period is a date, and stays where it is
    /// when the clock is set. A period that has not begun any more becomes the current one.
    #[inline]
    pub(crate) fn follow_wall_clock(&mut self, clock: &Clock, now: Time) {
        if let LimitAlgorithm::FixedWindow(window) = self.limit.algorithm()
            && let Window::Calendar(_) = window.window()
            && let State::FixedWindow(state) = &mut self.state
        {
            self.ahead = clock.ahead(now);
            window.rewind(state, None, shifted(now, self.ahead));
        }
    }

    /// Returns the most that can be spent at once.
    pub(crate) fn capacity(&self) -> u64 {
        match (self.limit.algorithm(), &self.state) {
            (LimitAlgorithm::Adaptive(range), State::Adaptive(state)) => {
                state.concurrency(range).capacity()
            }
            _ => self.limit.capacity(),
        }
    }

    /// Charges the state and returns whether that is allowed.
    ///
    /// If it is not, the caller restores the state; a state on the heap stays unchanged.
    #[inline(always)]
    fn attempt(&mut self, now: Time, max_wait: Span) -> Verdict {
        let (cost, lease, now) = (self.cost, self.lease, shifted(now, self.ahead));
        let max_wait = max_wait.min(self.patience);
        if !self.reserve.is_none() {
            return self.attempt_with_reserve(now, max_wait);
        }
        each_algorithm!(
            self,
            |algorithm, state| algorithm.attempt(state, now, cost, max_wait),
            |concurrency, leases| concurrency.acquire(leases, now, cost, lease),
            Verdict::allow(u64::MAX, UNLIMITED)
        )
    }

    /// Returns the verdict of a refusal.
    fn refuse(&mut self, now: Time) -> Verdict {
        let (cost, lease, now) = (self.cost, self.lease, shifted(now, self.ahead));
        if !self.reserve.is_none() {
            return self.refuse_with_reserve(now);
        }
        each_algorithm!(
            self,
            |algorithm, state| algorithm.refuse(state, now, cost),
            |concurrency, leases| concurrency.acquire(leases, now, cost, lease),
            Verdict::allow(u64::MAX, UNLIMITED)
        )
    }

    /// Judges the state without charging it.
    pub(crate) fn peek(&mut self, now: Time) -> Judgement {
        let now = shifted(now, self.ahead);
        each_algorithm!(
            self,
            |algorithm, state| algorithm.peek(state, now),
            |concurrency, leases| concurrency.peek(leases, now),
            UNLIMITED
        )
    }

    /// Returns the verdict on a request of no cost.
    pub(crate) fn peek_verdict(&mut self, now: Time) -> Verdict {
        let judgement = self.peek(now);
        match judgement.overdrawn {
            Span::ZERO => Verdict::allow(self.capacity(), judgement),
            owed => Verdict::deny(self.capacity(), judgement, Retry::After(owed)),
        }
    }

    /// Charges `cost` without a check, or refunds it if it is negative.
    pub(crate) fn charge(&mut self, now: Time, cost: i64) {
        let (lease, now) = (self.lease, shifted(now, self.ahead));
        each_algorithm!(
            self,
            |algorithm, state| algorithm.charge(state, now, cost),
            |concurrency, leases| if cost < 0 {
                concurrency.release(leases, now, lease);
            },
            ()
        );
    }

    /// Returns whether the limit charges refused requests as well.
    fn counts_denied(&mut self) -> bool {
        each_algorithm!(
            self,
            |algorithm, _state| algorithm.counts_denied(),
            |_places, _leases| false,
            false
        )
    }

    /// Restores the state that [`State::small_copy`] has saved.
    fn restore(&mut self, before: &Option<State>) {
        if let Some(state) = before {
            self.state = state.clone();
        }
    }

    /// Charges the state if that is allowed; returns the verdict.
    fn take(&mut self, now: Time, max_wait: Span) -> Verdict {
        let before = self.state.small_copy();
        let verdict = self.attempt(now, max_wait);
        if verdict.allowed {
            return verdict;
        }
        self.restore(&before);
        self.refuse(now)
    }

    /// Returns the verdict that [`take`](Self::take) would, without changing the state.
    fn try_take(&mut self, now: Time, max_wait: Span) -> Verdict {
        let before = self.state.clone();
        let verdict = self.take(now, max_wait);
        self.state = before;
        verdict
    }

    /// Runs `action` on this account alone.
    pub(crate) fn run(&mut self, action: Action, now: Time) -> Verdict {
        match action {
            Action::Take { max_wait } => self.take(now, max_wait),
            Action::Try { max_wait } => self.try_take(now, max_wait),
            _ => {
                self.adjust(action, now);
                self.peek_verdict(now)
            }
        }
    }

    /// Runs an action that cannot be refused.
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

    /// Returns the time from which on the state equals an absent one, by the store's clock.
    pub(crate) fn full_at(&mut self) -> Time {
        if let (LimitAlgorithm::Adaptive(range), State::Adaptive(state)) =
            (self.limit.algorithm(), &self.state)
        {
            return state.full_at(range);
        }
        let full_at = each_algorithm!(
            self,
            |algorithm, state| algorithm.full_at(state),
            |concurrency, leases| concurrency.full_at(leases),
            Time::EPOCH
        );
        Time::from_nanos(full_at.as_nanos().saturating_add_signed(self.ahead.saturating_neg()))
    }

    /// Returns [`full_at`](Self::full_at), computed from a verdict that describes the state.
    ///
    /// The verdict does not describe it if an earlier account of the request has the same state.
    #[inline]
    pub(crate) fn full_after(&mut self, verdict: &Verdict, now: Time) -> Time {
        match self.same_as {
            None => now + verdict.reset_after,
            Some(_) => self.full_at(),
        }
    }
}
