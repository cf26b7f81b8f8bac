//! How a gateway is set up.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

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
    /// How long connecting to an upstream may take.
    pub connect_timeout: Duration,
    /// How long an upstream may take for the head of its answer.
    pub answer_timeout: Duration,
}

impl GatewayOptions {
    /// A gateway to upstreams.
    pub fn to(upstreams: Vec<UpstreamUrl>) -> GatewayOptions {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8000);
        GatewayOptions {
            listen: Bind::plain(Address::Tcp(address)),
            upstreams,
            domain: None,
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(60),
        }
    }
}

/// Where an upstream is: `http://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamUrl {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Why a text is no upstream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UpstreamUrlError(String);

impl FromStr for UpstreamUrl {
    type Err = UpstreamUrlError;

    fn from_str(text: &str) -> Result<UpstreamUrl, UpstreamUrlError> {
        let wrong = || UpstreamUrlError(format!("{text:?} is no upstream; write http://host:port"));
        let url: hyper::Uri = text.parse().map_err(|_| wrong())?;
        if url.scheme_str() != Some("http") {
            return Err(wrong());
        }
        let host = url.host().ok_or_else(wrong)?.to_owned();
        Ok(UpstreamUrl { host, port: url.port_u16().unwrap_or(80) })
    }
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}
