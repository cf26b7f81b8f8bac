//! A client that waits before it sends.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::HOST;
use http::{Request, Response};
use tokio::time::Instant;
use tollgate::{Clock, HumanDuration, KeyedLimiter};
use tower_service::Service;

use super::paused_hosts::PausedHosts;
use super::retry_hints;
use crate::request_head::text;

/// A client that stays under the limits of the services it calls, as
/// [`PoliteLayer`](super::PoliteLayer) makes it. Clones share what is remembered.
#[derive(Clone, Debug)]
pub struct Polite<I> {
    inner: I,
    policy: Arc<PolitePolicy>,
}

#[derive(Debug)]
pub(super) struct PolitePolicy {
    pub(super) hosts: PausedHosts,
    pub(super) limiter: Option<KeyedLimiter>,
    pub(super) patience: Duration,
    pub(super) clock: Clock,
}

/// The reason why there is no response.
#[non_exhaustive]
pub enum PoliteError<E> {
    /// The request was not sent: it would have had to wait for too long.
    TooLong(TooLong),
    /// The request was sent, and the inner client failed.
    Inner(E),
}

/// A request that was not sent because it would have had to wait for too long.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLong {
    /// The host it was for.
    pub host: String,
    /// How long it would have had to wait.
    pub wait: Duration,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLong { host, wait } = self;
        let wait = HumanDuration(*wait);
        write!(f, "not sent: {host} is to be left alone for {wait}, longer than we may wait")
    }
}

/// Formats the message as `Display` does, because `main` prints a returned error with `Debug`.
impl fmt::Debug for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for TooLong {}

impl<E: fmt::Display> fmt::Display for PoliteError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoliteError::TooLong(too_long) => too_long.fmt(f),
            PoliteError::Inner(error) => error.fmt(f),
        }
    }
}

/// Formats the message of the error inside, because `main` prints a returned error with `Debug`.
impl<E: fmt::Debug> fmt::Debug for PoliteError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoliteError::TooLong(too_long) => fmt::Debug::fmt(too_long, f),
            PoliteError::Inner(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for PoliteError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PoliteError::TooLong(_) => None,
            PoliteError::Inner(error) => error.source(),
        }
    }
}

impl<I> Polite<I> {
    pub(super) fn new(inner: I, policy: Arc<PolitePolicy>) -> Polite<I> {
        Polite { inner, policy }
    }
}

impl<I, B, R> Service<Request<B>> for Polite<I>
where
    I: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    I::Future: Send,
    B: Send + 'static,
{
    type Response = Response<R>;
    type Error = PoliteError<I::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(PoliteError::Inner)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let policy = self.policy.clone();
        // The service that is ready must be the one that is called.
        let unready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, unready);
        Box::pin(async move {
            let host = host_of(&request);
            policy.wait(&host).await.map_err(PoliteError::TooLong)?;
            let response = inner.call(request).await.map_err(PoliteError::Inner)?;
            let date = policy.clock.date(policy.clock.now());
            let wall = Duration::from_nanos(date.as_nanos());
            if let Some(pause) = retry_hints::pause(response.status(), response.headers(), wall) {
                policy.hosts.pause(&host, pause);
            }
            Ok(response)
        })
    }
}

impl PolitePolicy {
    /// Waits until a request to a host may be sent, or returns how long it would have to wait.
    async fn wait(&self, host: &str) -> Result<(), TooLong> {
        let deadline = Instant::now() + self.patience.min(FAR);
        let too_long = |wait| TooLong { host: host.to_owned(), wait };
        self.wait_for_silence(host, deadline).await?;
        let Some(limiter) = &self.limiter else { return Ok(()) };
        let patience = deadline.saturating_duration_since(Instant::now());
        if let Err(denied) = limiter.wait_timeout(host, patience).await {
            return Err(too_long(denied.retry_after.unwrap_or(Duration::MAX)));
        }
        // The host may have asked for a pause during the wait.
        self.wait_for_silence(host, deadline).await
    }

    async fn wait_for_silence(&self, host: &str, deadline: Instant) -> Result<(), TooLong> {
        loop {
            let pause = self.hosts.pause_of(host);
            if pause.is_zero() {
                return Ok(());
            }
            if Instant::now() + pause > deadline {
                return Err(TooLong { host: host.to_owned(), wait: pause });
            }
            tokio::time::sleep(pause).await;
        }
    }
}

/// The maximum deadline, so that the addition cannot overflow.
const FAR: Duration = Duration::from_secs(86_400 * 365);

/// Returns the host of a request, with its port.
fn host_of<B>(request: &Request<B>) -> String {
    let named = request.uri().authority().map(|authority| {
        let authority = authority.as_str();
        // Credentials are not part of the host.
        authority.rsplit('@').next().unwrap_or(authority).to_ascii_lowercase()
    });
    let header = || request.headers().get(HOST).map(|host| text(host).to_ascii_lowercase());
    named.or_else(header).unwrap_or_default()
}
