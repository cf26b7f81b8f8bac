//! One request: looked at, decided, sent on, answered.

use std::borrow::Cow;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{ACCEPT_ENCODING, EXPECT, HeaderValue};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Version};
use tollgate::rules::Reason;
use tollgate_tower::arrival::Arrival;
use tollgate_tower::passage::{End, Followed, Passage, follow};

use super::defer::Halt;
use super::forwarded::Known;
use super::look::{Looked, look};
use super::tunnel::{self, Tunnel};
use super::upload::Upload;
use super::upstreams::{Answer, UpstreamBody, UpstreamError};
use super::{Visitor, answer, hops, sound};
use crate::clock;
use crate::headers::{self, Told};
use crate::telemetry::DoorName;

/// The body of an answer: made here, or of an upstream.
pub(super) type Body = Either<Full<Bytes>, Followed<UpstreamBody>>;

/// A request that asks to go on in another protocol.
struct Switch {
    protocol: HeaderValue,
    client: OnUpgrade,
}

impl Visitor {
    /// Answers a request.
    pub(super) async fn pass(&self, request: Request<Incoming>) -> Response<Body> {
        let (response, is_upstream) = match self.answer(request).await {
            Ok(response) => (response, true),
            Err(response) => (response, false),
        };
        self.gateway.context.engine.telemetry().passed(response.status(), is_upstream);
        response
    }

    /// The upstream's answer, or one that is made here instead.
    async fn answer(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, Response<Body>> {
        let version = request.version();
        if let Some(unsound) = self.pulse.unsound() {
            let why = Cow::Borrowed(unsound.as_str());
            return Err(answer::unsound(version, &(StatusCode::BAD_REQUEST, why)));
        }
        let client = hyper::upgrade::on(&mut request);
        let (mut head, body) = request.into_parts();
        sound::make_sound(&mut head, &body)
            .map_err(|unsound| answer::unsound(version, &unsound))?;
        hops::join_all(&mut head.headers);
        if let Some(id) = head.uri.path().strip_prefix(&*self.gateway.options.defer.prefix) {
            // In a box: what is rare must not weigh on every request.
            return Err(Box::pin(self.tell_of_deferred(&head.method, id)).await);
        }
        let known = self.peer.know(&head.headers, || self.gateway.trusted_proxies());
        let looked = match look(&self.gateway, &head, body).await {
            Ok(looked) => looked,
            Err(error) => return Err(answer::not_looked_into(version, &error)),
        };
        let decided = match self.turn_behind_others(&head, &known, &looked) {
            Some(turn) => Err(Halt::Deferred(turn)),
            None => self.decide(&head, &known, &looked).await,
        };
        let (told, passage, aim) = match decided {
            Ok(allowed) => allowed,
            Err(Halt::Refused(refusal)) => {
                if let Some(body) = looked.upload.into_rest() {
                    answer::read_small(body, head.headers.contains_key(EXPECT)).await;
                }
                return Err(*refusal);
            }
            Err(Halt::Deferred(turn)) => {
                return Err(Box::pin(self.defer(&head, looked, *turn)).await);
            }
        };
        let upload = looked.upload;
        let protocol = tunnel::wanted(&head, !upload.is_end_stream());
        if passage.reads_body() {
            head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        hops::renew(&mut head.headers);
        self.peer.introduce(&mut head.headers, known);
        let switch = protocol.map(|protocol| Switch { protocol, client });
        if let Some(switch) = &switch {
            tunnel::announce(&mut head.headers, switch.protocol.clone());
        }
        self.send((head, aim), upload, passage, told, switch)
            .await
            .map_err(|error| answer::failed(version, &error))
    }

    /// Asks the rules. Allowed, it comes back once it may go on, with what the client is told of
    /// its limits; who leaves meanwhile has left everything behind.
    async fn decide(
        &self,
        head: &Parts,
        known: &Known,
        looked: &Looked,
    ) -> Result<(Told, Passage, Option<usize>), Halt> {
        let gateway = &self.gateway;
        let engine = &gateway.context.engine;
        let style = gateway.context.config.headers;
        let domain = gateway.options.domain.as_deref();
        let arrival = looked.said.of(Arrival::new(head).peer(known.client).domain(domain));
        let (arrival, decision, aim) = if engine.limiter().counts_by_upstream(domain) {
            let (arrival, decision, aim) = self.aim(arrival).await;
            (arrival, decision, Some(aim))
        } else {
            let decision = engine.admit(DoorName::Gateway, &arrival.request(), 1).await;
            (arrival, decision, None)
        };
        if decision.reason == Reason::Unmatched && decision.domain().is_none() {
            gateway.say_that_nobody_decides();
        }
        let unix_s = clock::unix_s();
        if !decision.allowed {
            if let Some(turn) = self.turn(head, &looked.upload, &decision) {
                return Err(Halt::Deferred(turn));
            }
            let answer = headers::Answer::of(&decision);
            let refusal = headers::refusal_to(&head.headers, style, &answer, unix_s);
            return Err(Halt::Refused(Box::new(refusal.map(answer::whole))));
        }
        let told = headers::Told::allowed(style, &decision, unix_s);
        Ok((told, follow(engine.limiter(), decision, &arrival), aim))
    }

    async fn send(
        &self,
        (head, aim): (Parts, Option<usize>),
        upload: Upload,
        mut passage: Passage,
        told: Told,
        switch: Option<Switch>,
    ) -> Result<Response<Body>, UpstreamError> {
        let engine = &self.gateway.context.engine;
        let progress = upload.progress();
        let before = engine.clock().now();
        let sent = self.gateway.upstreams.send(aim, Request::from_parts(head, upload)).await;
        engine.telemetry().upstream_took(engine.clock().now().since(before));
        let Answer { response, lane, load, hit } = match sent {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(%error, "an upstream gave no answer");
                if let UpstreamError::Connect(_) = error {
                    passage.not_sent();
                }
                passage.end(error.end());
                return Err(error);
            }
        };
        if !hit {
            passage.missed();
        }
        passage.answered(response.status(), response.headers());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(self.switch(response, switch, Tunnelled { lane, load, passage, told }));
        }
        let pause = self.gateway.options.pause_timeout;
        let mut response = response.map(|body| {
            let body = UpstreamBody::new(body, lane, progress, load, pause);
            Either::Right(Followed::new(body, passage))
        });
        *response.version_mut() = Version::HTTP_11;
        hops::strip(response.headers_mut());
        told.write(response.headers_mut());
        Ok(response)
    }

    /// Both sides go on in another protocol, if that is what was asked for.
    fn switch(
        &self,
        mut response: Response<Incoming>,
        switch: Option<Switch>,
        tunnelled: Tunnelled,
    ) -> Response<Body> {
        let agreed = switch.filter(|switch| tunnel::agrees(response.headers(), &switch.protocol));
        let Tunnelled { lane, load, passage, told } = tunnelled;
        let Some(Switch { protocol, client }) = agreed else {
            passage.end(End::Broken);
            return answer::wrong_switch();
        };
        let upstream = hyper::upgrade::on(&mut response);
        let mut response = response.map(|_| answer::whole(Bytes::new()));
        hops::strip(response.headers_mut());
        tunnel::announce(response.headers_mut(), protocol);
        told.write(response.headers_mut());
        self.pulse.upgrade();
        *self.tunnel.lock() = Some(Tunnel { client, upstream, lane, passage, load });
        response
    }
}

/// What a request leaves to the tunnel it becomes.
struct Tunnelled {
    lane: Option<super::upstreams::Lane>,
    load: super::upstreams::Load,
    passage: Passage,
    told: Told,
}
