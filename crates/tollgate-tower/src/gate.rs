//! What every clone of a layer and its services share: the limiter, and how it is asked.

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
use tollgate::rules::{Decision, RuleLimiter, Value, Waits};
use tollgate::{Clock, MemoryStore, Request, Store};

use crate::arrival::Arrival;
use crate::headers::{Answer, HeaderStyle, Told};
use crate::passage::{Passage, follow};
use crate::peer;
use crate::refused::Refusal;

pub(crate) type PeerOf = dyn Fn(&Parts) -> Option<IpAddr> + Send + Sync;
pub(crate) type AttributeOf = dyn Fn(&Parts) -> Option<Value<'static>> + Send + Sync;
pub(crate) type AnswerTo = dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync;

#[derive(Clone)]
pub(crate) struct Gate {
    limiter: Limiting,
    pub(crate) headers: HeaderStyle,
    pub(crate) domain: Option<Arc<str>>,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub(crate) patience: Duration,
    pub(crate) peer: Option<Arc<PeerOf>>,
    pub(crate) attributes: Vec<(Arc<str>, Arc<AttributeOf>)>,
    pub(crate) answer_to: Option<Arc<AnswerTo>>,
    /// Whether it was said that there are no addresses.
    warned: Arc<AtomicBool>,
}

/// Where decisions are made. In memory they are there at once, and nothing is boxed for them.
#[derive(Clone)]
enum Limiting {
    Here(RuleLimiter),
    Elsewhere(Arc<dyn Ask>),
}

trait Ask: Send + Sync {
    fn admit<'a>(
        &'a self,
        request: &'a Request<'_>,
    ) -> Pin<Box<dyn Future<Output = Decision> + Send + 'a>>;

    fn follow(&self, decision: Decision, arrival: &Arrival<'_>) -> Passage;

    fn clock(&self) -> &Clock;
}

impl<S: Store + 'static> Ask for RuleLimiter<S> {
    fn admit<'a>(
        &'a self,
        request: &'a Request<'_>,
    ) -> Pin<Box<dyn Future<Output = Decision> + Send + 'a>> {
        Box::pin(RuleLimiter::admit(self, request))
    }

    fn follow(&self, decision: Decision, arrival: &Arrival<'_>) -> Passage {
        follow(self, decision, arrival)
    }

    fn clock(&self) -> &Clock {
        RuleLimiter::clock(self)
    }
}

/// What becomes of a request.
pub(crate) enum Step {
    /// It goes on.
    Pass(Admitted),
    Refuse(Box<Response<Bytes>>),
}

/// A request that is not decided yet.
pub(crate) enum Later {
    /// It may go on later.
    Waits(Waits),
    /// The limiter is elsewhere.
    Asks,
}

/// A request that was let through.
pub(crate) struct Admitted {
    pub(crate) told: Told,
    pub(crate) passage: Passage,
}

impl Gate {
    pub(crate) fn new<S: Store + 'static>(limiter: RuleLimiter<S>) -> Gate {
        let here = (&limiter as &dyn Any).downcast_ref::<RuleLimiter<MemoryStore>>().cloned();
        Gate {
            limiter: match here {
                Some(here) => Limiting::Here(here),
                None => Limiting::Elsewhere(Arc::new(limiter)),
            },
            headers: HeaderStyle::default(),
            domain: None,
            trusted_proxies: Vec::new(),
            patience: Duration::ZERO,
            peer: None,
            attributes: Vec::new(),
            answer_to: None,
            warned: Arc::default(),
        }
    }

    /// What becomes of a request, if that can be told without waiting.
    pub(crate) fn step_now(&self, head: &Parts) -> Result<Step, Later> {
        let Limiting::Here(limiter) = &self.limiter else { return Err(Later::Asks) };
        let arrival = self.arrival(head);
        let decision = limiter.admit_now(&arrival.request()).map_err(Later::Waits)?;
        Ok(self.step(decision, &arrival, head))
    }

    /// What becomes of a request in the end.
    pub(crate) async fn step_later(&self, head: &Parts, later: Later) -> Step {
        let arrival = self.arrival(head);
        let decision = match (later, &self.limiter) {
            (Later::Waits(waits), _) => waits.turn(&arrival.request()).await,
            (Later::Asks, Limiting::Here(limiter)) => limiter.admit(&arrival.request()).await,
            (Later::Asks, Limiting::Elsewhere(limiter)) => limiter.admit(&arrival.request()).await,
        };
        self.step(decision, &arrival, head)
    }

    fn arrival<'a>(&'a self, head: &'a Parts) -> Arrival<'a> {
        let peer = match &self.peer {
            Some(peer) => peer(head),
            None => peer::of(&head.extensions),
        };
        let mut arrival = Arrival::new(head)
            .peer(peer)
            .domain(self.domain.as_deref())
            .trusted_proxies(&self.trusted_proxies)
            .patience(self.patience);
        for (name, value) in &self.attributes {
            if let Some(value) = value(head) {
                arrival = arrival.attribute(name, value);
            }
        }
        arrival
    }

    fn step(&self, decision: Decision, arrival: &Arrival<'_>, head: &Parts) -> Step {
        self.warn_of_missing_address(&decision, arrival);
        if !decision.allowed {
            let answer = Answer::of(&decision);
            let refusal = Refusal::new(head, answer, self.headers, self.unix_s());
            return Step::Refuse(Box::new(match &self.answer_to {
                Some(answer_to) => answer_to(&refusal),
                None => refusal.response(),
            }));
        }
        let told = Told::allowed(self.headers, &decision, self.unix_s());
        let passage = match (decision.is_to_be_followed(), &self.limiter) {
            (false, _) => Passage::unfollowed(),
            (true, Limiting::Here(limiter)) => follow(limiter, decision, arrival),
            (true, Limiting::Elsewhere(limiter)) => limiter.follow(decision, arrival),
        };
        Step::Pass(Admitted { told, passage })
    }

    /// The time of day, for the one style that tells it.
    fn unix_s(&self) -> u64 {
        if self.headers != HeaderStyle::Legacy {
            return 0;
        }
        let clock = match &self.limiter {
            Limiting::Here(limiter) => limiter.clock(),
            Limiting::Elsewhere(limiter) => limiter.clock(),
        };
        clock.now().as_nanos() / 1_000_000_000
    }

    fn warn_of_missing_address(&self, decision: &Decision, arrival: &Arrival<'_>) {
        // `%-` stands for a value that is missing.
        if arrival.has_peer() || !decision.key().is_some_and(|key| key.contains("%-")) {
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

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attributes: Vec<_> = self.attributes.iter().map(|(name, _)| name).collect();
        f.debug_struct("Gate")
            .field("is_here", &matches!(self.limiter, Limiting::Here(_)))
            .field("headers", &self.headers)
            .field("domain", &self.domain)
            .field("trusted_proxies", &self.trusted_proxies)
            .field("patience", &self.patience)
            .field("attributes", &attributes)
            .finish_non_exhaustive()
    }
}
