//! The upstreams of a gateway, with their connections and health.

mod body;
mod connect;
mod connection;
mod health;
mod lazy_timer;
mod local_resource;
mod maintenance;
mod response_deadline;
mod retry;
mod shared_connection;
mod upstream;

use std::io;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::{Request, Response};
use smallvec::SmallVec;
use tollgate_tower::lifecycle::RequestEnd;

use super::options::GatewayOptions;
use super::upload::Upload;
use crate::net::Drain;
use crate::telemetry::Telemetry;
pub(super) use body::UpstreamBody;
use connect::Connector;
pub(super) use connection::UpstreamConnection;
pub(super) use local_resource::LocalResource;
use response_deadline::ResponseDeadline;
use retry::{RetryRequest, is_reset};
use upstream::Upstream;
pub(super) use upstream::UpstreamLoad;

/// The maximum number of connections that may close before a request is sent on them.
const MOST_CLOSED: u32 = 3;

/// The reason why an upstream did not respond.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    #[error("the upstream cannot be reached: {0}")]
    Connect(io::Error),
    /// This machine lacks something that a connection needs, whatever the upstream does.
    #[error("{0}")]
    Local(LocalResource),
    #[error("the upstream did not answer: {0}")]
    Broken(hyper::Error),
    #[error("the upstream did not answer in time")]
    Late,
    #[error("the client paused for too long in the middle of its request")]
    SlowClient,
    #[error("the client's request broke off, or is not well formed")]
    BadClient,
}

impl UpstreamError {
    /// Returns whether nothing of the request was sent.
    pub(super) fn is_unsent(&self) -> bool {
        matches!(self, UpstreamError::Connect(_) | UpstreamError::Local(_))
    }

    /// Returns how a request with this error ended: by the client or by the upstream.
    pub(super) fn end(&self) -> RequestEnd {
        match self {
            UpstreamError::Connect(_) | UpstreamError::Broken(_) | UpstreamError::Late => {
                RequestEnd::Failed
            }
            // Like a client that leaves, a shortage here says nothing about the upstream.
            UpstreamError::Local(_) | UpstreamError::SlowClient | UpstreamError::BadClient => {
                RequestEnd::ClientLeft
            }
        }
    }
}

/// The reason why a connection gave no response.
enum SendError {
    /// Nothing of the request was sent.
    Unsent(Box<Request<Upload>>),
    Failed(UpstreamError),
}

impl SendError {
    /// Creates the error of a request that was not sent or not answered.
    fn of(mut error: TrySendError<Request<Upload>>, deadline: &ResponseDeadline<'_>) -> SendError {
        match error.take_message() {
            Some(request) => SendError::Unsent(Box::new(request)),
            None => SendError::Failed(deadline.blame(error.into_error())),
        }
    }
}

/// A response of an upstream whose body has not arrived yet.
pub(super) struct UpstreamResponse {
    pub(super) response: Response<Incoming>,
    /// The connection of the response, unless it is shared.
    pub(super) connection: Option<UpstreamConnection>,
    pub(super) load: UpstreamLoad,
    /// Whether the chosen upstream responded, if one was chosen.
    pub(super) is_chosen: bool,
}

/// Checks the upstream options without connecting.
pub(super) fn check(options: &GatewayOptions) -> Result<(), String> {
    Connector::new(options).map(drop)
}

/// All upstreams of a gateway.
#[derive(Debug)]
pub(super) struct Upstreams {
    all: Vec<Arc<Upstream>>,
    options: Arc<GatewayOptions>,
}

impl Upstreams {
    pub(super) fn new(
        options: &Arc<GatewayOptions>,
        telemetry: &Telemetry,
    ) -> Result<Upstreams, String> {
        let connector = Connector::new(options)?;
        let one = |url| Arc::new(Upstream::new(url, connector.clone(), options.clone(), telemetry));
        let all = options.upstreams.iter().map(one).collect();
        Ok(Upstreams { all, options: options.clone() })
    }

    /// Starts the maintenance of all upstreams, which ends when the server drains.
    pub(super) fn start_maintenance(&self, drain: &Drain) {
        for upstream in &self.all {
            maintenance::start(upstream, &self.options, drain);
        }
    }

