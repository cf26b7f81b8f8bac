//! Where requests go.

mod lane;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::options::{GatewayOptions, UpstreamUrl};
use lane::Lane;
pub(super) use lane::LaneBody;

/// Why an upstream gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    #[error("the upstream cannot be reached: {0}")]
    Connect(io::Error),
    #[error("the upstream did not answer: {0}")]
    Broken(hyper::Error),
    #[error("the upstream did not answer in time")]
    Late,
}

/// All upstreams of a gateway.
#[derive(Debug)]
pub(super) struct Upstreams {
    all: Vec<Arc<Upstream>>,
    connect_timeout: Duration,
    answer_timeout: Duration,
}

/// One upstream and the lanes to it that nobody uses.
#[derive(Debug)]
pub(super) struct Upstream {
    url: UpstreamUrl,
    idle: Mutex<Vec<Lane>>,
}

/// Idle lanes kept for each upstream.
const MOST_IDLE: usize = 1024;

impl Upstreams {
    pub(super) fn new(options: &GatewayOptions) -> Upstreams {
        let all = options.upstreams.iter();
        let all = all.map(|url| Arc::new(Upstream { url: url.clone(), idle: Mutex::default() }));
        Upstreams {
            all: all.collect(),
            connect_timeout: options.connect_timeout,
            answer_timeout: options.answer_timeout,
        }
    }

    /// Sends a request on.
    pub(super) async fn send(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<LaneBody>, UpstreamError> {
        let upstream = &self.all[fastrand::usize(..self.all.len())];
        loop {
            let lane = match upstream.take().await {
                Some(lane) => lane,
                None => upstream.open(self.connect_timeout).await?,
            };
            let sent = timeout(self.answer_timeout, lane.send(request, upstream));
            match sent.await {
                Ok(Ok(response)) => return Ok(response),
                // The lane was closed before anything was sent.
                Ok(Err((_, Some(unsent)))) => request = unsent,
                Ok(Err((error, None))) => return Err(UpstreamError::Broken(error)),
                Err(_) => return Err(UpstreamError::Late),
            }
        }
    }
}

impl Upstream {
    /// A lane that nobody uses and that is still good.
    async fn take(&self) -> Option<Lane> {
        loop {
            let mut lane = self.idle.lock().pop()?;
            if lane.is_good().await {
                return Some(lane);
            }
        }
    }

    async fn open(&self, patience: Duration) -> Result<Lane, UpstreamError> {
        let address = (self.url.host.as_str(), self.url.port);
        let stream = timeout(patience, TcpStream::connect(address)).await;
        let stream = stream.map_err(io::Error::from).flatten().map_err(UpstreamError::Connect)?;
        let _ = stream.set_nodelay(true);
        Lane::open(stream).await.map_err(UpstreamError::Broken)
    }

    fn give_back(&self, lane: Lane) {
        let mut idle = self.idle.lock();
        if idle.len() < MOST_IDLE {
            idle.push(lane);
        }
    }
}
