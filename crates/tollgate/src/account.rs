//! A limit with its state: deciding several together, all or none.
//!
//! Stores differ in where states live. What happens to them is written here, once: an
//! [`Account`] pairs a limit with the state of one key, and the functions below run a request
//! over a slice of them.

use smallvec::SmallVec;
use tollgate_core::{
    Algorithm, Carry, ConcurrencyState, FixedWindowState, MeterState, Retry, SlidingLogState,
    SlidingSlotsState, SlidingWindowState, Span, Standing, Time, Verdict, WarmUpState,
};

use crate::adaptive::AdaptiveState;
use crate::limit::{Engine, Limit};
use crate::store::Action;

/// One verdict for each limit asked, in the order they were given.
///
/// ```
/// use tollgate::Verdicts;
/// let none = Verdicts::new();
/// assert!(none.iter().all(|verdict| verdict.allowed));
/// ```
pub type Verdicts = SmallVec<[Verdict; 2]>;

/// What is remembered for one key under one limit.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Meter(MeterState),
    FixedWindow(FixedWindowState),
    SlidingWindow(SlidingWindowState),
    SlidingSlots(SlidingSlotsState),
    SlidingLog(SlidingLogState),
    WarmUp(WarmUpState),
    Leases(ConcurrencyState),
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

/// What an unlimited limit answers.
const UNLIMITED: Standing = Standing {
    overdrawn: Span::ZERO,
    delay: Span::ZERO,
    remaining: u64::MAX,
    reset_after: Span::ZERO,
};

impl State {
    /// The state of a key never seen.
    pub(crate) fn fresh(limit: &Limit, now: Time) -> State {
        match limit.engine() {
            Engine::Meter(algorithm) => State::Meter(algorithm.fresh(now)),
            Engine::FixedWindow(algorithm) => State::FixedWindow(algorithm.fresh(now)),
            Engine::SlidingWindow(algorithm) => State::SlidingWindow(algorithm.fresh(now)),
            Engine::SlidingSlots(algorithm) => State::SlidingSlots(algorithm.fresh(now)),
            Engine::SlidingLog(algorithm) => State::SlidingLog(algorithm.fresh(now)),
            Engine::WarmUp(algorithm) => State::WarmUp(algorithm.fresh(now)),
            Engine::Concurrent(_) => State::Leases(ConcurrencyState::default()),
            Engine::Adaptive(range) => State::Adaptive(Box::new(AdaptiveState::new(range))),
            Engine::Unlimited => State::Nothing,
        }
    }

