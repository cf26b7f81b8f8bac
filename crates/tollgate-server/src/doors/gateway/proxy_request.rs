//! One request: checked, decided, forwarded, answered.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{ACCEPT_ENCODING, CONNECTION, EXPECT, HeaderValue};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Version};
use tollgate_rules::Reason;
use tollgate_tower::lifecycle::{ObservedBody, RequestEnd, RequestLifecycle, observe};
use tollgate_tower::problem::refusal_to;

use super::choose_upstream::UPSTREAM;
use super::continue_gate::{ContinueGate, ContinueSignal};
use super::defer::StopReason;
use super::forwarded::ResolvedClient;
use super::inspect_body::{InspectedBody, inspect_body};
use super::interim_relay::InterimRelay;
use super::trailers::takes_trailers;
use super::tunnel::{self, Tunnel};
use super::upload::{Upload, UploadStage};
use super::upstreams::{UpstreamBody, UpstreamError, UpstreamResponse};
use super::{GatewayConnection, ambiguity, hop_headers, local_response};
use crate::clock;
use crate::headers::{DecisionSummary, ResponseHeaders};
use crate::server::Context;
use crate::telemetry::DoorName;

/// A response body: made here, or of an upstream.
pub(super) type GatewayBody = Either<Full<Bytes>, ObservedBody<UpstreamBody>>;

/// A request to switch to another protocol.
struct ProtocolSwitch {
    protocol: HeaderValue,
    client: OnUpgrade,
}

impl GatewayConnection {
    /// Handles a request and returns the response.
    pub(super) async fn handle(&self, request: Request<Incoming>) -> Response<GatewayBody> {
        let takes_interim = request.version() == Version::HTTP_11;
        if takes_interim {
            self.activity.interim.open();
        }
        let (response, is_upstream) = match self.answer(request).await {
            Ok(response) => (response, true),
            Err(response) => (response, false),
        };
        self.gateway
            .context
            .decisions
            .telemetry()
            .record_gateway_response(response.status(), is_upstream);
        if takes_interim {
            self.activity.interim.finish().await;
        }
        response
    }

