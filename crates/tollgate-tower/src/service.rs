//! A rate-limited service.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::body::LimitedBody;
use crate::future::{DecidedCall, ResponseFuture};
use crate::request_limiter::{PendingVerdict, RequestLimiter, RequestVerdict};

/// A rate-limited service, made by [`RateLimitLayer`](crate::RateLimitLayer).
///
/// Clones share everything that is counted. Of the inner service each has its own.
///
/// ```
/// use std::convert::Infallible;
/// use http::{Request, Response};
/// use tollgate_tower::{Peer, RateLimitLayer};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let hello = service_fn(async |_: Request<String>| {
///     Ok::<_, Infallible>(Response::new("hello".to_owned()))
/// });
/// let limited = RateLimitLayer::per_ip("1/min".parse()?).layer(hello);
/// let ask = || {
///     let mut request = Request::new(String::new());
///     request.extensions_mut().insert(Peer([192, 0, 2, 1].into())); // axum tells it by itself
///     limited.clone().oneshot(request)
/// };
/// assert_eq!(ask().await?.status(), 200);
/// assert_eq!(ask().await?.status(), 429);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateLimit<I> {
    inner: I,
    limiter: Arc<RequestLimiter>,
}

impl<I> RateLimit<I> {
    pub(crate) fn new(inner: I, limiter: Arc<RequestLimiter>) -> RateLimit<I> {
        RateLimit { inner, limiter }
    }

    /// Returns the inner service.
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
        match self.limiter.decide_now(&head) {
            Ok(RequestVerdict::Pass(admitted)) => {
                let future = self.inner.call(Request::from_parts(head, body));
                ResponseFuture::passed(future, admitted)
            }
            Ok(RequestVerdict::Refuse(response)) => ResponseFuture::refused(response),
            Err(verdict) => {
                // The service that is ready moves into the future; an unready clone replaces it.
                let unready = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, unready);
                let pending = pending(self.limiter.clone(), inner, head, body, verdict);
                ResponseFuture::pending(Box::pin(pending))
            }
        }
    }
}

/// Waits for the verdict on a request. Dropping the future cancels the request: its queue position
/// is free again, and its charge is returned.
async fn pending<I, B>(
    limiter: Arc<RequestLimiter>,
    mut inner: I,
    head: Parts,
    body: B,
    verdict: PendingVerdict,
) -> DecidedCall<I::Future>
where
    I: Service<Request<B>>,
{
    match limiter.decide(&head, verdict).await {
        RequestVerdict::Pass(admitted) => {
            DecidedCall::Passed(inner.call(Request::from_parts(head, body)), admitted)
        }
        RequestVerdict::Refuse(response) => DecidedCall::Refused(response),
    }
}
