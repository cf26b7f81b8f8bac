//! One upstream: its connections and its load.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http2;
use hyper::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderValue, TE, TRANSFER_ENCODING};
use hyper::{Request, Response, Uri, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;

use super::super::options::GatewayOptions;
use super::super::upload::Upload;
use super::super::url::{UpstreamProtocol, UpstreamUrl};
use super::SendError;
use super::connect::{ConnectionProtocol, Connector};
use super::connection::UpstreamConnection;
use super::health::UpstreamHealth;
use super::lazy_timer::LazyTimer;
use super::response_deadline::ResponseDeadline;
use super::shared_connection::{Http2Sender, SharedConnection};
use crate::background::{BackgroundWorker, guarded};
use crate::clock;
use crate::net::Stream;
use crate::telemetry::Telemetry;

/// A connection that a request can be sent on.
pub(super) enum SendChannel {
    Exclusive(UpstreamConnection),
    Shared(Http2Sender),
}

impl SendChannel {
    /// Whether the connection has been used before.
    pub(super) fn is_reused(&self) -> bool {
        match self {
            SendChannel::Exclusive(connection) => connection.used_ms > 0,
            SendChannel::Shared(_) => true,
        }
    }
}

/// One upstream.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) url: UpstreamUrl,
    pub(super) name: Box<str>,
    pub(super) health: UpstreamHealth,
    connector: Connector,
    options: Arc<GatewayOptions>,
    host: Option<HeaderValue>,
    /// The idle connections, the one used last at the end.
    idle: Mutex<Vec<UpstreamConnection>>,
    shared: SharedConnection,
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
        let shown = telemetry.register_upstream(&name);
        Upstream {
            url: url.clone(),
            name: name.as_str().into(),
            health: UpstreamHealth::new(name, shown),
            connector,
            options,
            host: HeaderValue::from_str(url.authority()).ok(),
            idle: Mutex::default(),
            shared: SharedConnection::default(),
            busy: AtomicUsize::new(0),
        }
    }

    /// How many requests it is busy with.
    pub(super) fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    /// Returns something to send a request on, within one connect timeout.
    pub(super) async fn channel(self: &Arc<Upstream>) -> io::Result<SendChannel> {
        if let Some(channel) = self.reusable_channel() {
            return Ok(channel);
        }
        if self.url.protocol == UpstreamProtocol::Http2 {
            let opened = self.shared.open(|| self.clone().open_shared()).await;
            return opened.map(SendChannel::Shared);
        }
        let (stream, protocol) = self.connector.connect(&self.url).await?;
        match protocol {
            ConnectionProtocol::Http1 => {
                UpstreamConnection::open(stream, self.options.head_bounds())
                    .await
                    .map(SendChannel::Exclusive)
                    .map_err(io::Error::other)
            }
            ConnectionProtocol::Http2 => {
                let sender = self.handshake(stream).await?;
                self.shared.set(sender.clone());
                Ok(SendChannel::Shared(sender))
            }
        }
    }

    /// Opens a connection that speaks HTTP/2 from its first byte.
    async fn open_shared(self: Arc<Upstream>) -> io::Result<Http2Sender> {
        let (stream, _) = self.connector.connect(&self.url).await?;
        self.handshake(stream).await
    }

    /// Begins HTTP/2 on a connection.
    async fn handshake(&self, stream: Stream) -> io::Result<Http2Sender> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_header_list_size(self.options.head_bounds().bytes() as u32)
            .keep_alive_interval(self.options.idle_timeout)
            .keep_alive_timeout(self.options.connect_timeout);
        let handshake = builder.handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(io::Error::other)?;
        tokio::spawn(guarded(BackgroundWorker::UpstreamConnection, connection));
        Ok(sender)
    }

    fn reusable_channel(&self) -> Option<SendChannel> {
        if let Some(sender) = self.shared.sender() {
            return Some(SendChannel::Shared(sender));
        }
        loop {
            let mut connection = self.idle.lock().pop()?;
            if connection.is_good() {
                return Some(SendChannel::Exclusive(connection));
            }
        }
    }

    pub(super) fn give_back(&self, mut connection: UpstreamConnection) {
        connection.used_ms = clock::monotonic_ms().max(1);
        let mut idle = self.idle.lock();
        if idle.len() < self.options.idle_connections {
            idle.push(connection);
        }
    }

    /// Closes idle connections that the upstream has closed, or that have been idle for too long.
    pub(super) fn sweep(&self) {
        let most_ms = self.options.idle_timeout.as_millis() as u64;
        let now_ms = clock::monotonic_ms();
        let mut idle = self.idle.lock();
        idle.retain_mut(|connection| {
            now_ms.saturating_sub(connection.used_ms) < most_ms && connection.is_good()
        });
    }

    /// Sends a request; returns the response head, and the connection unless it is shared.
    pub(super) async fn send(
        &self,
        channel: SendChannel,
        request: Request<Upload>,
        deadline: ResponseDeadline<'_>,
    ) -> Result<(Response<Incoming>, Option<UpstreamConnection>), SendError> {
        match channel {
            SendChannel::Exclusive(mut connection) => {
                let response = connection.send(self.for_http1(request), deadline).await?;
                Ok((response, Some(connection)))
            }
            SendChannel::Shared(mut shared) => {
                let response = self.send_http2(&mut shared, request, deadline).await?;
                Ok((response, None))
            }
        }
    }

    /// Converts a request for HTTP/1.1.
    fn for_http1(&self, mut request: Request<Upload>) -> Request<Upload> {
        *request.version_mut() = Version::HTTP_11;
        if let Some(authority) = request.uri().authority() {
            // The request was converted for HTTP/2 before.
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
        if is_chunked(&request) {
            // Without the field, hyper sends no body in a GET.
            request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        let interim = request.body().interim().clone();
        interim.attach(&mut request);
        request
    }

    /// Sends a request over HTTP/2 and returns the response head.
    async fn send_http2(
        &self,
        shared: &mut Http2Sender,
        request: Request<Upload>,
        mut deadline: ResponseDeadline<'_>,
    ) -> Result<Response<Incoming>, SendError> {
        let mut sent = pin!(shared.try_send_request(self.for_http2(request)));
        let mut timer = LazyTimer::default();
        let answer = poll_fn(|context| {
            if let Poll::Ready(answer) = sent.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            deadline.poll(context, &mut timer).map(Err)
        })
        .await;
        match answer {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(SendError::of(error, &deadline)),
            Err(error) => Err(SendError::Failed(error)),
        }
    }

    /// Converts a request for HTTP/2: the host is part of the target.
    fn for_http2(&self, mut request: Request<Upload>) -> Request<Upload> {
        // hyper does not report `100 Continue` of HTTP/2, so the gateway cannot wait for it.
        if request.headers_mut().remove(EXPECT).is_some() {
            request.body_mut().open_gate();
        }
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

/// Whether a body is sent in chunks, because its length is unknown.
fn is_chunked(request: &Request<Upload>) -> bool {
    let body = request.body();
    !body.is_end_stream()
        && body.size_hint().exact().is_none()
        && !request.headers().contains_key(CONTENT_LENGTH)
}

/// One request that an upstream works on, until this is dropped.
#[derive(Debug)]
pub(in crate::doors::gateway) struct UpstreamLoad(Arc<Upstream>);

impl UpstreamLoad {
    pub(super) fn new(upstream: &Arc<Upstream>) -> UpstreamLoad {
        upstream.busy.fetch_add(1, Ordering::Relaxed);
        UpstreamLoad(upstream.clone())
    }

    pub(super) fn give_back(&self, connection: UpstreamConnection) {
        self.0.give_back(connection);
    }
}

impl Drop for UpstreamLoad {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}
