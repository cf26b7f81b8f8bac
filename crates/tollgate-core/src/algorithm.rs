//! The algebra every algorithm shares: `charge` and `judge`.
//!
//! An algorithm is two pure functions over a small state. `charge` spends without asking;
//! `judge` says how the state stands. Everything a user can ask for is a use of those two, and
//! is written here once: deciding, peeking, reserving ahead, borrowing, giving back.

use crate::{MAX_AMOUNT, Retry, Span, Standing, Time, Verdict};

/// A rate-limiting algorithm; `self` holds the parameters.
///
/// ```
/// use tollgate_core::{Algorithm, Meter, Span, Time};
///
/// let meter = Meter::new(10, Span::from_secs(1), 20)?; // 10 a second, 20 at once
/// let now = Time::from_nanos(1);
/// let mut state = meter.fresh(now);
/// assert_eq!(meter.decide(&mut state, now, 15).remaining, 5);
/// assert!(!meter.decide(&mut state, now, 6).allowed);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
pub trait Algorithm {
    /// What is remembered for one key.
    type State: Clone + PartialEq + core::fmt::Debug;

    /// The state of a key that was never seen.
    fn fresh(&self, now: Time) -> Self::State;

    /// Spends `cost`, unconditionally. A negative cost gives back, never above full.
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Meter, Span, Time};
    /// let meter = Meter::new(1, Span::from_secs(1), 5)?;
    /// let mut state = meter.fresh(Time::EPOCH);
    /// meter.charge(&mut state, Time::EPOCH, 7); // 2 in debt
    /// meter.charge(&mut state, Time::EPOCH, -3);
    /// assert_eq!(meter.peek(&state, Time::EPOCH).remaining, 1);
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    fn charge(&self, state: &mut Self::State, now: Time, cost: i64);

    /// How `state` stands at `now`.
    fn judge(&self, state: &Self::State, now: Time) -> Standing;

    /// The most that can ever be spent at once.
    fn capacity(&self) -> u64;

    /// What is spent at `now`, debt included.
    fn used(&self, state: &Self::State, now: Time) -> u64;

    /// From when on `state` is no different from [`fresh`](Algorithm::fresh), so that it may be
    /// forgotten for free.
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Meter, Span, Time};
    /// let meter = Meter::new(1, Span::from_secs(1), 5)?;
    /// let mut state = meter.fresh(Time::EPOCH);
    /// meter.charge(&mut state, Time::EPOCH, 3);
    /// assert_eq!(meter.full_at(&state), Time::EPOCH + Span::from_secs(3));
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    fn full_at(&self, state: &Self::State) -> Time;

    /// A request passes whenever nothing is owed, whatever its cost; the next one pays.
    fn pays_later(&self) -> bool {
        false
    }

    /// Refused requests are spent as well, so that hammering never pays.
    fn counts_denied(&self) -> bool {
        false
    }

    /// Whether a request of `cost` could pass at some time.
    fn can_hold(&self, cost: u64) -> bool {
        cost <= if self.pays_later() { MAX_AMOUNT } else { self.capacity() }
    }

    /// How long until a request of `cost`, refused at `now`, would pass.
    ///
    /// For most algorithms the charged state becomes conforming at exactly that moment. One for
    /// which coming back later differs from waiting in line says so here.
    fn retry_after(&self, before: &Self::State, now: Time, cost: i64) -> Span {
        let mut charged = before.clone();
        self.charge(&mut charged, now, cost);
        self.judge(&charged, now).overdrawn
    }

    /// Charges `cost` if the limit allows it; a denied request changes nothing, unless the
    /// limit [counts it](Algorithm::counts_denied).
    #[inline]
    fn decide(&self, state: &mut Self::State, now: Time, cost: u64) -> Verdict {
        self.reserve(state, now, cost, Span::ZERO)
    }

    /// Like [`decide`](Algorithm::decide), and also accepts a place in line no further away
    /// than `max_wait`; the verdict's `wait` says when it is due. A limit that counts denied
    /// requests has no line to wait in.
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Meter, Span, Time};
    /// let meter = Meter::new(1, Span::from_secs(1), 1)?;
    /// let mut state = meter.fresh(Time::EPOCH);
    /// let mut reserve = || meter.reserve(&mut state, Time::EPOCH, 1, Span::from_secs(1));
    /// assert_eq!(reserve().wait, Span::ZERO);
    /// assert_eq!(reserve().wait, Span::from_secs(1));
    /// assert!(!reserve().allowed); // two seconds away
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    #[inline]
    fn reserve(&self, state: &mut Self::State, now: Time, cost: u64, max_wait: Span) -> Verdict {
        let mut charged = state.clone();
        let verdict = self.attempt(&mut charged, now, cost, max_wait);
        if verdict.allowed {
            *state = charged;
            return verdict;
        }
        self.refuse(state, now, cost)
    }

    /// [`reserve`](Algorithm::reserve) without the copy, for a state on the heap: for algorithms
    /// whose [`attempt`](Algorithm::attempt) looks first and leaves a refused state as it was.
    #[inline]
    fn reserve_in_place(
        &self,
        state: &mut Self::State,
        now: Time,
        cost: u64,
        max_wait: Span,
    ) -> Verdict {
        let verdict = self.attempt(state, now, cost, max_wait);
        if verdict.allowed {
            return verdict;
        }
        self.refuse(state, now, cost)
    }

    /// Charges `state` and says whether that may be kept. This is the only place where a
    /// request is weighed; the caller keeps or drops the charged state, and has
    /// [`refuse`](Algorithm::refuse) word the refusal; until then the verdict describes the charged
    /// state, and its `retry` says when that would conform. Inlined, so that what the caller does not
    /// look at is never computed.
    #[inline(always)]
    fn attempt(&self, state: &mut Self::State, now: Time, cost: u64, max_wait: Span) -> Verdict {
        let limit = self.capacity();
        let signed = i64::try_from(cost).unwrap_or(i64::MAX);
        if self.pays_later() {
            self.charge(state, now, 0);
            let due = self.judge(state, now).overdrawn;
            self.charge(state, now, signed);
            let after = self.judge(state, now);
            let allowed = due <= max_wait && self.can_hold(cost);
            let retry = self.retry(allowed, cost, due);
            return Verdict { allowed, wait: due, retry, ..Verdict::allow(limit, after) };
        }
        self.charge(state, now, signed);
        let after = self.judge(state, now);
        let max_wait = if self.counts_denied() { Span::ZERO } else { max_wait };
        // Who is ready to wait says for how long, be it in line or held back.
        let in_time = max_wait.is_zero() || after.delay <= max_wait;
        let allowed = after.overdrawn <= max_wait && in_time && self.can_hold(cost);
        let retry = self.retry(allowed, cost, after.overdrawn);
        Verdict { allowed, retry, ..Verdict::allow(limit, after) }
    }

    /// When a request of `cost` may come back, given that it passes after `span`.
    #[inline(always)]
    fn retry(&self, allowed: bool, cost: u64, span: Span) -> Retry {
        match allowed {
            true => Retry::Now,
            false if self.pays_later() && self.can_hold(cost) => Retry::After(span),
            false if cost > self.capacity() => Retry::Never,
            false => Retry::After(span),
        }
    }

    /// The verdict on a request of `cost` that may not pass, given the state before it. Changes
    /// the state only if the limit [counts denied](Algorithm::counts_denied) requests.
    #[cold]
    fn refuse(&self, state: &mut Self::State, now: Time, cost: u64) -> Verdict {
        let signed = i64::try_from(cost).unwrap_or(i64::MAX);
        if self.counts_denied() {
            self.charge(state, now, signed);
        }
        let standing = self.peek(state, now);
        let span = match self.pays_later() {
            true => standing.overdrawn,
            false => match self.retry_after(state, now, signed) {
                // Not over the limit: it would only have been held back for too long.
                Span::ZERO => self.held_back(state, now, signed),
                span => span,
            },
        };
        Verdict::deny(self.capacity(), standing, self.retry(false, cost, span))
    }

    /// The most that a request of `cost` can leave: what a full limit has beside it. Nothing more is
    /// ever asked to be left, so that whatever could pass at some time still can.
    fn spare(&self, cost: u64) -> u64 {
        match self.pays_later() {
            // It is looked at before it pays.
            true => self.capacity(),
            false => self.capacity().saturating_sub(cost),
        }
    }

    /// How long until a request of `cost` would pass and leave `reserve`, which is no more than it
    /// [can](Algorithm::spare): until a request of both together would.
    fn leaves_after(&self, before: &Self::State, now: Time, cost: u64, reserve: u64) -> Span {
        let judged = if self.pays_later() { reserve } else { cost.saturating_add(reserve) };
        self.retry_after(before, now, i64::try_from(judged).unwrap_or(i64::MAX))
    }

    /// Like [`attempt`](Algorithm::attempt), if `reserve` is left afterwards: judged after charging
    /// both, kept with `cost` alone. Who has to leave something has no line to wait in.
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Meter, Retry, Span, Time};
    /// let meter = Meter::new(1, Span::from_secs(1), 5)?;
    /// let mut state = meter.fresh(Time::EPOCH);
    /// let mut take = |reserve| {
    ///     let mut charged = state;
    ///     let attempt = meter.attempt_leaving(&mut charged, Time::EPOCH, 2, reserve, Span::ZERO);
    ///     if attempt.allowed {
    ///         state = charged;
    ///         return attempt;
    ///     }
    ///     meter.refuse_leaving(&mut state, Time::EPOCH, 2, reserve)
    /// };
    /// assert_eq!(take(3).remaining, 3);
    /// assert_eq!(take(3).retry, Retry::After(Span::from_secs(2)));
    /// assert_eq!(take(1).remaining, 1);
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    fn attempt_leaving(
        &self,
        state: &mut Self::State,
        now: Time,
        cost: u64,
        reserve: u64,
        max_wait: Span,
    ) -> Verdict {
        let reserve = reserve.min(self.spare(cost));
        if reserve == 0 {
            return self.attempt(state, now, cost, max_wait);
        }
        match self.leaves_after(state, now, cost, reserve) {
            Span::ZERO => self.attempt(state, now, cost, Span::ZERO),
            span => Verdict::deny(self.capacity(), self.peek(state, now), Retry::After(span)),
        }
    }

    /// [`refuse`](Algorithm::refuse) for a request that was to leave `reserve`.
    #[cold]
    fn refuse_leaving(
        &self,
        state: &mut Self::State,
        now: Time,
        cost: u64,
        reserve: u64,
    ) -> Verdict {
        let verdict = self.refuse(state, now, cost);
        match (verdict.retry, reserve.min(self.spare(cost))) {
            (Retry::Never, _) | (_, 0) => verdict,
            (_, reserve) => {
                let span = self.leaves_after(state, now, cost, reserve);
                Verdict { retry: Retry::After(span), ..verdict }
            }
        }
    }

    /// How long a request of `cost` would be held back.
    fn held_back(&self, before: &Self::State, now: Time, cost: i64) -> Span {
        let mut charged = before.clone();
        self.charge(&mut charged, now, cost);
        self.judge(&charged, now).delay
    }

    /// The state of a key that has `left` to spend at `now` (negative: it owes), as when a limit
    /// of another shape is [carried over](crate::Carry).
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Meter, Span, Time};
    /// let meter = Meter::new(1, Span::from_secs(1), 5)?;
    /// let state = meter.endow(Time::EPOCH, 2);
    /// assert_eq!(meter.peek(&state, Time::EPOCH).remaining, 2);
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    fn endow(&self, now: Time, left: i128) -> Self::State {
        let used = i128::from(self.capacity()) - left;
        let mut state = self.fresh(now);
        let already = i128::from(self.used(&state, now));
        let cost = (used.max(0) - already).clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        self.charge(&mut state, now, cost as i64);
        state
    }

    /// How things stand, with nothing spent.
    #[inline(always)]
    fn peek(&self, state: &Self::State, now: Time) -> Standing {
        let mut probe = state.clone();
        self.charge(&mut probe, now, 0);
        self.judge(&probe, now)
    }
}
