//! One request: looked at, decided, sent on, answered.

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode, Uri, Version};
use tollgate_tower::arrival::Arrival;
use tollgate_tower::passage::{Followed, follow};

use super::upstream::LaneBody;
use super::{Visitor, hops};
use crate::clock;
use crate::headers::{self, Answer};
use crate::rules_service::problem::Problem;
use crate::telemetry::DoorName;

/// The body of an answer: of an upstream, or made here.
pub(super) type Body = Either<Full<Bytes>, Followed<LaneBody>>;

impl Visitor {
    /// Answers a request.
    pub(super) async fn pass(&self, request: Request<Incoming>) -> Response<Body> {
        let gateway = &self.gateway;
        let (mut head, body) = request.into_parts();
        let engine = &gateway.context.engine;
        let style = gateway.context.config.headers;
        let arrival = Arrival::new(&head)
            .peer(self.peer.map(|peer| peer.ip()))
            .domain(gateway.options.domain.as_deref());
        let decision = engine.check(DoorName::Gateway, &arrival.request(), 1).await;
        let answer = Answer::of(&decision);
        let unix_s = clock::unix_s();
        if !answer.allowed {
            return headers::refusal_to(&head.headers, style, &answer, unix_s)
                .map(|body| Either::Left(Full::new(body)));
        }
        if !decision.wait.is_zero() {
            tokio::time::sleep(decision.wait).await;
        }
        let mut told = hyper::HeaderMap::new();
        headers::write(style, &answer, unix_s, &mut told);
        drop(answer);
        let mut passage = follow(engine.limiter(), decision, &arrival);
        drop(arrival);

        hops::strip(&mut head.headers);
        head.version = Version::HTTP_11;
        if let Some(target) = head.uri.path_and_query() {
            head.uri = Uri::from(target.clone());
        }
        let sent = gateway.upstreams.send(Request::from_parts(head, body)).await;
        match sent {
            Ok(mut response) => {
                passage.answered(response.status(), response.headers());
                hops::strip(response.headers_mut());
                response.headers_mut().extend(told);
                response.map(|body| Either::Right(Followed::new(body, passage)))
            }
            Err(error) => {
                let status = StatusCode::BAD_GATEWAY;
                let problem = Problem::new(status, "bad-gateway", error.to_string());
                let mut response =
                    Response::new(Either::Left(Full::new(Bytes::from(problem.body().to_string()))));
                *response.status_mut() = status;
                response
            }
        }
    }
}
