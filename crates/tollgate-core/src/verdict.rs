//! What an algorithm answers: a [`Standing`] for a state, a [`Verdict`] for a request.

use crate::Span;

/// How a state stands at one instant: the answer of [`judge`](crate::Algorithm::judge).
///
/// ```
/// use tollgate_core::{Algorithm, Meter, Span, Time};
/// let meter = Meter::new(10, Span::from_secs(1), 10)?;
/// let mut state = meter.fresh(Time::EPOCH);
/// meter.charge(&mut state, Time::EPOCH, 12);
/// let standing = meter.judge(&state, Time::EPOCH);
/// assert_eq!(standing.overdrawn, Span::from_millis(200));
/// assert_eq!(standing.reset_after, Span::from_millis(1200));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How long until the state conforms to the limit; zero when it does now.
    pub overdrawn: Span,
    /// How long a conforming request is held back when the limit shapes traffic.
    pub delay: Span,
    /// What could still be spent right now.
    pub remaining: u64,
    /// How long until the state is as good as new.
    pub reset_after: Span,
}

/// When a request may come back.
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
    /// It was allowed: nothing to wait for.
    Now,
    /// Denied: it passes after this span, if nobody else spends meanwhile, and not one
    /// nanosecond earlier.
    After(Span),
    /// Denied, and always will be: it asks for more than the limit can ever hold.
    Never,
}

/// The answer to one request on one limit.
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
    /// May the request go on?
    pub allowed: bool,
    /// The most that can be spent at once.
    pub limit: u64,
    /// What is left after this request (before it, when it was denied).
    pub remaining: u64,
    /// How long until everything is available again.
    pub reset_after: Span,
    /// When a denied request may come back.
    pub retry: Retry,
    /// How long an allowed request must be held back before it goes on.
    pub wait: Span,
}

impl Verdict {
    /// The span after which a denied request passes: `None` if it was allowed or never will be.
    pub fn retry_after(&self) -> Option<Span> {
        match self.retry {
            Retry::After(span) => Some(span),
            Retry::Now | Retry::Never => None,
        }
    }

    /// A verdict that lets the request through.
    pub fn allow(limit: u64, standing: Standing) -> Verdict {
        Verdict {
            allowed: true,
            limit,
            remaining: standing.remaining,
            reset_after: standing.reset_after,
            retry: Retry::Now,
            wait: if standing.overdrawn > standing.delay {
                standing.overdrawn
            } else {
                standing.delay
            },
        }
    }

    /// A verdict that turns the request away; `standing` is the one before it.
    pub fn deny(limit: u64, standing: Standing, retry: Retry) -> Verdict {
        Verdict {
            allowed: false,
            limit,
            remaining: standing.remaining,
            reset_after: standing.reset_after,
            retry,
            wait: Span::ZERO,
        }
    }
}
