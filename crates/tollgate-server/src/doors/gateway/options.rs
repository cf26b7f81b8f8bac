//! How a gateway is set up.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::url::UpstreamUrl;
use crate::deferred::DeferOptions;
use crate::net::{Address, Bind};

/// How a gateway is set up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// Where clients come to: 127.0.0.1:8000 unless set.
    pub listen: Bind,
    /// Where requests go.
    pub upstreams: Vec<UpstreamUrl>,
    /// Whose rules apply; the only ones' unless set.
    pub domain: Option<String>,
    /// Whether upstreams are sent their own name as `Host` instead of what the client sent.
    pub upstream_host: bool,
    /// Who vouches for upstreams, in PEM; those this machine trusts unless set.
    pub upstream_ca: Option<PathBuf>,
    /// How long connecting to an upstream may take.
    pub connect_timeout: Duration,
    /// How long an upstream may take for the head of its answer, once it has the request.
    pub answer_timeout: Duration,
    /// How long an upstream may pause within the body of its answer.
    pub pause_timeout: Duration,
    /// How long a client may pause within the body of its request.
    pub upload_timeout: Duration,
    /// Bodies of requests are read up to so many bytes, where rules name fields of them (`body.…`):
    /// 1 MiB unless set.
    pub read_body: usize,
    /// How long nothing may be said on a connection that was upgraded.
    pub tunnel_timeout: Duration,
    /// Connections to each upstream that are kept for later.
    pub idle_lanes: usize,
    /// How long they are kept.
    pub idle_timeout: Duration,
    /// A path to ask every upstream for now and then: who answers it with an error gets no
    /// requests. Without it, only who cannot be reached is set aside.
    pub health: Option<String>,
    /// How often.
    pub health_interval: Duration,
    /// How requests over the limit of a rule with `then: defer` are kept and replayed.
    pub defer: DeferOptions,
}

impl GatewayOptions {
    /// A gateway to upstreams.
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
            tunnel_timeout: Duration::from_secs(3600),
            idle_lanes: 512,
            idle_timeout: Duration::from_secs(30),
            health: None,
            health_interval: Duration::from_secs(5),
            defer: DeferOptions::default(),
        }
    }
}
