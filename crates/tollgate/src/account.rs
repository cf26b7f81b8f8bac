//! A limit with its state: deciding several together, all or none.
//!
//! Stores differ in where states live. What happens to them is written here, once: an
//! [`Account`] pairs a limit with the state of one key, and the functions below run a request
//! over a slice of them.

use smallvec::SmallVec;
use tollgate_core::{
    Algorithm, Carry, ConcurrencyState, FixedWindowState, MeterState, Retry,
    SlidingLogState, SlidingSlotsState, SlidingWindowState, Span, Standing, Time, Verdict,
    WarmUpState,
};

use crate::adaptive::AdaptiveState;
use crate::limit::{Engine, Limit};
use crate::store::Action;

/// One verdict for each limit asked, in the order they were given.
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

    /// Copying costs nothing worth saving.
    fn is_small(&self) -> bool {
        use State::{Adaptive, Leases, SlidingLog, SlidingSlots};
        !matches!(self, SlidingSlots(_) | SlidingLog(_) | Leases(_) | Adaptive(_))
    }
}

impl<'a> Account<'a> {
    pub(crate) fn new(limit: &'a Limit, state: State, cost: u64) -> Account<'a> {
        Account { limit, state, cost, lease: 0 }
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
                if state.places(range).release(&mut state.leases, now, lease) {
                    state.learn(range, now, rtt, dropped);
                }
            }
            // What was spent on a rate stays spent.
            _ => {}
        }
    }

    /// From when on the state is as good as none.
    pub(crate) fn full_at(&mut self) -> Time {
        if let (Engine::Adaptive(range), State::Adaptive(state)) = (self.limit.engine(), &self.state)
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

    /// Moves on to a changed limit.
    pub(crate) fn carry(&mut self, to: &'a Limit, now: Time, how: Carry) {
        self.state = match (self.limit.engine(), to.engine(), &self.state) {
            // Holders stay in flight whatever happens to the limit.
            (Engine::Concurrent(_), Engine::Concurrent(_), state @ State::Leases(_)) => {
                state.clone()
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

/// Charges every account if each of them allows it, and none otherwise.
fn take(accounts: &mut [Account<'_>], now: Time, max_wait: Span) -> Verdicts {
    let mut before: SmallVec<[Option<State>; 4]> = SmallVec::new();
    let mut verdicts = Verdicts::new();
    for account in accounts.iter_mut() {
        before.push(account.state.is_small().then(|| account.state.clone()));
        verdicts.push(account.attempt(now, max_wait));
    }
    if verdicts.iter().all(|verdict| verdict.allowed) {
        return verdicts;
    }
    for ((account, verdict), before) in accounts.iter_mut().zip(&mut verdicts).zip(before) {
        match before {
            Some(state) => account.state = state,
            None if verdict.allowed => {
                account.charge(now, -i64::try_from(account.cost).unwrap_or(i64::MAX));
            }
            None => {}
        }
        *verdict = match verdict.allowed {
            true => Verdict::allow(account.capacity(), account.peek(now)),
            false => account.refuse(now),
        };
    }
    verdicts
}

/// The accounts of one request.
pub(crate) type Accounts<'a> = SmallVec<[Account<'a>; 2]>;

/// Does to the accounts what `action` says.
pub(crate) fn run(action: Action, accounts: &mut [Account<'_>], now: Time) -> Verdicts {
    let signed = |cost: u64| i64::try_from(cost).unwrap_or(i64::MAX);
    match action {
        Action::Take { max_wait } => return take(accounts, now, max_wait),
        Action::Peek => {}
        Action::Spend => accounts.iter_mut().for_each(|account| {
            account.charge(now, signed(account.cost));
        }),
        Action::Refund => accounts.iter_mut().for_each(|account| {
            account.charge(now, -signed(account.cost));
        }),
        Action::Release { rtt, dropped } => {
            accounts.iter_mut().for_each(|account| account.release(now, rtt, dropped));
        }
        Action::Reset => accounts.iter_mut().for_each(|account| {
            account.state = State::fresh(account.limit, now);
        }),
    }
    accounts.iter_mut().map(|account| account.look(now)).collect()
}
