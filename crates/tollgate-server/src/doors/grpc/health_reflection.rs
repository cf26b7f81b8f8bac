//! Health checks and reflection, served by tonic because they are rare.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::time::timeout;
use tonic::Code;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower::ServiceExt;

use super::{GrpcServices, call};
use crate::access::Permission;
use crate::net::Drain;

/// The descriptors of the rate limit service, for reflection.
const DESCRIPTORS: &[u8] = include_bytes!("proto/descriptors.bin");
/// The service names of health checks: the server, the name in Envoy's own service, and ours.
const HEALTH_SERVICES: [&str; 3] = ["", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"];

/// The maximum size of a message, in bytes: names of services and symbols are short.
///
/// tonic collects the messages of all streams at the same time, without the memory budget.
const MAX_MESSAGE_BYTES: usize = 16 << 10;

/// The routes of health checks and reflection.
#[derive(Clone, Debug)]
pub(super) struct HealthReflection(Routes);

impl HealthReflection {
    /// Creates the services; health turns to not serving when the server drains.
    pub(super) fn new(drain: &Drain) -> HealthReflection {
        let (reporter, health) = tonic_health::server::health_reporter();
        // No other task has the reporter yet, so the first poll completes.
        let mut serving = pin!(report(reporter.clone(), ServingStatus::Serving));
        let _ = serving.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let drain = drain.clone();
        tokio::spawn(async move {
            drain.leaving().await;
            report(reporter, ServingStatus::NotServing).await;
        });
        let describe = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let v1 = describe().build_v1().expect("the descriptors are tested");
        let v1alpha = describe().build_v1alpha().expect("the descriptors are tested");
        let routes = Routes::new(health.max_decoding_message_size(MAX_MESSAGE_BYTES))
            .add_service(v1.max_decoding_message_size(MAX_MESSAGE_BYTES))
            .add_service(v1alpha.max_decoding_message_size(MAX_MESSAGE_BYTES));
        HealthReflection(routes.prepare())
    }
}

async fn report(reporter: HealthReporter, status: ServingStatus) {
    for service in HEALTH_SERVICES {
        reporter.set_service_status(service, status).await;
    }
}

impl GrpcServices {
    /// Lets tonic answer a call of any other method than `ShouldRateLimit`.
    pub(super) async fn forward_to_tonic(
        self: Arc<GrpcServices>,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) {
        // Load balancers check health without a token.
        if !request.uri().path().starts_with("/grpc.health.v1.")
            && let Err(status) = self.authorize(self.token(request.headers()), Permission::Peek)
        {
            call::send_status(&mut respond, &status);
            return;
        }
        // The message of a call with one message comes before the head of its response.
        let call = self.health_reflection.0.clone().oneshot(request.map(RequestBody));
        let time_limit = self.context.config.bounds.header_timeout;
        let Ok(Ok(response)) = timeout(time_limit, call).await else { return };
        let (head, body) = response.into_parts();
        let is_end = body.is_end_stream();
        let response = http::Response::from_parts(head, ());
        let Ok(mut stream) = respond.send_response(response, is_end) else { return };
        if is_end {
            return;
        }
        tokio::select! {
            _ = send(body, &mut stream) => {}
            // A health watch would keep the connection open, so it ends with `UNAVAILABLE`.
            () = self.context.drain.closing() => {
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from(Code::Unavailable as i32));
                let _ = stream.send_trailers(trailers);
            }
        }
    }
}

/// Sends a body no faster than the client reads it.
async fn send(
    mut body: tonic::body::Body,
    stream: &mut SendStream<Bytes>,
) -> Result<(), h2::Error> {
    loop {
        wait_for_capacity(stream).await?;
        let frame = tokio::select! {
            frame = body.frame() => frame,
            _ = poll_fn(|context| stream.poll_reset(context)) => return Ok(()),
        };
        let Some(Ok(frame)) = frame else { return stream.send_data(Bytes::new(), true) };
        match frame.into_data() {
            Ok(data) => stream.send_data(data, false)?,
            Err(frame) => match frame.into_trailers() {
                Ok(trailers) => return stream.send_trailers(trailers),
                Err(_) => continue,
            },
        }
    }
}

/// Waits until the client accepts more data.
async fn wait_for_capacity(stream: &mut SendStream<Bytes>) -> Result<(), h2::Error> {
    stream.reserve_capacity(1);
    while stream.capacity() == 0 {
        match poll_fn(|context| stream.poll_capacity(context)).await {
            Some(more) => more?,
            None => return Err(h2::Reason::CANCEL.into()),
        };
    }
    Ok(())
}

/// The body of a request in the form that tonic reads.
struct RequestBody(RecvStream);

impl Body for RequestBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        match ready!(self.0.poll_data(context)) {
            Some(Ok(data)) => {
                let _ = self.0.flow_control().release_capacity(data.len());
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => self.0.poll_trailers(context).map(|trailers| match trailers {
                Ok(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
                Err(error) => Some(Err(error)),
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}
