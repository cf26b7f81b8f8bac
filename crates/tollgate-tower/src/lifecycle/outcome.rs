//! Reports the outcome of an admitted request to its rules.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use smallvec::SmallVec;
use tollgate_rules::{Admission, Outcome};

use super::response_reader::{ResponseFields, ResponseReader};
use super::{LifecycleObserver, RequestEnd, RequestLifecycle, maintenance};
use crate::json::JsonFields;
use crate::request_head::{OwnedRequestHead, RequestHead, texts};

/// Observes an admitted request if its outcome or its end matters to the rules.
///
/// ```
/// use tollgate_rules::RuleLimiter;
/// use tollgate_tower::request_head::RequestHead;
/// use tollgate_tower::lifecycle::{RequestEnd, observe};
///
/// let rules = "rules: [{ name: login, limit: 2/h, count: response.status == 401 }]";
/// let limiter = RuleLimiter::new(rules.parse()?);
/// let (head, ()) = http::Request::post("/login").body(())?.into_parts();
/// let request_head = RequestHead::new(&head);
/// for status in [401, 200, 401] {
///     let mut decision = limiter.decide_now(&request_head.request());
///     assert!(decision.allowed);
///     let mut lifecycle = observe(decision.take_admission(), &request_head);
///     lifecycle.responded(status.try_into()?, &Default::default());
///     lifecycle.end(RequestEnd::Complete);
/// }
/// assert!(!limiter.decide_now(&request_head.request()).allowed, "two wrong passwords");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn observe(admission: Option<Admission>, request_head: &RequestHead<'_>) -> RequestLifecycle {
    let has_end = |it: &Admission| it.holds_permits() || it.has_outcome();
    let Some(admission) = admission.filter(has_end) else { return RequestLifecycle::unobserved() };
    maintenance::start(&admission);
    RequestLifecycle::observed_by(Box::new(OutcomeObserver {
        head: admission.has_outcome().then(|| request_head.to_owned_head()),
        fields: JsonFields::new(BODY, admission.response_attributes()),
        took: Duration::ZERO,
        rerouted: false,
        answer: None,
        reader: None,
        bytes: 0,
        is_sent: true,
        admission,
    }))
}

/// The status codes of overloaded services. 429 is missing because it may concern the client alone;
/// 500 is an error like any other.
const OVERLOADED: [StatusCode; 3] =
    [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];

/// The prefix of attributes that are fields of the response body.
const BODY: &str = "response.body.";

struct OutcomeObserver {
    admission: Admission,
    /// The request, until its outcome is reported.
    head: Option<OwnedRequestHead>,
    /// The fields of the body that rules read.
    fields: Option<JsonFields>,
    reader: Option<ResponseReader>,
    /// The time until the response head; zero before that.
    took: Duration,
    /// Whether the request went to another upstream than the one that rules admitted it to.
    rerouted: bool,
    answer: Option<(StatusCode, HeaderMap)>,
    bytes: u64,
    is_sent: bool,
}

impl LifecycleObserver for OutcomeObserver {
    fn rerouted(&mut self) {
        self.rerouted = true;
    }

