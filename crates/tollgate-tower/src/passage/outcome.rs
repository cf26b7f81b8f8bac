//! What rules want to know of a request they let through: its outcome, and that it is over.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tollgate::rules::{Decision, Keeping, RuleLimiter};
use tollgate::{Span, Store, Time};

use super::{End, Follower, Passage, leases};
use crate::arrival::{Arrival, Kept, texts};

/// Follows a request that rules let through, if it matters to them how it goes.
///
/// ```
/// use tollgate::Limiter;
/// use tollgate_tower::arrival::Arrival;
/// use tollgate_tower::passage::{End, follow};
///
/// let rules = "rules: [{ name: login, limit: 2/h, count: response.status == 401 }]";
/// let limiter = Limiter::from_rules(rules.parse()?);
/// let (head, ()) = http::Request::post("/login").body(())?.into_parts();
/// let arrival = Arrival::new(&head);
/// for status in [401, 200, 401] {
///     let decision = limiter.decide(&arrival.request());
///     assert!(decision.allowed);
///     let mut passage = follow(&limiter, decision, &arrival);
///     passage.answered(status.try_into()?, &Default::default());
///     passage.end(End::Whole);
/// }
/// assert!(!limiter.decide(&arrival.request()).allowed, "two wrong passwords");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn follow<S>(limiter: &RuleLimiter<S>, decision: Decision, arrival: &Arrival<'_>) -> Passage
where
    S: Store + Send + Sync + 'static,
{
    if !decision.is_to_be_followed() {
        return Passage::unfollowed();
    }
    let keeping = limiter.keep(&decision);
    if keeping.is_some() {
        leases::tend(limiter);
    }
    Passage::followed(Box::new(Outcome {
        kept: decision.has_outcome().then(|| arrival.keep()),
        began: limiter.clock().now(),
        took: Span::ZERO,
        missed: false,
        answer: None,
        limiter: limiter.clone(),
        decision,
        _keeping: keeping,
    }))
}

/// What services answer when there is too much for them, or for those behind them. Of 429 nobody
/// knows whom it is about, and 500 is an error like any other.
const OVERLOADED: [StatusCode; 3] =
    [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];

struct Outcome<S> {
    limiter: RuleLimiter<S>,
    decision: Decision,
    /// The request, if an outcome is to be reported with it.
    kept: Option<Kept>,
    began: Time,
    /// How long the head of the answer took; zero until it is there.
    took: Span,
    /// Whether it went elsewhere than to whom the rules let it through.
    missed: bool,
    answer: Option<(StatusCode, HeaderMap)>,
    /// Its places are its own until it is over.
    _keeping: Option<Keeping<S>>,
}

impl<S: Store + Send + Sync + 'static> Follower for Outcome<S> {
    fn missed(&mut self) {
        self.missed = true;
    }

    fn answered(&mut self, status: StatusCode, headers: &HeaderMap) {
        // How long the rest takes is a matter of its length, and of who reads it.
        self.took = self.limiter.clock().now().since(self.began).max(Span::from_nanos(1));
        let wanted = self.kept.is_some();
        self.answer = Some((status, if wanted { headers.clone() } else { HeaderMap::new() }));
    }

    fn data(&mut self, _: &Bytes) {}

    fn end(self: Box<Self>, end: End) {
        at_once_or_soon(self.tell(end));
    }
}

impl<S: Store> Outcome<S> {
    async fn tell(self, end: End) {
        let overloaded =
            self.answer.as_ref().is_some_and(|(status, _)| OVERLOADED.contains(status));
        // Who left before the answer says nothing about the service.
        let dropped = end == End::Broken || overloaded || self.missed;
        if let (Some(kept), Some((status, headers))) = (&self.kept, &self.answer) {
            let arrival = kept.arrival();
            let named: Vec<_> = texts(headers)
                .map(|(name, value)| (format!("response.header.{name}"), value))
                .collect();
            let mut request =
                arrival.request().attribute("response.status", i64::from(status.as_u16()));
            for (name, value) in &named {
                request = request.attribute(name, &**value);
            }
            // A store that does not answer is the store's to report.
            let _ = self.limiter.report(&self.decision, &request).await;
        }
        let _ = self.limiter.done(&self.decision, self.took.into(), dropped).await;
    }
}

/// Does it now if that takes no waiting, as in memory; otherwise in the background.
fn at_once_or_soon(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(work);
    let mut context = Context::from_waker(Waker::noop());
    if pin!(&mut work).poll(&mut context) == Poll::Pending
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        runtime.spawn(work);
    }
}
