//! A service behind limits.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::body::LimitedBody;
use crate::future::{Cleared, ResponseFuture};
use crate::gate::{Gate, Later, Step};

/// A service behind limits, as [`RateLimitLayer`](crate::RateLimitLayer) makes it.
///
/// Clones share everything that is counted. Of the inner service each has its own.
///
/// ```
/// use std::convert::Infallible;
/// use http::{Request, Response};
/// use tollgate_tower::RateLimitLayer;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let hello = service_fn(async |_: Request<String>| {
///     Ok::<_, Infallible>(Response::new("hello".to_owned()))
/// });
/// let limited = RateLimitLayer::per_ip("1/min".parse()?).layer(hello);
/// let ask = || limited.clone().oneshot(Request::new(String::new()));
/// assert_eq!(ask().await?.status(), 200);
/// assert_eq!(ask().await?.status(), 429);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateLimit<I> {
    inner: I,
    gate: Arc<Gate>,
}

impl<I> RateLimit<I> {
    pub(crate) fn new(inner: I, gate: Arc<Gate>) -> RateLimit<I> {
        RateLimit { inner, gate }
    }

    /// What is behind the limits.
    pub fn inner(&self) -> &I {
        &self.inner
    }
}

impl<I, B, R> Service<Request<B>> for RateLimit<I>
where
    I: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    B: Send + 'static,
    R: Body<Data = Bytes>,
{
    type Response = Response<LimitedBody<R>>;
    type Error = I::Error;
    type Future = ResponseFuture<I::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<I::Future> {
        let (head, body) = request.into_parts();
        match self.gate.step_now(&head) {
            Ok(Step::Pass(admitted)) => {
                let future = self.inner.call(Request::from_parts(head, body));
                ResponseFuture::passed(future, admitted)
            }
            Ok(Step::Refuse(response)) => ResponseFuture::refused(response),
            Err(later) => {
                // The service that is ready waits along, and an unready one takes its place.
                let unready = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, unready);
                let held = held(self.gate.clone(), inner, head, body, later);
                ResponseFuture::held(Box::pin(held))
            }
        }
    }
}

/// A request that cannot be answered at once. Who drops this gives up: its place in line is free
/// again, and what it was charged goes back.
async fn held<I, B>(
    gate: Arc<Gate>,
    mut inner: I,
    head: Parts,
    body: B,
    later: Later,
) -> Cleared<I::Future>
where
    I: Service<Request<B>>,
{
    match gate.step_later(&head, later).await {
        Step::Pass(admitted) => {
            Cleared::Passed(inner.call(Request::from_parts(head, body)), admitted)
        }
        Step::Refuse(response) => Cleared::Refused(response),
    }
}
