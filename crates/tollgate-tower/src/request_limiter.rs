//! The limiter of a layer and its settings, shared by all clones and services of the layer.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use ipnet::IpNet;
use tollgate::{Clock, MemoryStore, Store};
use tollgate_rules::{Decision, Door, QueuedRequest, Request, RuleLimiter, Rules, Value};

use crate::headers::{DecisionSummary, HeaderStyle, ResponseHeaders};
use crate::lifecycle::{RequestLifecycle, observe};
use crate::missing_address;
use crate::peer;
use crate::refusal::Refusal;
use crate::request_head::RequestHead;

pub(crate) type PeerFn = dyn Fn(&Parts) -> Option<IpAddr> + Send + Sync;
pub(crate) type AttributeFn = dyn Fn(&Parts) -> Option<Value<'static>> + Send + Sync;
pub(crate) type RefusalFn = dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync;

/// The maximum number of warnings about attributes.
const MAX_WARNINGS: usize = 16;

#[derive(Clone)]
pub(crate) struct RequestLimiter {
    limiter: AnyRuleLimiter,
    pub(crate) headers: HeaderStyle,
    pub(crate) domain: Option<Arc<str>>,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub(crate) patience: Duration,
    pub(crate) peer: Option<Arc<PeerFn>>,
    pub(crate) attributes: Vec<(Arc<str>, Arc<AttributeFn>)>,
    pub(crate) on_refused: Option<Arc<RefusalFn>>,
    /// Whether the warning about missing addresses has been logged.
    warned: Arc<AtomicBool>,
    /// Whether the attributes that rules read have been checked.
    checked: Arc<AtomicBool>,
}

/// A limiter with its counters in memory or elsewhere. In memory, decisions need no allocation.
#[derive(Clone)]
enum AnyRuleLimiter {
    Local(RuleLimiter),
    Remote(Arc<dyn RemoteLimiter>),
}

trait RemoteLimiter: Send + Sync {
    fn admit<'a>(
        &'a self,
        request: &'a Request<'_>,
    ) -> Pin<Box<dyn Future<Output = Decision> + Send + 'a>>;

    fn clock(&self) -> &Clock;

    fn rules(&self) -> Rules;
}

impl<S: Store + 'static> RemoteLimiter for RuleLimiter<S> {
    fn admit<'a>(
        &'a self,
        request: &'a Request<'_>,
    ) -> Pin<Box<dyn Future<Output = Decision> + Send + 'a>> {
        Box::pin(RuleLimiter::admit(self, request))
    }

    fn clock(&self) -> &Clock {
        RuleLimiter::clock(self)
    }

    fn rules(&self) -> Rules {
        RuleLimiter::rules(self)
    }
}

/// The verdict on a request.
pub(crate) enum RequestVerdict {
    /// The request is forwarded to the service.
    Pass(AdmittedRequest),
    Refuse(Box<Response<Bytes>>),
}

/// A verdict that is not there yet.
pub(crate) enum PendingVerdict {
    /// The request waits for its turn.
    Waits(QueuedRequest),
    /// The counters are in a remote store.
    Remote,
}

/// An admitted request.
pub(crate) struct AdmittedRequest {
    pub(crate) headers: ResponseHeaders,
    pub(crate) lifecycle: RequestLifecycle,
}

