//! The gateway: where requests come in, and where they go.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use clap::builder::BoolishValueParser;
use tollgate_server::config::{GatewayOptions, UpstreamUrl};
use tollgate_server::net::{Address, Bind, TlsOptions};

use super::defer::DeferArgs;
use crate::quantity::{patience, size};

pub(crate) const GATEWAY_HELP: &str = "\
It takes every setting of `tollgate serve`, and that command takes --to as well: a gateway is a door
of the server. As a command of its own it leaves the gRPC and Redis doors closed unless they are
given. Settings come from flags, then from variables, then from the file `tollgate.toml`.

Examples:
  tollgate gateway --to http://localhost:3000
  tollgate gateway --to http://10.0.0.1:80,http://10.0.0.2:80 --upstream-health /healthz
  tollgate gateway --to https://api.example --upstream-host --listen 0.0.0.0:8443 \\
      --gateway-tls-cert cert.pem --gateway-tls-key key.pem --rules rules/";

/// The gateway: where requests come in, and where they go.
#[derive(Args, Clone, Debug)]
pub(crate) struct GatewayArgs {
    /// Where the gateway sends requests on to, such as http://localhost:3000, https://host,
    /// h2c://host:port or unix:PATH; several share them
    #[arg(long, env = "TOLLGATE_TO", value_name = "URL,…", value_delimiter = ',')]
    pub(super) to: Vec<UpstreamUrl>,
    /// Where the gateway listens: 127.0.0.1:8000
    #[arg(long, env = "TOLLGATE_LISTEN", value_name = "ADDR")]
    pub(super) listen: Option<Address>,
    /// Whose rules the gateway follows, if there are several domains
    #[arg(long, env = "TOLLGATE_DOMAIN", value_name = "DOMAIN")]
    pub(super) domain: Option<String>,
    /// Send upstreams their own name as Host; what the client sent without it
    #[arg(long, env = "TOLLGATE_UPSTREAM_HOST", value_parser = BoolishValueParser::new())]
    pub(super) upstream_host: bool,
    /// Who vouches for upstreams with TLS, in PEM; those this machine trusts without it
    #[arg(long, env = "TOLLGATE_UPSTREAM_CA", value_name = "FILE")]
    pub(super) upstream_ca: Option<PathBuf>,
    /// A path to ask every upstream for: who answers with an error gets no requests
    #[arg(long, env = "TOLLGATE_UPSTREAM_HEALTH", value_name = "PATH", value_parser = path)]
    pub(super) upstream_health: Option<String>,
    /// How often it is asked for: 5s
    #[arg(long, env = "TOLLGATE_UPSTREAM_HEALTH_INTERVAL", value_name = "TIME", value_parser = patience)]
    pub(super) upstream_health_interval: Option<Duration>,
    /// How long connecting to an upstream may take: 5s
    #[arg(long, env = "TOLLGATE_UPSTREAM_CONNECT_TIMEOUT", value_name = "TIME", value_parser = patience)]
    pub(super) upstream_connect_timeout: Option<Duration>,
    /// How long an upstream may take for the head of its answer: 1min
    #[arg(long, env = "TOLLGATE_UPSTREAM_ANSWER_TIMEOUT", value_name = "TIME", value_parser = patience)]
    pub(super) upstream_answer_timeout: Option<Duration>,
    /// How long an upstream may pause within an answer: 1min
    #[arg(long, env = "TOLLGATE_UPSTREAM_PAUSE_TIMEOUT", value_name = "TIME", value_parser = patience)]
    pub(super) upstream_pause_timeout: Option<Duration>,
    /// How many idle connections to each upstream are kept: 512
    #[arg(long, env = "TOLLGATE_UPSTREAM_IDLE", value_name = "N", value_parser = size)]
    pub(super) upstream_idle: Option<usize>,
    /// How long they are kept: 30s
    #[arg(long, env = "TOLLGATE_UPSTREAM_IDLE_TIMEOUT", value_name = "TIME", value_parser = patience)]
    pub(super) upstream_idle_timeout: Option<Duration>,
    /// How long a client of the gateway may pause within a request: 30s
    #[arg(long, env = "TOLLGATE_UPLOAD_TIMEOUT", value_name = "TIME", value_parser = patience)]
    pub(super) upload_timeout: Option<Duration>,
    /// Bodies of requests are read up to so many bytes where rules name fields of them: 1048576
    #[arg(long, env = "TOLLGATE_READ_BODY", value_name = "N", value_parser = size)]
    pub(super) read_body: Option<usize>,
    /// How long a WebSocket may be silent: 1h
    #[arg(long, env = "TOLLGATE_TUNNEL_TIMEOUT", value_name = "TIME", value_parser = patience)]
    pub(super) tunnel_timeout: Option<Duration>,
    #[command(flatten)]
    pub(super) defer: DeferArgs,
}

impl GatewayArgs {
    /// What they ask for; nothing without an upstream.
    pub(super) fn options(
        &self,
        tls: Option<TlsOptions>,
    ) -> anyhow::Result<Option<GatewayOptions>> {
        if self.to.is_empty() {
            if self.listen.is_some() {
                bail!("--listen needs --to: give where requests go, as http://localhost:3000");
            }
            return Ok(None);
        }
        let mut options = GatewayOptions::to(self.to.clone());
        let address = self.listen.clone().unwrap_or_else(|| options.listen.address.clone());
        options.listen = Bind { address, tls };
        options.domain = self.domain.clone();
        options.upstream_host = self.upstream_host;
        options.upstream_ca = self.upstream_ca.clone();
        options.health = self.upstream_health.clone();
        options.idle_lanes = self.upstream_idle.unwrap_or(options.idle_lanes);
        options.read_body = self.read_body.unwrap_or(options.read_body);
        for (given, place) in [
            (self.upstream_health_interval, &mut options.health_interval),
            (self.upstream_connect_timeout, &mut options.connect_timeout),
            (self.upstream_answer_timeout, &mut options.answer_timeout),
            (self.upstream_pause_timeout, &mut options.pause_timeout),
            (self.upstream_idle_timeout, &mut options.idle_timeout),
            (self.upload_timeout, &mut options.upload_timeout),
            (self.tunnel_timeout, &mut options.tunnel_timeout),
        ] {
            *place = given.unwrap_or(*place);
        }
        self.defer.apply(&mut options.defer);
        Ok(Some(options))
    }
}

fn path(text: &str) -> Result<String, String> {
    match text.starts_with('/') && text.parse::<tollgate_server::client::Uri>().is_ok() {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is no path; write /healthz")),
    }
}
