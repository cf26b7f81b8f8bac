//! Where requests go: upstreams that share them, each with its connections and its health.

mod alarm;
mod body;
mod connect;
mod health;
mod lane;
mod patience;
mod tend;
mod upstream;

use std::io;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::{Request, Response};
use smallvec::SmallVec;
use tollgate_tower::passage::End;

use super::options::GatewayOptions;
use super::upload::Upload;
use crate::net::Drain;
use crate::telemetry::Telemetry;
pub(super) use body::UpstreamBody;
use connect::Connector;
pub(super) use lane::Lane;
use patience::Patience;
pub(super) use upstream::Load;
use upstream::Upstream;

/// Connections that may be closed under a request before any of it was sent.
const MOST_CLOSED: u32 = 3;

/// Why an upstream gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    #[error("the upstream cannot be reached: {0}")]
    Connect(io::Error),
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
    /// How a request ends that ends so: whether it is the client's doing.
    pub(super) fn end(&self) -> End {
        match self {
            UpstreamError::Connect(_) | UpstreamError::Broken(_) | UpstreamError::Late => {
                End::Broken
            }
            UpstreamError::SlowClient | UpstreamError::BadClient => End::Gone,
        }
    }
}

/// Why a request was not answered on one connection.
enum SendError {
    /// Nothing of it was sent.
    Unsent(Box<Request<Upload>>),
    Failed(UpstreamError),
}

impl SendError {
    /// What became of a request that could not be sent, or was not answered.
    fn of(mut error: TrySendError<Request<Upload>>, patience: &Patience<'_>) -> SendError {
        match error.take_message() {
            Some(request) => SendError::Unsent(Box::new(request)),
            None => SendError::Failed(patience.blame(error.into_error())),
        }
    }
}

/// An answer whose body has not come yet.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    /// What it came on, if nobody else uses that.
    pub(super) lane: Option<Lane>,
    pub(super) load: Load,
    /// Whether it is from the one that was aimed at, if one was.
    pub(super) hit: bool,
}

/// Whether upstreams can be reached so, as far as can be told without reaching them.
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

    /// Looks after them until the server drains.
    pub(super) fn tend(&self, drain: &Drain) {
        for upstream in &self.all {
            tend::start(upstream, &self.options, drain);
        }
    }

    /// Sends a request on, to the one aimed at if it can be reached; the head of the answer.
    /// Another upstream is tried only as long as nothing of the request was sent.
    pub(super) async fn send(
        &self,
        aim: Option<usize>,
        mut request: Request<Upload>,
    ) -> Result<Answer, UpstreamError> {
        let progress = request.body().progress();
        let mut tried: SmallVec<[usize; 4]> = SmallVec::new();
        let mut closed = 0;
        loop {
            let aimed = aim.filter(|number| !tried.contains(number));
            let number = aimed.unwrap_or_else(|| self.choose(&tried));
            let upstream = &self.all[number];
            let load = Load::new(upstream);
            let way = match upstream.way().await {
                Ok(way) => way,
                Err(error) => {
                    upstream.health.unreachable(&error);
                    tried.push(number);
                    if tried.len() >= self.all.len() {
                        return Err(UpstreamError::Connect(error));
                    }
                    continue;
                }
            };
            let patience = Patience::new(&self.options, progress.clone());
            match upstream.send(way, request, patience).await {
                Ok((response, lane)) => {
                    upstream.health.answered();
                    let hit = aim.is_none_or(|aim| aim == number);
                    return Ok(Answer { response, lane, load, hit });
                }
                Err(SendError::Unsent(unsent)) if closed < MOST_CLOSED => {
                    closed += 1;
                    request = *unsent;
                }
                Err(SendError::Unsent(_)) => {
                    let error = io::Error::from(io::ErrorKind::ConnectionReset);
                    upstream.health.unreachable(&error);
                    return Err(UpstreamError::Connect(error));
                }
                Err(SendError::Failed(error)) => {
                    if matches!(error, UpstreamError::Late) {
                        upstream.health.late();
                    }
                    return Err(error);
                }
            }
        }
    }

    /// The less busy of two that are well and were not tried; any that is well; any at all.
    pub(super) fn choose(&self, tried: &[usize]) -> usize {
        let count = self.all.len();
        if count == 1 {
            return 0;
        }
        let first = fastrand::usize(..count);
        let takes =
            |number: &usize| !tried.contains(number) && self.all[*number].health.takes_requests();
        let mut back = None;
        // Who is just back stands aside now and then, if there is somebody else.
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

    /// What an upstream is called in rules and metrics.
    pub(super) fn name(&self, number: usize) -> &str {
        &self.all[number].name
    }

    /// Whether another is well than those that were tried.
    pub(super) fn has_another(&self, tried: &[usize]) -> bool {
        let mut all = self.all.iter().enumerate();
        all.any(|(number, upstream)| !tried.contains(&number) && upstream.health.is_well())
    }

    /// Whether an upstream is back since this was last asked.
    pub(super) fn is_back(&self, number: usize) -> bool {
        self.all[number].health.notice_return()
    }
}