    fn responded(&mut self, status: StatusCode, headers: &HeaderMap) {
        // The rest depends on the length of the body and on the client.
        self.took = self.admission.elapsed().max(Duration::from_nanos(1));
        let wanted = self.head.is_some();
        self.answer = Some((status, if wanted { headers.clone() } else { HeaderMap::new() }));
        self.reader = self.fields.take().map(|fields| ResponseReader::new(fields, headers));
        if self.admission.response_attributes().all(is_in_head)
            && let Some(report) = self.report(None)
        {
            // A request that does not count returns its charge before the end of a long response.
            run_now_or_spawn(report.settle(None));
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

    fn end(mut self: Box<Self>, end: RequestEnd) {
        let overloaded =
            self.answer.as_ref().is_some_and(|(status, _)| OVERLOADED.contains(status));
        // A client that leaves before the response says nothing about the service.
        let dropped = end == RequestEnd::Failed || overloaded || self.rerouted;
        let report = self.report(Some(end));
        let OutcomeObserver { admission, took, .. } = *self;
        run_now_or_spawn(async move {
            match report {
                Some(report) => report.settle(Some((took, dropped))).await,
                // The store reports its failures itself.
                None => {
                    let outcome = Outcome::unknown().took(took).dropped(dropped);
                    let _ = admission.settle(outcome).await;
                }
            }
        });
    }
}

/// Returns whether an attribute is known from the response head.
fn is_in_head(name: &str) -> bool {
    name == "response.status" || name.starts_with("response.header.")
}

impl OutcomeObserver {
    /// Takes what is known of the outcome so far. `end` is `None` before the end of the request.
    fn report(&mut self, end: Option<RequestEnd>) -> Option<OutcomeReport> {
        let head = self.head.take()?;
        let answer = self.answer.take();
        if answer.is_some() {
            // The end only needs to know whether there was a response.
            self.answer = answer.as_ref().map(|(status, _)| (*status, HeaderMap::new()));
        }
        let found = self.reader.take().map(|reader| reader.end(end == Some(RequestEnd::Complete)));
        Some(OutcomeReport {
            admission: self.admission.clone(),
            head,
            is_sent: self.is_sent,
            is_gone: end == Some(RequestEnd::ClientLeft),
            answer,
            found,
            bytes: self.bytes,
            lasted: self.admission.elapsed(),
        })
    }
}

/// The known outcome of a request.
struct OutcomeReport {
    admission: Admission,
    head: OwnedRequestHead,
    is_sent: bool,
    /// Whether the client left before the end.
    is_gone: bool,
    answer: Option<(StatusCode, HeaderMap)>,
    found: Option<ResponseFields>,
    bytes: u64,
    lasted: Duration,
}

impl OutcomeReport {
    /// Settles the charges; `ended` says how long the answer took and whether it was dropped, if
    /// the request is over. The store reports its failures itself.
    async fn settle(self, ended: Option<(Duration, bool)>) {
        let OutcomeReport { admission, head, is_sent, is_gone, answer, found, bytes, lasted } =
            self;
        let mut unknown: SmallVec<[&str; 4]> = head.unknown.iter().copied().collect();
        match (&answer, &found) {
            // A client that left might have been sent anything.
            (None, _) if is_gone => unknown.push("response"),
            // Without a response there is certainly no status.
            (None, _) => unknown.push("response.body"),
            (_, Some(found)) if found.is_unknown => unknown.push("response.body"),
            _ => {}
        }
        let headers = answer.iter().flat_map(|(_, headers)| texts(headers));
        let headers: Vec<_> =
            headers.map(|(name, value)| (format!("response.header.{name}"), value)).collect();
        let request_head = head.as_request_head();
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let lasted_ms = u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX);
        let mut request = request_head
            .request()
            .unknown(&unknown)
            .attribute("response.bytes", number(bytes))
            .attribute("response.duration", number(lasted_ms));
        if let Some((status, _)) = &answer {
            request = request.attribute("response.status", i64::from(status.as_u16()));
        }
        for (name, value) in &headers {
            request = request.attribute(name, &**value);
        }
        for (name, value) in found.iter().flat_map(|found| &found.values) {
            request = request.attribute(name, value.clone());
        }
        let Some((took, dropped)) = ended else {
            let _ = admission.settle_early(&request).await;
            return;
        };
        let outcome = match is_sent {
            true => Outcome::of(&request),
            false => Outcome::not_sent(&request),
        };
        let _ = admission.settle(outcome.took(took).dropped(dropped)).await;
    }
}

/// Runs work now if it does not have to wait, as in memory; otherwise in the background.
fn run_now_or_spawn(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(work);
    let mut context = Context::from_waker(Waker::noop());
    if pin!(&mut work).poll(&mut context) == Poll::Pending
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        runtime.spawn(work);
    }
}
