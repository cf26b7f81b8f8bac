//! The outcome of an admitted request.

use std::time::Duration;

use crate::Request;

/// The outcome of an admitted request, as far as its door knows it.
///
/// ```
/// use std::time::Duration;
/// use tollgate_rules::{Outcome, Request};
///
/// let answered = Request::new("POST", "/login").attribute("response.status", 401);
/// let outcome = Outcome::of(&answered).took(Duration::from_millis(12));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome<'o, 'r> {
    pub(crate) truth: Option<(&'o Request<'r>, Truth)>,
    pub(crate) took: Duration,
    pub(crate) dropped: bool,
}

/// The known facts about the end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    /// The outcome, as attributes.
    Outcome,
    /// The actual cost.
    Spent(u64),
    /// The request never reached the upstream, so it has no outcome.
    NotSent,
}

impl<'o, 'r> Outcome<'o, 'r> {
    /// Returns an unknown outcome: charges stay as they are.
    pub fn unknown() -> Outcome<'o, 'r> {
        Outcome::default()
    }

    /// Returns the outcome of a decided request, with response values as attributes
    /// ([`response_attributes`](crate::Admission::response_attributes) lists them).
    pub fn of(request: &'o Request<'r>) -> Outcome<'o, 'r> {
        Outcome { truth: Some((request, Truth::Outcome)), ..Outcome::default() }
    }

    /// Returns an outcome of which only the cost is known. Rules that settle use it instead of the
    /// response value, others as the cost of the request.
    ///
    /// ```
    /// use tollgate_rules::{Adjustment, Outcome, Request, RuleLimiter};
    ///
    /// # futures_lite(async {
    /// let limiter = RuleLimiter::new("rules: [{ name: tokens, limit: 100/h }]".parse().unwrap());
    /// let request = Request::empty().cost(40).to_be_settled(None);
    /// let admission = limiter.decide(&request).await.take_admission().unwrap();
    /// admission.settle(Outcome::spent(&request, 10)).await.unwrap();
    /// let left = limiter.adjust(&request, Adjustment::Peek).await.unwrap();
    /// assert_eq!(left.tightest().unwrap().verdict.remaining, 90);
    /// # });
    /// # fn futures_lite(future: impl Future<Output = ()>) {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
    /// # }
    /// ```
    pub fn spent(request: &'o Request<'r>, spent: u64) -> Outcome<'o, 'r> {
        Outcome { truth: Some((request, Truth::Spent(spent))), ..Outcome::default() }
    }

    /// Returns the outcome of a request that never reached the upstream: rules that count outcomes
    /// or settle costs refund their charges.
    pub fn not_sent(request: &'o Request<'r>) -> Outcome<'o, 'r> {
        Outcome { truth: Some((request, Truth::NotSent)), ..Outcome::default() }
    }

    /// Sets the response time, which adaptive limits learn from. Zero means unknown.
    pub fn took(self, took: Duration) -> Outcome<'o, 'r> {
        Outcome { took, ..self }
    }

    /// Sets whether the request was dropped by an overloaded service, which adaptive limits learn
    /// from.
    pub fn dropped(self, dropped: bool) -> Outcome<'o, 'r> {
        Outcome { dropped, ..self }
    }
}
