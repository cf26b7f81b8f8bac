//! One upstream: the connections to it, and how busy it is.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::header::{CONNECTION, HOST, HeaderValue, TE};
use hyper::{Request, Response, Uri, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;

use super::super::options::GatewayOptions;
use super::super::upload::Upload;
use super::super::url::UpstreamUrl;
use super::SendError;
use super::alarm::Alarm;
use super::connect::{Connector, Spoken};
use super::health::Health;
use super::lane::Lane;
use super::patience::Patience;
use crate::clock;
use crate::net::http::LONGEST_HEAD;
use crate::telemetry::Telemetry;

/// A connection of HTTP/2, which many requests share.
type Shared = http2::SendRequest<Upload>;

/// What a request can be sent on.
pub(super) enum Way {
    Lane(Lane),
    Shared(Shared),
}

/// One upstream.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) url: UpstreamUrl,
    pub(super) name: Box<str>,
    pub(super) health: Health,
    connector: Connector,
    options: Arc<GatewayOptions>,
    host: Option<HeaderValue>,
    /// Lanes that nobody uses, the one used last at the end.
    idle: Mutex<Vec<Lane>>,
    shared: Mutex<Option<Shared>>,
    /// Held while a shared connection is opened: one is enough.
    opening: tokio::sync::Mutex<()>,
    busy: AtomicUsize,
}

impl Upstream {
    pub(super) fn new(
        url: &UpstreamUrl,
        connector: Connector,
        options: Arc<GatewayOptions>,
        telemetry: &Telemetry,
    ) -> Upstream {
        let name = url.to_string();
        let shown = telemetry.upstream(&name);
        Upstream {
            url: url.clone(),
            name: name.as_str().into(),
            health: Health::new(name, shown),
            connector,
            options,
            host: HeaderValue::from_str(url.authority()).ok(),
            idle: Mutex::default(),
            shared: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            busy: AtomicUsize::new(0),
        }
    }

    /// How many requests it is busy with.
    pub(super) fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    /// Something to send a request on.
    pub(super) async fn way(&self) -> io::Result<Way> {
        if let Some(way) = self.known_way() {
            return Ok(way);
        }
        let is_shared = self.url.speaks == super::super::url::Speaks::Http2;
        let _one = if is_shared { Some(self.opening.lock().await) } else { None };
        if is_shared && let Some(way) = self.known_way() {
            return Ok(way);
        }
        let (stream, spoken) = self.connector.connect(&self.url).await?;
        match spoken {
            Spoken::Http1 => Lane::open(stream).await.map(Way::Lane).map_err(io::Error::other),
            Spoken::Http2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder
                    .timer(TokioTimer::new())
                    .max_header_list_size(LONGEST_HEAD as u32)
                    .keep_alive_interval(self.options.idle_timeout)
                    .keep_alive_timeout(self.options.connect_timeout);
                let handshake = builder.handshake(TokioIo::new(stream));
                let (sender, connection) = handshake.await.map_err(io::Error::other)?;
                tokio::spawn(connection);
                *self.shared.lock() = Some(sender.clone());
                Ok(Way::Shared(sender))
            }
        }
    }

    fn known_way(&self) -> Option<Way> {
        {
            let mut shared = self.shared.lock();
            match &*shared {
                Some(sender) if !sender.is_closed() => return Some(Way::Shared(sender.clone())),
                Some(_) => *shared = None,
                None => {}
            }
        }
        loop {
            let mut lane = self.idle.lock().pop()?;
            if lane.is_good() {
                return Some(Way::Lane(lane));
            }
        }
    }

    pub(super) fn give_back(&self, mut lane: Lane) {
        lane.used_ms = clock::monotonic_ms();
        let mut idle = self.idle.lock();
        if idle.len() < self.options.idle_lanes {
            idle.push(lane);
        }
    }

    /// Closes idle lanes that the upstream has closed, or that nobody has used for long.
    pub(super) fn sweep(&self) {
        let most_ms = self.options.idle_timeout.as_millis() as u64;
        let now_ms = clock::monotonic_ms();
        let mut idle = self.idle.lock();
        idle.retain_mut(|lane| now_ms.saturating_sub(lane.used_ms) < most_ms && lane.is_good());
    }

    /// Sends a request; the head of the answer, with what it came on if nobody else uses that.
    pub(super) async fn send(
        &self,
        way: Way,
        request: Request<Upload>,
        patience: Patience<'_>,
    ) -> Result<(Response<Incoming>, Option<Lane>), SendError> {
        match way {
            Way::Lane(mut lane) => {
                let response = lane.send(self.for_lane(request), patience).await?;
                Ok((response, Some(lane)))
            }
            Way::Shared(mut shared) => {
                let response = self.share(&mut shared, request, patience).await?;
                Ok((response, None))
            }
        }
    }

    /// A request as it is sent over HTTP/1.1.
    fn for_lane(&self, mut request: Request<Upload>) -> Request<Upload> {
        *request.version_mut() = Version::HTTP_11;
        if let Some(authority) = request.uri().authority() {
            // It was meant for HTTP/2 before.
            if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
                request.headers_mut().insert(HOST, host);
            }
            let target = request.uri().path_and_query().cloned();
            *request.uri_mut() = target.map_or_else(Uri::default, Uri::from);
        }
        if request.headers().contains_key(TE) && !request.headers().contains_key(CONNECTION) {
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("te"));
        }
        if self.options.upstream_host || !request.headers().contains_key(HOST) {
            self.host.clone().map(|host| request.headers_mut().insert(HOST, host));
        }
        request
    }

    /// Sends a request over HTTP/2; the head of the answer.
    async fn share(
        &self,
        shared: &mut Shared,
        request: Request<Upload>,
        mut patience: Patience<'_>,
    ) -> Result<Response<Incoming>, SendError> {
        let mut sent = pin!(shared.try_send_request(self.for_sharing(request)));
        let mut alarm = Alarm::default();
        let answer = poll_fn(|context| {
            if let Poll::Ready(answer) = sent.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            patience.poll(context, &mut alarm).map(Err)
        })
        .await;
        match answer {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(SendError::of(error, &patience)),
            Err(error) => Err(SendError::Failed(error)),
        }
    }

    /// A request as it is sent over HTTP/2: the host is part of the target.
    fn for_sharing(&self, mut request: Request<Upload>) -> Request<Upload> {
        let request_host = request.headers_mut().remove(HOST);
        let host =
            request_host.filter(|_| !self.options.upstream_host).or_else(|| self.host.clone());
        let scheme = if self.url.is_tls() { "https" } else { "http" };
        let host = host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or_default();
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let whole = Uri::builder().scheme(scheme).authority(host).path_and_query(target).build();
        if let Ok(whole) = whole {
            *request.uri_mut() = whole;
        }
        *request.version_mut() = Version::HTTP_2;
        request
    }
}

/// One request that an upstream is busy with, until this is dropped.
#[derive(Debug)]
pub(in crate::doors::gateway) struct Load(Arc<Upstream>);

impl Load {
    pub(super) fn new(upstream: &Arc<Upstream>) -> Load {
        upstream.busy.fetch_add(1, Ordering::Relaxed);
        Load(upstream.clone())
    }

    pub(super) fn give_back(&self, lane: Lane) {
        self.0.give_back(lane);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}
