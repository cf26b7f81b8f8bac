//! The options of a gateway.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::url::UpstreamUrl;
use super::via::ViaName;
use crate::deferred::DeferOptions;
use crate::net::http::{HeadBounds, MAX_HEAD_BYTES};
use crate::net::{Address, Bind};

/// The fields that gRPC servers send after a response.
const GRPC_TRAILERS: [&str; 3] = ["grpc-status", "grpc-message", "grpc-status-details-bin"];

/// The options of a gateway.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// The listener for clients: 127.0.0.1:8000 unless set.
    pub listen: Bind,
    /// The upstreams that requests are forwarded to.
    pub upstreams: Vec<UpstreamUrl>,
    /// The domain whose rules apply; not needed if there is only one.
    pub domain: Option<String>,
    /// Whether upstreams are sent their own name as `Host` instead of what the client sent.
    pub upstream_host: bool,
    /// The CA certificates of upstreams, in PEM; those of the system unless set.
    pub upstream_ca: Option<PathBuf>,
    /// The maximum time for connecting to an upstream.
    pub connect_timeout: Duration,
    /// The maximum time until the response head, after the request was sent.
    pub answer_timeout: Duration,
    /// The maximum pause of an upstream within a response body.
    pub pause_timeout: Duration,
    /// The maximum pause of a client within a request body.
    pub upload_timeout: Duration,
    /// The maximum size of request bodies that are read for rules (`body.…`), in bytes: 1 MiB
    /// unless set.
    pub read_body: usize,
    /// The maximum time for receiving such a body.
    pub read_body_timeout: Duration,
    /// The least rate of an upload, in bytes per second; 0 for none.
    ///
    /// A client may make the gateway wait for [`upload_timeout`](GatewayOptions::upload_timeout), and
    /// for the time that the bytes it has sent take at this rate. The rate applies until the upstream
    /// responds.
    pub upload_min_rate: u32,
    /// The idle timeout of an upgraded connection.
    pub tunnel_timeout: Duration,
    /// The maximum number of idle connections to each upstream.
    pub idle_connections: usize,
    /// The idle timeout of connections to upstreams.
    pub idle_timeout: Duration,
    /// The path of the health check. An upstream that fails it is ejected. Without a path, only
    /// unreachable upstreams are ejected.
    pub health: Option<String>,
    /// The interval of the health check.
    pub health_interval: Duration,
    /// The header fields of clients that are forwarded although upstreams could take them for
    /// another target, host or method, such as `X-Original-URL`.
    pub pass_headers: Vec<String>,
    /// Whether header fields are forwarded whose names have other characters than letters, digits
    /// and hyphens. Many upstreams take `X_Org` for `X-Org`.
    pub underscores_in_headers: bool,
    /// The maximum size of the head of a request and of a response, in bytes: 64 KiB unless set, at
    /// least 8 KiB and at most 512 KiB.
    pub head_bytes: usize,
    /// The maximum number of header fields of a request and of a response on HTTP/1.1: 256 unless
    /// set, at most 10,000. On HTTP/2 [`head_bytes`](GatewayOptions::head_bytes) bounds them.
    pub header_fields: usize,
    /// The name of the gateway in `Via`.
    pub via: ViaName,
    /// The maximum time for an upstream to ask for the body of a request with
    /// `Expect: 100-continue`. Then the body is sent unasked.
    pub continue_timeout: Duration,
    /// The trailers of HTTP/2 upstreams that clients of HTTP/1.1 get, if the upstream does not
    /// announce any in `Trailer`. Those of gRPC unless set.
    pub trailers: Vec<String>,
    /// The options of the deferred queue.
    pub defer: DeferOptions,
}

impl GatewayOptions {
    /// Creates the options of a gateway to upstreams.
    pub fn to(upstreams: Vec<UpstreamUrl>) -> GatewayOptions {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8000);
        GatewayOptions {
            listen: Bind::plain(Address::Tcp(address)),
            upstreams,
            domain: None,
            upstream_host: false,
            upstream_ca: None,
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(60),
            pause_timeout: Duration::from_secs(60),
            upload_timeout: Duration::from_secs(30),
            read_body: 1 << 20,
            read_body_timeout: Duration::from_secs(30),
            upload_min_rate: 100,
            tunnel_timeout: Duration::from_secs(3600),
            idle_connections: 512,
            idle_timeout: Duration::from_secs(30),
            health: None,
            health_interval: Duration::from_secs(5),
            pass_headers: Vec::new(),
            underscores_in_headers: false,
            head_bytes: MAX_HEAD_BYTES,
            header_fields: 256,
            via: ViaName::Random,
            continue_timeout: Duration::from_secs(1),
            trailers: GRPC_TRAILERS.map(str::to_owned).into(),
            defer: DeferOptions::default(),
        }
    }

    /// Returns the bounds of heads, of requests and of responses.
    pub(super) fn head_bounds(&self) -> HeadBounds {
        HeadBounds::new(self.head_bytes, self.header_fields)
    }
}