impl RequestLimiter {
    pub(crate) fn new<S: Store + 'static>(limiter: RuleLimiter<S>) -> RequestLimiter {
        let local = (&limiter as &dyn Any).downcast_ref::<RuleLimiter<MemoryStore>>().cloned();
        RequestLimiter {
            limiter: match local {
                Some(local) => AnyRuleLimiter::Local(local),
                None => AnyRuleLimiter::Remote(Arc::new(limiter)),
            },
            headers: HeaderStyle::default(),
            domain: None,
            trusted_proxies: Vec::new(),
            patience: Duration::ZERO,
            peer: None,
            attributes: Vec::new(),
            on_refused: None,
            warned: Arc::default(),
            checked: Arc::default(),
        }
    }

    /// Returns the verdict on a request if that needs no waiting.
    pub(crate) fn decide_now(&self, head: &Parts) -> Result<RequestVerdict, PendingVerdict> {
        let AnyRuleLimiter::Local(limiter) = &self.limiter else {
            return Err(PendingVerdict::Remote);
        };
        let request_head = self.request_head(head);
        let decision = limiter.admit_now(&request_head.request()).map_err(PendingVerdict::Waits)?;
        Ok(self.verdict(decision, &request_head, head))
    }

    /// Waits for the verdict on a request.
    pub(crate) async fn decide(&self, head: &Parts, later: PendingVerdict) -> RequestVerdict {
        let request_head = self.request_head(head);
        let decision = match (later, &self.limiter) {
            (PendingVerdict::Waits(queued), _) => queued.wait(&request_head.request()).await,
            (PendingVerdict::Remote, AnyRuleLimiter::Local(limiter)) => {
                limiter.admit(&request_head.request()).await
            }
            (PendingVerdict::Remote, AnyRuleLimiter::Remote(limiter)) => {
                limiter.admit(&request_head.request()).await
            }
        };
        self.verdict(decision, &request_head, head)
    }

    fn request_head<'a>(&'a self, head: &'a Parts) -> RequestHead<'a> {
        let peer = match &self.peer {
            Some(peer) => peer(head),
            None => peer::of(&head.extensions),
        };
        let mut request_head = RequestHead::new(head)
            .peer(peer)
            .domain(self.domain.as_deref())
            .trusted_proxies(&self.trusted_proxies)
            .patience(self.patience);
        for (name, value) in &self.attributes {
            if let Some(value) = value(head) {
                request_head = request_head.attribute(name, value);
            }
        }
        request_head
    }

    fn verdict(
        &self,
        mut decision: Decision,
        request_head: &RequestHead<'_>,
        head: &Parts,
    ) -> RequestVerdict {
        if !request_head.has_peer() && missing_address::is_missing(&decision) {
            self.warn_of_missing_address(&decision);
            // A function that finds no address was chosen to; a server that tells none is set up
            // wrong.
            if self.peer.is_none() {
                let response = missing_address::response(&head.headers);
                return RequestVerdict::Refuse(Box::new(response));
            }
        }
        if !decision.allowed {
            let summary = DecisionSummary::new(&decision);
            let refusal = Refusal::new(head, summary, self.headers, self.unix_s());
            return RequestVerdict::Refuse(Box::new(match &self.on_refused {
                Some(on_refused) => on_refused(&refusal),
                None => refusal.response(),
            }));
        }
        let headers = ResponseHeaders::allowed(self.headers, &decision, self.unix_s());
        let lifecycle = observe(decision.take_admission(), request_head);
        RequestVerdict::Pass(AdmittedRequest { headers, lifecycle })
    }

    /// Returns the Unix time for the one style that needs it.
    fn unix_s(&self) -> u64 {
        if self.headers != HeaderStyle::Legacy {
            return 0;
        }
        let clock = match &self.limiter {
            AnyRuleLimiter::Local(limiter) => limiter.clock(),
            AnyRuleLimiter::Remote(limiter) => limiter.clock(),
        };
        clock.date(clock.now()).as_nanos() / 1_000_000_000
    }

    #[cold]
    fn warn_of_missing_address(&self, decision: &Decision) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(rule = decision.rule(), "{}", missing_address::ADVICE);
        }
    }

    /// Logs a warning for each attribute that rules read and neither the head of a request nor a
    /// function of this layer has.
    pub(crate) fn warn_of_unsupplied_attributes(&self) {
        if self.checked.swap(true, Ordering::Relaxed) {
            return;
        }
        let rules = match &self.limiter {
            AnyRuleLimiter::Local(limiter) => limiter.rules(),
            AnyRuleLimiter::Remote(limiter) => limiter.rules(),
        };
        let supplied: Vec<&str> = self.attributes.iter().map(|(name, _)| &**name).collect();
        for warning in rules.unsupplied(Door::Layer, &supplied).iter().take(MAX_WARNINGS) {
            tracing::warn!("{}: {}", warning.message(), warning.help_text().unwrap_or_default());
        }
    }
}

impl fmt::Debug for RequestLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attributes: Vec<_> = self.attributes.iter().map(|(name, _)| name).collect();
        f.debug_struct("RequestLimiter")
            .field("is_local", &matches!(self.limiter, AnyRuleLimiter::Local(_)))
            .field("headers", &self.headers)
            .field("domain", &self.domain)
            .field("trusted_proxies", &self.trusted_proxies)
            .field("patience", &self.patience)
            .field("attributes", &attributes)
            .finish_non_exhaustive()
    }
}