    /// Returns the response of the upstream, or as an error one that is made here.
    async fn answer(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<GatewayBody>, Response<GatewayBody>> {
        let version = request.version();
        if let Some(rejection) = self.activity.ambiguity() {
            let why = Cow::Borrowed(rejection.as_str());
            return Err(local_response::rejected(version, &(StatusCode::BAD_REQUEST, why)));
        }
        let client = hyper::upgrade::on(&mut request);
        let (mut head, body) = request.into_parts();
        ambiguity::normalize_head(&mut head, &body)
            .map_err(|rejection| local_response::rejected(version, &rejection))?;
        let bad =
            |why| local_response::rejected(version, &(StatusCode::BAD_REQUEST, Cow::Borrowed(why)));
        let passed = &self.gateway.passed_headers;
        hop_headers::merge_duplicates(&mut head.headers);
        hop_headers::remove_named(&mut head.headers);
        passed.check_method(&head).map_err(bad)?;
        if let Some(via) = &self.gateway.via
            && via.has_passed(&head.headers)
        {
            return Err(local_response::looping());
        }
        if let Some(id) = head.uri.path().strip_prefix(&*self.gateway.options.defer.prefix) {
            // Boxed, because a rare future must not enlarge that of every request.
            return Err(Box::pin(self.deferred_status(&head.method, id)).await);
        }
        let mut resolved =
            self.peer.resolve_client(&head.headers, || self.gateway.trusted_proxies());
        let Context { identities, decisions, .. } = &self.gateway.context;
        resolved.identity = match identities.identify(&head.headers, decisions.clock()) {
            Ok(identity) => identity,
            Err(refusal) => {
                local_response::read_small(body, head.headers.contains_key(EXPECT)).await;
                return Err(local_response::unauthorized(refusal));
            }
        };
        passed.remove_others(&mut head.headers, resolved.is_untrusted());
        let inspected = match inspect_body(self, &head, &resolved, body).await {
            Ok(inspected) => inspected,
            Err(error) => return Err(local_response::inspection_failed(version, error)),
        };
        let decided = match self.ticket_behind_queue(&head, &resolved, &inspected) {
            Some(ticket) => Err(StopReason::Deferred(ticket)),
            None => self.decide(&head, &resolved, &inspected).await,
        };
        let (response_headers, lifecycle, chosen) = match decided {
            Ok(allowed) => allowed,
            Err(StopReason::Refused(refusal)) => {
                if let Some(body) = inspected.upload.into_rest() {
                    local_response::read_small(body, head.headers.contains_key(EXPECT)).await;
                }
                return Err(*refusal);
            }
            Err(StopReason::Deferred(ticket)) => {
                return Err(Box::pin(self.defer(&head, &resolved, inspected, *ticket)).await);
            }
        };
        let mut upload = inspected.upload;
        let protocol = tunnel::requested_protocol(&head, !upload.is_end_stream());
        if lifecycle.reads_body() {
            head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let expects = hop_headers::expects_continue(&head.headers) && upload.is_unread();
        hop_headers::prepare_request(&mut head.headers);
        self.peer.write_forwarded(&mut head.headers, &resolved);
        if let Some(via) = &self.gateway.via {
            via.add(&mut head.headers, version);
        }
        self.relay_interim(&mut head, &mut upload, expects);
        let switch = protocol.map(|protocol| ProtocolSwitch { protocol, client });
        if let Some(switch) = &switch {
            tunnel::announce(&mut head.headers, switch.protocol.clone());
        }
        self.send((head, chosen), upload, lifecycle, response_headers, switch)
            .await
            .map_err(|error| local_response::failed(version, &error))
    }

    /// Decides the request. Returns once it may go on, with its rate-limit headers and the chosen
    /// upstream. Dropping the future cancels the request.
    async fn decide(
        &self,
        head: &Parts,
        resolved: &ResolvedClient,
        inspected: &InspectedBody,
    ) -> Result<(ResponseHeaders, RequestLifecycle, Option<usize>), StopReason> {
        let gateway = &self.gateway;
        let decisions = &gateway.context.decisions;
        let style = gateway.context.config.headers;
        let domain = gateway.options.domain.as_deref();
        let request_head = inspected.body_fields.add_to(resolved.request_head(head, domain));
        let (request_head, mut decision, chosen) =
            if decisions.limiter().rules().count_by(domain, UPSTREAM) {
                let (request_head, decision, chosen) = self.choose_upstream(request_head).await;
                (request_head, decision, Some(chosen))
            } else {
                let decision = decisions.admit(DoorName::Gateway, &request_head.request(), 1).await;
                (request_head, decision, None)
            };
        if decision.reason == Reason::Unmatched && decision.domain().is_none() {
            gateway.warn_without_domain();
        }
        let unix_s = clock::unix_s();
        if !decision.allowed {
            if let Some(ticket) = self.ticket(head, &inspected.upload, &decision) {
                return Err(StopReason::Deferred(ticket));
            }
            let answer = DecisionSummary::new(&decision);
            let refusal = refusal_to(&head.headers, style, &answer, unix_s);
            return Err(StopReason::Refused(Box::new(refusal.map(local_response::whole))));
        }
        let response_headers = ResponseHeaders::allowed(style, &decision, unix_s);
        Ok((response_headers, observe(decision.take_admission(), &request_head), chosen))
    }

    /// Has interim responses of the upstream reach the client, and its body wait for `100 Continue`
    /// if the client `expects` that.
    fn relay_interim(&self, head: &mut Parts, upload: &mut Upload, expects: bool) {
        let client = (head.version == Version::HTTP_11).then(|| self.activity.clone());
        let mut interim = InterimRelay { client, continue_signal: None };
        if expects && head.version >= Version::HTTP_11 {
            let signal = Arc::<ContinueSignal>::default();
            let timeout = self.gateway.options.continue_timeout;
            upload.wait_behind(ContinueGate::new(signal.clone(), timeout));
            interim.continue_signal = Some(signal);
            head.headers.insert(EXPECT, HeaderValue::from_static("100-continue"));
        }
        upload.report_to(interim);
    }

    async fn send(
        &self,
        (head, chosen): (Parts, Option<usize>),
        upload: Upload,
        mut lifecycle: RequestLifecycle,
        response_headers: ResponseHeaders,
        switch: Option<ProtocolSwitch>,
    ) -> Result<Response<GatewayBody>, UpstreamError> {
        let decisions = &self.gateway.context.decisions;
        let progress = upload.progress();
        let takes_trailers = takes_trailers(&head);
        let expects = head.version == Version::HTTP_11 && head.headers.contains_key(EXPECT);
        let before = decisions.clock().now();
        let sent = self.gateway.upstreams.send(chosen, Request::from_parts(head, upload)).await;
        decisions.telemetry().record_upstream_duration(decisions.clock().now().since(before));
        let UpstreamResponse { response, connection, load, is_chosen } = match sent {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(%error, "an upstream gave no answer");
                if matches!(error, UpstreamError::Local(_)) {
                    // A client that is only connected gives its descriptor to requests.
                    self.gateway.context.connections.evict_one();
                }
                if error.is_unsent() {
                    lifecycle.not_sent();
                }
                lifecycle.end(error.end());
                return Err(error);
            }
        };
        if !is_chosen {
            lifecycle.rerouted();
        }
        lifecycle.responded(response.status(), response.headers());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(self.switch(
                response,
                switch,
                TunnelParts { connection, load, lifecycle, response_headers },
            ));
        }
        let pause = self.gateway.options.pause_timeout;
        let is_unasked =
            progress.as_ref().is_some_and(|progress| progress.stage() != UploadStage::Done);
        let (mut head, body) = response.into_parts();
        let received = std::mem::replace(&mut head.version, Version::HTTP_11);
        let mut body = UpstreamBody::new(body, connection, progress, load, pause);
        hop_headers::prepare_response(&mut head.headers);
        if takes_trailers
            && received == Version::HTTP_2
            && !body.is_end_stream()
            && self.gateway.trailers.announce(&mut head.headers)
        {
            body.send_in_chunks();
        }
        if let Some(via) = &self.gateway.via {
            via.add(&mut head.headers, received);
        }
        if expects && is_unasked {
            // The body will not come, or too late: hyper closes the connection.
            head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let body = Either::Right(ObservedBody::new(body, lifecycle));
        let mut response = Response::from_parts(head, body);
        // The upstream may have limits of its own.
        response_headers.add(response.headers_mut());
        Ok(response)
    }

    /// Switches both connections to another protocol, if it is the requested one.
    fn switch(
        &self,
        mut response: Response<Incoming>,
        switch: Option<ProtocolSwitch>,
        parts: TunnelParts,
    ) -> Response<GatewayBody> {
        let agreed = switch.filter(|switch| tunnel::agrees(response.headers(), &switch.protocol));
        let TunnelParts { connection, load, lifecycle, response_headers } = parts;
        let Some(ProtocolSwitch { protocol, client }) = agreed else {
            lifecycle.end(RequestEnd::Failed);
            return local_response::wrong_switch();
        };
        let upstream = hyper::upgrade::on(&mut response);
        let mut response = response.map(|_| local_response::whole(Bytes::new()));
        hop_headers::strip(response.headers_mut());
        tunnel::announce(response.headers_mut(), protocol);
        response_headers.add(response.headers_mut());
        self.activity.upgrade();
        *self.tunnel.lock() = Some(Tunnel { client, upstream, connection, lifecycle, load });
        response
    }
}

/// What a request hands over to its tunnel.
struct TunnelParts {
    connection: Option<super::upstreams::UpstreamConnection>,
    load: super::upstreams::UpstreamLoad,
    lifecycle: RequestLifecycle,
    response_headers: ResponseHeaders,
}
