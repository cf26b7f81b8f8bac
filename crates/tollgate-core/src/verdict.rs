//! The results of an algorithm: a [`Judgement`] of a state, a [`Verdict`] on a request.

use crate::Span;

/// The comparison of a state with its limit, as [`judge`](crate::Algorithm::judge) returns it.
///
/// ```
/// use tollgate_core::{Algorithm, Meter, Span, Time};
/// let meter = Meter::new(10, Span::from_secs(1), 10)?;
/// let mut state = meter.fresh(Time::EPOCH);
/// meter.charge(&mut state, Time::EPOCH, 12);
/// let judgement = meter.judge(&state, Time::EPOCH);
/// assert_eq!(judgement.overdrawn, Span::from_millis(200));
/// assert_eq!(judgement.reset_after, Span::from_millis(1200));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The time until the state conforms to the limit; zero if it conforms now.
    pub overdrawn: Span,
    /// The delay of a conforming request when the limit shapes traffic.
    pub delay: Span,
    /// The amount that could be spent right now.
    pub remaining: u64,
    /// The time until the state is that of a new key.
    pub reset_after: Span,
}

/// When a request may be sent again.
///
/// ```
/// use tollgate_core::{Algorithm, Meter, Retry, Span, Time};
/// let meter = Meter::new(1, Span::from_secs(1), 2)?;
/// let mut state = meter.fresh(Time::EPOCH);
/// let mut retry = |cost| meter.decide(&mut state, Time::EPOCH, cost).retry;
/// assert_eq!(retry(2), Retry::Now);
/// assert_eq!(retry(1), Retry::After(Span::from_secs(1)));
/// assert_eq!(retry(3), Retry::Never);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The request was allowed, so there is nothing to wait for.
    Now,
    /// The request was denied, and passes after this span, not one nanosecond earlier.
    ///
    /// Other requests may spend in the meantime, and then it takes longer.
    After(Span),
    /// The request was denied and can never pass: it costs more than the limit can hold.
    Never,
}

/// The decision of one limit on one request.
///
/// ```
/// use tollgate_core::{Algorithm, Meter, Span, Time};
/// let meter = Meter::new(10, Span::from_secs(1), 20)?;
/// let verdict = meter.decide(&mut meter.fresh(Time::EPOCH), Time::EPOCH, 5);
/// assert!(verdict.allowed);
/// assert_eq!((verdict.limit, verdict.remaining), (20, 15));
/// assert_eq!(verdict.reset_after, Span::from_millis(500));
/// assert_eq!(verdict.retry_after(), None);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request may proceed.
    pub allowed: bool,
    /// The most that can be spent at once.
    pub limit: u64,
    /// The amount left after this request, or before it if it was denied.
    pub remaining: u64,
    /// The time until the full limit is available again.
    pub reset_after: Span,
    /// When a denied request may be sent again.
    pub retry: Retry,
    /// The time an allowed request must wait before it proceeds.
    pub wait: Span,
}

impl Verdict {
    /// Returns the span after which a denied request passes.
    ///
    /// The result is `None` if the request was allowed or can never pass.
    pub fn retry_after(&self) -> Option<Span> {
        match self.retry {
            Retry::After(span) => Some(span),
            Retry::Now | Retry::Never => None,
        }
    }

    /// Creates the verdict of an allowed request.
    pub fn allow(limit: u64, judgement: Judgement) -> Verdict {
        Verdict {
            allowed: true,
            limit,
            remaining: judgement.remaining,
            reset_after: judgement.reset_after,
            retry: Retry::Now,
            wait: if judgement.overdrawn > judgement.delay {
                judgement.overdrawn
            } else {
                judgement.delay
            },
        }
    }

    /// Creates the verdict of a denied request, from the judgement before it.
    pub fn deny(limit: u64, judgement: Judgement, retry: Retry) -> Verdict {
        Verdict {
            allowed: false,
            limit,
            remaining: judgement.remaining,
            reset_after: judgement.reset_after,
            retry,
            wait: Span::ZERO,
        }
    }
}