    /// Whether this is a state of such a limit.
    pub(crate) fn fits(&self, limit: &Limit) -> bool {
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

    /// Copying costs nothing worth saving.
    fn is_small(&self) -> bool {
        use State::{Adaptive, Leases, SlidingLog, SlidingSlots};
        !matches!(self, SlidingSlots(_) | SlidingLog(_) | Leases(_) | Adaptive(_))
    }
}

impl<'a> Account<'a> {
    pub(crate) fn new(limit: &'a Limit, state: State, cost: u64) -> Account<'a> {
        Account { limit, state, cost, lease: 0, patience: Span::MAX, same_as: None }
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
    fn attempt(&mut self, now: Time, max_wait: Span) -> Verdict {
        let (cost, lease) = (self.cost, self.lease);
        let max_wait = max_wait.min(self.patience);
        each_algorithm!(
            self,
            |algorithm, state| algorithm.attempt(state, now, cost, max_wait),
            |places, leases| places.acquire(leases, now, cost, lease),
            Verdict::allow(u64::MAX, UNLIMITED)
        )
    }

    fn refuse(&mut self, now: Time) -> Verdict {
        let (cost, lease) = (self.cost, self.lease);
        each_algorithm!(
            self,
            |algorithm, state| algorithm.refuse(state, now, cost),
            |places, leases| places.acquire(leases, now, cost, lease),
            Verdict::allow(u64::MAX, UNLIMITED)
        )
    }

    /// What taking would be answered; the state stays as it is.
    fn try_take(&mut self, now: Time, max_wait: Span) -> Verdict {
        let before = self.state.clone();
        let mut verdict = self.attempt(now, max_wait);
        if !verdict.allowed {
            self.state = before.clone();
            verdict = self.refuse(now);
        }
        self.state = before;
        verdict
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

    /// A holder is done after `rtt`; what it held is free again.
    fn release(&mut self, now: Time, rtt: Span, dropped: bool) {
        let lease = self.lease;
        match (self.limit.engine(), &mut self.state) {
            (Engine::Concurrent(places), State::Leases(leases)) => {
                places.release(leases, now, lease);
            }
            (Engine::Adaptive(range), State::Adaptive(state)) => {
                let released = state.places(range).release(&mut state.leases, now, lease);
                if released {
                    state.learn(range, now, rtt, dropped);
                }
            }
            // What was spent on a rate stays spent.
            _ => {}
        }
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

    /// Does what asks nobody.
    fn adjust(&mut self, action: Action, now: Time) {
        let cost = i64::try_from(self.cost).unwrap_or(i64::MAX);
        match action {
            Action::Take { .. } | Action::Try { .. } | Action::Peek => {}
            Action::Spend => self.charge(now, cost),
            Action::Refund => self.charge(now, -cost),
            Action::Release { rtt, dropped } => self.release(now, rtt, dropped),
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

    /// What is left to spend, negative if something is owed.
    fn left(&mut self, now: Time) -> i128 {
        let capacity = i128::from(self.capacity());
        let used = each_algorithm!(
            self,
            |algorithm, state| algorithm.used(state, now),
            |places, leases| places.in_flight(leases, now),
            return i128::from(u64::MAX)
        );
        capacity - i128::from(used)
    }

    /// How much is spent, in fifteenths; 15 only if nothing is left.
    pub(crate) fn level(&mut self, now: Time) -> u8 {
        let (left, capacity) = (self.left(now), i128::from(self.capacity()).max(1));
        match left {
            ..=0 => 15,
            left => ((capacity - left) * 15 / capacity).clamp(0, 14) as u8,
        }
    }

    /// Moves on to a changed limit.
    pub(crate) fn carry(&mut self, to: &'a Limit, now: Time, how: Carry) {
        self.state = match (self.limit.engine(), to.engine(), &self.state) {
            // Holders stay in flight whatever happens to the limit.
            (_, Engine::Concurrent(_), State::Leases(leases)) => State::Leases(leases.clone()),
            (_, Engine::Concurrent(_), State::Adaptive(state)) => {
                State::Leases(state.leases.clone())
            }
            (_, Engine::Adaptive(range), State::Leases(leases)) => {
                State::Adaptive(Box::new(AdaptiveState::new(range).with(leases.clone())))
            }
            (_, Engine::Adaptive(range), State::Adaptive(state)) => {
                State::Adaptive(Box::new(AdaptiveState::new(range).with(state.leases.clone())))
            }
            (Engine::Meter(old), Engine::Meter(new), State::Meter(state)) => {
                State::Meter(new.carry(old, state, now, how))
            }
            (Engine::WarmUp(old), Engine::WarmUp(new), State::WarmUp(state)) => {
                State::WarmUp(new.carry(old, state, now))
            }
            _ => {
                let left = how.apply(self.left(now), self.capacity(), to.capacity());
                endowed(to, now, left)
            }
        };
        self.limit = to;
    }
}

/// The state of a key that has `left` to spend under `limit`.
fn endowed(limit: &Limit, now: Time, left: i128) -> State {
    match limit.engine() {
        Engine::Meter(algorithm) => State::Meter(algorithm.endow(now, left)),
        Engine::FixedWindow(algorithm) => State::FixedWindow(algorithm.endow(now, left)),
        Engine::SlidingWindow(algorithm) => State::SlidingWindow(algorithm.endow(now, left)),
        Engine::SlidingSlots(algorithm) => State::SlidingSlots(algorithm.endow(now, left)),
        Engine::SlidingLog(algorithm) => State::SlidingLog(algorithm.endow(now, left)),
        Engine::WarmUp(algorithm) => State::WarmUp(algorithm.endow(now, left)),
        Engine::Concurrent(_) | Engine::Adaptive(_) | Engine::Unlimited => State::fresh(limit, now),
    }
}

/// What an account finds: a state that was named before in the same request is one state.
fn inherit(accounts: &mut [Account<'_>], i: usize, now: Time) {
    let Some(earlier) = accounts[i].same_as else { return };
    let state = accounts[earlier].state.clone();
    let fits = state.fits(accounts[i].limit);
    accounts[i].state = if fits { state } else { State::fresh(accounts[i].limit, now) };
}

/// Charges every account if each of them allows it, and none otherwise.
fn take(accounts: &mut [Account<'_>], now: Time, max_wait: Span) -> Verdicts {
    let mut before: SmallVec<[Option<State>; 4]> = SmallVec::new();
    let mut verdicts = Verdicts::new();
    let count = accounts.len();
    for i in 0..count {
        inherit(accounts, i, now);
        let account = &mut accounts[i];
        // After the last nobody can object, unless somebody already has.
        let last = i + 1 == count && verdicts.iter().all(|verdict| verdict.allowed);
        let in_place = last && account.same_as.is_none() && !account.state.is_small();
        let seen = (!in_place).then(|| account.state.clone());
        let mut verdict = account.attempt(now, max_wait);
        if !verdict.allowed {
            account.restore(&seen);
            verdict = account.refuse(now);
            account.restore(&seen);
        }
        before.push(seen);
        verdicts.push(verdict);
    }
    if verdicts.iter().all(|verdict| verdict.allowed) {
        return verdicts;
    }
    for (account, before) in accounts.iter_mut().zip(&before) {
        account.restore(before);
    }
    for (i, verdict) in verdicts.iter_mut().enumerate() {
        inherit(accounts, i, now);
        let account = &mut accounts[i];
        if verdict.allowed {
            *verdict = Verdict::allow(account.capacity(), account.peek(now));
        } else if before[i].is_some() && account.counts_denied() {
            account.adjust(Action::Spend, now);
        }
    }
    verdicts
}

/// The accounts of one request.
pub(crate) type Accounts<'a> = SmallVec<[Account<'a>; 2]>;

/// Does to the accounts what `action` says.
pub(crate) fn run(action: Action, accounts: &mut [Account<'_>], now: Time) -> Verdicts {
    match action {
        Action::Take { max_wait } => return take(accounts, now, max_wait),
        Action::Try { max_wait } => return accounts.iter_mut().map(|a| a.try_take(now, max_wait)).collect(),
        _ => {}
    }
    let adjusted = (0..accounts.len()).map(|i| {
        inherit(accounts, i, now);
        accounts[i].adjust(action, now);
        accounts[i].look(now)
    });
    adjusted.collect()
}