    /// Forwards a request to the chosen upstream if it is reachable, and returns the response head.
    /// Another upstream is tried as long as nothing of the request was sent, and once more if the
    /// connection of a [repeatable](retry) request is reset.
    pub(super) async fn send(
        &self,
        chosen: Option<usize>,
        mut request: Request<Upload>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let progress = request.body().progress();
        let mut tried: SmallVec<[usize; 4]> = SmallVec::new();
        let mut closed = 0;
        let mut retry = RetryRequest::of(&request);
        loop {
            let aimed = chosen.filter(|number| !tried.contains(number));
            let number = aimed.unwrap_or_else(|| self.choose(&tried));
            let upstream = &self.all[number];
            let load = UpstreamLoad::new(upstream);
            let start = upstream.health.start_attempt();
            let channel = match upstream.channel().await {
                Ok(channel) => channel,
                Err(error) => {
                    let missing = LocalResource::missing(&error);
                    if missing.is_none() {
                        upstream.health.unreachable(start, &error);
                    }
                    tried.push(number);
                    if tried.len() >= self.all.len() {
                        return Err(
                            missing.map_or(UpstreamError::Connect(error), UpstreamError::Local)
                        );
                    }
                    continue;
                }
            };
            let deadline = ResponseDeadline::new(&self.options, progress.clone());
            let is_reused = channel.is_reused();
            match upstream.send(channel, request, deadline).await {
                Ok((response, connection)) => {
                    upstream.health.answered();
                    let is_chosen = chosen.is_none_or(|chosen| chosen == number);
                    return Ok(UpstreamResponse { response, connection, load, is_chosen });
                }
                Err(SendError::Unsent(unsent)) if closed < MOST_CLOSED => {
                    closed += 1;
                    request = *unsent;
                }
                Err(SendError::Unsent(_)) => {
                    let error = io::Error::from(io::ErrorKind::ConnectionReset);
                    upstream.health.unreachable(start, &error);
                    return Err(UpstreamError::Connect(error));
                }
                Err(SendError::Failed(error)) => {
                    if matches!(error, UpstreamError::Late) {
                        upstream.health.late(start);
                    }
                    // A connection that was idle may have been closed for that, which says
                    // nothing about the upstream.
                    let has_other = tried.len() + 1 < self.all.len();
                    match retry.take_if(|_| (has_other || is_reused) && is_reset(&error)) {
                        Some(again) => request = again.into_request(),
                        None => return Err(error),
                    }
                    tracing::debug!(%error, upstream = %upstream.name, "a request is sent again");
                    if has_other {
                        tried.push(number);
                    }
                }
            }
        }
    }

    /// Returns the less busy of two healthy, untried upstreams; else a healthy one; else any.
    pub(super) fn choose(&self, tried: &[usize]) -> usize {
        let count = self.all.len();
        if count == 1 {
            return 0;
        }
        let first = fastrand::usize(..count);
        let takes =
            |number: &usize| !tried.contains(number) && self.all[*number].health.takes_requests();
        let mut back = None;
        // A recovered upstream is sometimes passed over if there is another.
        let shares = |number: &usize| {
            let shares = self.all[*number].health.takes_its_share();
            back = if shares { back } else { Some(*number) };
            shares
        };
        let mut well = (0..count).map(|step| (first + step) % count).filter(takes).filter(shares);
        let busy = |number: usize| self.all[number].busy();
        let (one, other) = (well.next(), well.next());
        match (one, other, back) {
            (Some(one), Some(other), _) if busy(other) < busy(one) => other,
            (Some(one), ..) | (None, _, Some(one)) => one,
            (None, _, None) => {
                let mut rest = (0..count).map(|step| (first + step) % count);
                rest.find(|number| !tried.contains(number)).unwrap_or(first)
            }
        }
    }

    /// Returns the name of an upstream in rules and metrics.
    pub(super) fn name(&self, number: usize) -> &str {
        &self.all[number].name
    }

    /// Returns whether there is an untried healthy upstream.
    pub(super) fn has_another(&self, tried: &[usize]) -> bool {
        let mut all = self.all.iter().enumerate();
        all.any(|(number, upstream)| !tried.contains(&number) && upstream.health.is_well())
    }

    /// Returns whether an upstream has recovered since the last call.
    pub(super) fn is_back(&self, number: usize) -> bool {
        self.all[number].health.notice_return()
    }
}
