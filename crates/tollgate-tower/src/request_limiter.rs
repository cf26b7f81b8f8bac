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
use tollgate_rules::{Decision, QueuedRequest, Request, RuleLimiter, Value};

use crate::headers::{DecisionSummary, HeaderStyle, ResponseHeaders};
use crate::lifecycle::{RequestLifecycle, observe};
use crate::peer;
use crate::refusal::Refusal;
use crate::request_head::RequestHead;

pub(crate) type PeerFn = dyn Fn(&Parts) -> Option<IpAddr> + Send + Sync;
pub(crate) type AttributeFn = dyn Fn(&Parts) -> Option<Value<'static>> + Send + Sync;
pub(crate) type RefusalFn = dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync;

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
        self.warn_of_missing_address(&decision, request_head);
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

    fn warn_of_missing_address(&self, decision: &Decision, request_head: &RequestHead<'_>) {
        // `%-` stands for a value that is missing.
        if request_head.has_peer() || !decision.key().is_some_and(|key| key.contains("%-")) {
            return;
        }
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                rule = decision.rule(),
                "requests come without the address of their client, so all of them share one \
                 counter; with axum, serve `into_make_service_with_connect_info::<SocketAddr>()`, \
                 elsewhere insert `tollgate_tower::Peer` into their extensions"
            );
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
