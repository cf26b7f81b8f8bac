//! The algebra that every algorithm shares: `charge` and `judge`.
//!
//! An algorithm is two pure functions over a small state. `charge` spends unconditionally; `judge`
//! compares the state with the limit. Every operation is built from those two, and is written here
//! once: decide, peek, reserve ahead, borrow, refund.

use crate::{Judgement, MAX_AMOUNT, Retry, Span, Time, Verdict};

/// A rate-limiting algorithm; `self` holds the parameters, the caller holds the state.
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
    /// The state of one key.
    type State: Clone + PartialEq + core::fmt::Debug;

    /// Returns the state of a key without earlier requests.
    fn fresh(&self, now: Time) -> Self::State;

    /// Spends `cost` unconditionally. A negative cost is a refund, never above full.
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

    /// Compares `state` with the limit at `now`.
    fn judge(&self, state: &Self::State, now: Time) -> Judgement;

    /// Returns the most that can be spent at once.
    fn capacity(&self) -> u64;

    /// Returns the amount spent at `now`, debt included.
    fn used(&self, state: &Self::State, now: Time) -> u64;

    /// Returns the time from which `state` equals [`fresh`](Algorithm::fresh).
    ///
    /// A store may drop the state from then on without changing any decision.
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

    /// Returns whether a request of any cost passes while there is no debt, and the next one waits.
    fn pays_later(&self) -> bool {
        false
    }

    /// Returns whether refused requests are spent as well, so that retrying early does not help.
    fn counts_denied(&self) -> bool {
        false
    }

    /// Returns whether a request of `cost` could pass at some time.
    ///
    /// An algorithm that answers `false` below its capacity overrides [`retry`](Algorithm::retry) too.
    fn can_hold(&self, cost: u64) -> bool {
        cost <= if self.pays_later() { MAX_AMOUNT } else { self.capacity() }
    }

    /// Returns how long until a request of `cost`, refused at `now`, would pass.
    ///
    /// For most algorithms the charged state conforms at exactly that moment. An algorithm overrides
    /// this method if a later request differs from a reservation made now.
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

    /// Like [`decide`](Algorithm::decide), but also accepts a wait of up to `max_wait`.
    ///
    /// The verdict's `wait` says when the request is due. A limit that counts denied requests does not
    /// accept waits.
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

    /// Like [`reserve`](Algorithm::reserve), but without a copy of the state.
    ///
    /// This is for algorithms with a state on the heap whose [`attempt`](Algorithm::attempt) leaves a
    /// refused state unchanged.
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

    /// Charges `state` and returns whether the request may pass.
    ///
    /// This is the only function that decides. The caller keeps or drops the charged state, and gets
    /// the verdict of a refusal from [`refuse`](Algorithm::refuse). Until then the verdict describes
    /// the charged state, and its `retry` says when that would conform. The function is inlined, so
    /// that fields the caller does not read are never computed.
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
        // A maximum wait bounds both kinds of wait: for capacity, and for shaping.
        let in_time = max_wait.is_zero() || after.delay <= max_wait;
        let allowed = after.overdrawn <= max_wait && in_time && self.can_hold(cost);
        let retry = self.retry(allowed, cost, after.overdrawn);
        Verdict { allowed, retry, ..Verdict::allow(limit, after) }
    }

    /// Returns when a request of `cost` may retry, given that it passes after `span`.
    #[inline(always)]
    fn retry(&self, allowed: bool, cost: u64, span: Span) -> Retry {
        match allowed {
            true => Retry::Now,
            false if self.pays_later() && self.can_hold(cost) => Retry::After(span),
            false if cost > self.capacity() => Retry::Never,
            false => Retry::After(span),
        }
    }

    /// Returns the verdict on a refused request of `cost`, given the state before it.
    ///
    /// The state changes only if the limit [counts denied](Algorithm::counts_denied) requests.
    #[cold]
    fn refuse(&self, state: &mut Self::State, now: Time, cost: u64) -> Verdict {
        let signed = i64::try_from(cost).unwrap_or(i64::MAX);
        if self.counts_denied() {
            self.charge(state, now, signed);
        }
        let judgement = self.peek(state, now);
        let span = match self.pays_later() {
            true => judgement.overdrawn,
            false => match self.retry_after(state, now, signed) {
                // The request is within the limit; only its shaping delay is too long.
                Span::ZERO => self.shaping_delay(state, now, signed),
                span => span,
            },
        };
        Verdict::deny(self.capacity(), judgement, self.retry(false, cost, span))
    }

    /// Returns the most that a request of `cost` can leave of a full limit.
    ///
    /// A larger reserve is cut to this, so that a request that could pass at some time still can.
    fn max_reserve(&self, cost: u64) -> u64 {
        match self.pays_later() {
            // The request is judged before it is charged.
            true => self.capacity(),
            false => self.capacity().saturating_sub(cost),
        }
    }

    /// Returns how long until a request of `cost` would pass and leave `reserve`.
    ///
    /// This is when a request of both together would pass. The reserve is at most
    /// [`max_reserve`](Algorithm::max_reserve).
    fn retry_after_leaving(
        &self,
        before: &Self::State,
        now: Time,
        cost: u64,
        reserve: u64,
    ) -> Span {
        let judged = if self.pays_later() { reserve } else { cost.saturating_add(reserve) };
        self.retry_after(before, now, i64::try_from(judged).unwrap_or(i64::MAX))
    }

    /// Like [`attempt`](Algorithm::attempt), but the request must also leave `reserve`.
    ///
    /// The limit must hold both together, and only `cost` is charged. A request with a reserve does not
    /// wait.
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
        let reserve = reserve.min(self.max_reserve(cost));
        if reserve == 0 {
            return self.attempt(state, now, cost, max_wait);
        }
        match self.retry_after_leaving(state, now, cost, reserve) {
            Span::ZERO => self.attempt(state, now, cost, Span::ZERO),
            span => Verdict::deny(self.capacity(), self.peek(state, now), Retry::After(span)),
        }
    }

    /// Like [`refuse`](Algorithm::refuse), for a request that must leave `reserve`.
    #[cold]
    fn refuse_leaving(
        &self,
        state: &mut Self::State,
        now: Time,
        cost: u64,
        reserve: u64,
    ) -> Verdict {
        let verdict = self.refuse(state, now, cost);
        match (verdict.retry, reserve.min(self.max_reserve(cost))) {
            (Retry::Never, _) | (_, 0) => verdict,
            (_, reserve) => {
                let span = self.retry_after_leaving(state, now, cost, reserve);
                Verdict { retry: Retry::After(span), ..verdict }
            }
        }
    }

    /// Returns how long shaping would delay a request of `cost`.
    fn shaping_delay(&self, before: &Self::State, now: Time, cost: i64) -> Span {
        let mut charged = before.clone();
        self.charge(&mut charged, now, cost);
        self.judge(&charged, now).delay
    }

    /// Returns the state of a key with `left` to spend at `now`, or with debt if negative.
    ///
    /// Stores use it to [carry over](crate::Carry) the state of a limit with another algorithm.
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Meter, Span, Time};
    /// let meter = Meter::new(1, Span::from_secs(1), 5)?;
    /// let state = meter.with_remaining(Time::EPOCH, 2);
    /// assert_eq!(meter.peek(&state, Time::EPOCH).remaining, 2);
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    fn with_remaining(&self, now: Time, left: i128) -> Self::State {
        let used = i128::from(self.capacity()) - left;
        let mut state = self.fresh(now);
        let already = i128::from(self.used(&state, now));
        let cost = (used.max(0) - already).clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        self.charge(&mut state, now, cost as i64);
        state
    }

    /// Judges the state at `now` without spending anything.
    #[inline(always)]
    fn peek(&self, state: &Self::State, now: Time) -> Judgement {
        let mut probe = state.clone();
        self.charge(&mut probe, now, 0);
        self.judge(&probe, now)
    }
}
