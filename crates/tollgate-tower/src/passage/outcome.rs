//! What rules want to know of a request they let through: its outcome, and that it is over.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use smallvec::SmallVec;
use tollgate::rules::{Decision, Keeping, RuleLimiter};
use tollgate::{Span, Store, Time};

use super::answer::AnswerReader;
use super::{End, Follower, Passage, leases};
use crate::arrival::{Arrival, Kept, texts};
use crate::json::Fields;

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
        fields: Fields::new(BODY, decision.wanted()),
        began: limiter.clock().now(),
        took: Span::ZERO,
        missed: false,
        answer: None,
        reader: None,
        bytes: 0,
        is_sent: true,
        limiter: limiter.clone(),
        decision: Arc::new(decision),
        keeping,
    }))
}

/// What services answer when there is too much for them, or for those behind them. Of 429 nobody
/// knows whom it is about, and 500 is an error like any other.
const OVERLOADED: [StatusCode; 3] =
    [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];

/// What stands before the names of fields of the body.
const BODY: &str = "response.body.";

struct Outcome<S> {
    limiter: RuleLimiter<S>,
    decision: Arc<Decision>,
    /// The request, until its outcome is reported.
    kept: Option<Kept>,
    /// What rules look for in the body.
    fields: Option<Fields>,
    reader: Option<AnswerReader>,
    began: Time,
    /// How long the head of the answer took; zero until it is there.
    took: Span,
    /// Whether it went elsewhere than to whom the rules let it through.
    missed: bool,
    answer: Option<(StatusCode, HeaderMap)>,
    bytes: u64,
    is_sent: bool,
    /// Its places are its own until it is over.
    keeping: Option<Keeping<S>>,
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
        self.reader = self.fields.take().map(|fields| AnswerReader::new(fields, headers));
        if self.decision.wanted().all(is_in_head)
            && let Some(report) = self.report(None)
        {
            // Whoever does not count is not to wait for the end of a long answer.
            at_once_or_soon(report);
        }
    }

    fn data(&mut self, data: &Bytes) {
        self.bytes += data.len() as u64;
        if let Some(reader) = &mut self.reader {
            reader.data(data);
        }
    }

    fn not_sent(&mut self) {
        self.is_sent = false;
    }

    fn reads_body(&self) -> bool {
        self.fields.is_some() || self.reader.is_some()
    }

    fn end(mut self: Box<Self>, end: End) {
        let overloaded =
            self.answer.as_ref().is_some_and(|(status, _)| OVERLOADED.contains(status));
        // Who left before the answer says nothing about the service.
        let dropped = end == End::Broken || overloaded || self.missed;
        let report = self.report(Some(end));
        let Outcome { limiter, decision, took, keeping, .. } = *self;
        drop(keeping);
        at_once_or_soon(async move {
            if let Some(report) = report {
                report.await;
            }
            // A store that does not answer is the store's to report.
            let _ = limiter.done(&decision, took.into(), dropped).await;
        });
    }
}

/// Whether an attribute is known with the head of the answer.
fn is_in_head(name: &str) -> bool {
    name == "response.status" || name.starts_with("response.header.")
}

impl<S: Store + Send + Sync + 'static> Outcome<S> {
    fn lasted(&self) -> Span {
        self.limiter.clock().now().since(self.began)
    }

    /// Reports what is known by now, once. None if it has not ended.
    fn report(&mut self, end: Option<End>) -> Option<impl Future<Output = ()> + Send + use<S>> {
        let kept = self.kept.take()?;
        let (limiter, decision, is_sent) =
            (self.limiter.clone(), self.decision.clone(), self.is_sent);
        let answer = self.answer.take();
        if answer.is_some() {
            // Whether it is there matters to the end.
            self.answer = answer.as_ref().map(|(status, _)| (*status, HeaderMap::new()));
        }
        let found = self.reader.take().map(|reader| reader.end(end == Some(End::Whole)));
        let (bytes, took_ms) = (self.bytes, self.lasted().as_nanos() / 1_000_000);
        Some(async move {
            if !is_sent {
                let _ = limiter.not_sent(&decision).await;
                return;
            }
            let mut unknown: SmallVec<[&str; 4]> = kept.unknown.iter().copied().collect();
            match (&answer, &found) {
                // Who leaves might have been told anything.
                (None, _) if end == Some(End::Gone) => unknown.push("response"),
                // Who was told that nobody answered knows that there is no status.
                (None, _) => unknown.push("response.body"),
                (_, Some(found)) if found.is_unknown => unknown.push("response.body"),
                _ => {}
            }
            let headers = answer.iter().flat_map(|(_, headers)| texts(headers));
            let headers: Vec<_> =
                headers.map(|(name, value)| (format!("response.header.{name}"), value)).collect();
            let arrival = kept.arrival();
            let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            let mut outcome = arrival
                .request()
                .unknown(&unknown)
                .attribute("response.bytes", number(bytes))
                .attribute("response.duration", number(took_ms));
            if let Some((status, _)) = &answer {
                outcome = outcome.attribute("response.status", i64::from(status.as_u16()));
            }
            for (name, value) in &headers {
                outcome = outcome.attribute(name, &**value);
            }
            for (name, value) in found.iter().flat_map(|found| &found.values) {
                outcome = outcome.attribute(name, value.clone());
            }
            // A store that does not answer is the store's to report.
            let _ = limiter.report(&decision, &outcome).await;
        })
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
