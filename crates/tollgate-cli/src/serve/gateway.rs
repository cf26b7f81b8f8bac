//! The settings of the gateway: its listener and its upstreams.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use clap::builder::BoolishValueParser;
use tollgate_server::config::{GatewayOptions, UpstreamUrl, ViaName};
use tollgate_server::net::{Address, Bind, TlsOptions};

use super::defer::DeferArgs;
use crate::quantity::{number_usize, positive_duration};

pub(crate) const GATEWAY_HELP: &str = "\
The gateway is a door of the server: this command takes every setting of `tollgate serve`, and that
command takes --to as well. The only difference is that this command leaves the gRPC and Redis doors
off unless they are given. Settings come from flags, then from environment variables
(TOLLGATE_UPSTREAM_CA for --upstream-ca), then from the file `tollgate.toml`.

Examples:
  tollgate gateway --to localhost:3000
  tollgate gateway --to 10.0.0.1:80,10.0.0.2:80 --upstream-health /healthz
  tollgate gateway --to https://api.example --upstream-host --listen 0.0.0.0:8443 \\
      --gateway-tls-cert cert.pem --gateway-tls-key key.pem --rules rules/";

/// The settings of the gateway: its listener and its upstreams.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Gateway")]
pub(crate) struct GatewayArgs {
    /// Upstreams of the gateway, such as localhost:3000, https://host, h2c://host:port or unix:PATH;
    /// several share the requests
    #[arg(long, env = "TOLLGATE_TO", value_name = "URL,…", value_delimiter = ',')]
    pub(super) to: Vec<UpstreamUrl>,
    /// Address of the gateway listener [default: 127.0.0.1:8000]
    #[arg(long, env = "TOLLGATE_LISTEN", value_name = "ADDR")]
    pub(super) listen: Option<Address>,
    /// Domain of the gateway's rules, if there are several
    #[arg(long, env = "TOLLGATE_DOMAIN", value_name = "DOMAIN")]
    pub(super) domain: Option<String>,
    /// Upstream name as the Host header [default: the client's Host header]
    #[arg(long, env = "TOLLGATE_UPSTREAM_HOST", value_parser = BoolishValueParser::new())]
    pub(super) upstream_host: bool,
    /// CA certificates (PEM) used to verify upstreams [default: system roots]
    #[arg(long, env = "TOLLGATE_UPSTREAM_CA", value_name = "FILE")]
    pub(super) upstream_ca: Option<PathBuf>,
    /// Path of the upstream health check; an upstream that fails it gets no requests [default: none]
    #[arg(long, env = "TOLLGATE_UPSTREAM_HEALTH", value_name = "PATH", value_parser = path)]
    pub(super) upstream_health: Option<String>,
    /// Interval of the upstream health check
    #[arg(
        long,
        env = "TOLLGATE_UPSTREAM_HEALTH_INTERVAL",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "5s",
        hide_short_help = true
    )]
    pub(super) upstream_health_interval: Duration,
    /// Timeout for connecting to an upstream
    #[arg(
        long,
        env = "TOLLGATE_UPSTREAM_CONNECT_TIMEOUT",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "5s",
        hide_short_help = true
    )]
    pub(super) upstream_connect_timeout: Duration,
    /// Timeout for the head of an upstream response
    #[arg(
        long,
        env = "TOLLGATE_UPSTREAM_ANSWER_TIMEOUT",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "1min",
        hide_short_help = true
    )]
    pub(super) upstream_answer_timeout: Duration,
    /// Timeout for a pause within an upstream response
    #[arg(
        long,
        env = "TOLLGATE_UPSTREAM_PAUSE_TIMEOUT",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "1min",
        hide_short_help = true
    )]
    pub(super) upstream_pause_timeout: Duration,
    /// Maximum number of idle connections to each upstream
    #[arg(
        long,
        env = "TOLLGATE_UPSTREAM_IDLE",
        value_name = "N",
        value_parser = number_usize,
        default_value = "512",
        hide_short_help = true
    )]
    pub(super) upstream_idle: usize,
    /// Idle timeout of upstream connections
    #[arg(
        long,
        env = "TOLLGATE_UPSTREAM_IDLE_TIMEOUT",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "30s",
        hide_short_help = true
    )]
    pub(super) upstream_idle_timeout: Duration,
    /// Timeout for a pause within a client's request
    #[arg(
        long,
        env = "TOLLGATE_UPLOAD_TIMEOUT",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "30s",
        hide_short_help = true
    )]
    pub(super) upload_timeout: Duration,
    /// Least rate of an upload in bytes per second, until the upstream responds; 0 for none
    #[arg(
        long,
        env = "TOLLGATE_UPLOAD_MIN_RATE",
        value_name = "N",
        value_parser = rate,
        default_value = "100",
        hide_short_help = true
    )]
    pub(super) upload_min_rate: u32,
    /// Maximum size of a request body that is read for rules with body fields
    #[arg(
        long,
        env = "TOLLGATE_READ_BODY",
        value_name = "N",
        value_parser = number_usize,
        default_value = "1MiB",
        hide_short_help = true
    )]
    pub(super) read_body: usize,
    /// Timeout for receiving such a body
    #[arg(
        long,
        env = "TOLLGATE_READ_BODY_TIMEOUT",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "30s",
        hide_short_help = true
    )]
    pub(super) read_body_timeout: Duration,
    /// Idle timeout of a WebSocket
    #[arg(
        long,
        env = "TOLLGATE_TUNNEL_TIMEOUT",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "1h",
        hide_short_help = true
    )]
    pub(super) tunnel_timeout: Duration,
    /// Header fields of clients to forward although they can replace the target, host or method of a
    /// request, such as X-Original-URL [default: none]
    #[arg(
        long,
        env = "TOLLGATE_PASS_HEADERS",
        value_name = "NAME,…",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub(super) pass_headers: Vec<String>,
    /// Header fields with _ and other unusual characters in their names are forwarded [default: they
    /// are removed, because many upstreams take X_Org for X-Org]
    #[arg(
        long,
        env = "TOLLGATE_UNDERSCORES_IN_HEADERS",
        value_parser = BoolishValueParser::new(),
        hide_short_help = true
    )]
    pub(super) underscores_in_headers: bool,
    /// Maximum size of the head of a request and of a response, 8KiB to 512KiB
    #[arg(
        long,
        env = "TOLLGATE_HEAD_SIZE",
        value_name = "SIZE",
        value_parser = number_usize,
        default_value = "64KiB",
        hide_short_help = true
    )]
    pub(super) head_size: usize,
    /// Maximum number of header fields of a request and of a response on HTTP/1.1, at most 10000
    #[arg(
        long,
        env = "TOLLGATE_HEADER_FIELDS",
        value_name = "N",
        value_parser = number_usize,
        default_value = "256",
        hide_short_help = true
    )]
    pub(super) header_fields: usize,
    /// Name of the gateway in the Via header, random (tollgate- and a number) or off
    #[arg(
        long,
        env = "TOLLGATE_VIA",
        value_name = "NAME",
        default_value = "random",
        hide_short_help = true
    )]
    pub(super) via: ViaName,
    /// Timeout for an upstream to ask for the body of a request with Expect: 100-continue
    #[arg(
        long,
        env = "TOLLGATE_CONTINUE_TIMEOUT",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "1s",
        hide_short_help = true
    )]
    pub(super) continue_timeout: Duration,
    /// Trailers of HTTP/2 upstreams that clients of HTTP/1.1 get, where the upstream announces none
    #[arg(
        long,
        env = "TOLLGATE_TRAILERS",
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "grpc-status,grpc-message,grpc-status-details-bin",
        hide_short_help = true
    )]
    pub(super) trailers: Vec<String>,
    #[command(flatten)]
    pub(super) defer: DeferArgs,
}

impl GatewayArgs {
    /// Returns the gateway options; none without an upstream.
    pub(super) fn options(
        &self,
        tls: Option<TlsOptions>,
    ) -> anyhow::Result<Option<GatewayOptions>> {
        if self.to.is_empty() {
            if self.listen.is_some() {
                bail!("--listen needs an upstream: give one, such as --to localhost:3000");
            }
            return Ok(None);
        }
        let mut options = GatewayOptions::to(self.to.clone());
        let address = self.listen.clone().unwrap_or_else(|| options.listen.address.clone());
        options.listen = Bind { address, tls };
        options.domain = self.domain.clone();
        options.upstream_host = self.upstream_host;
        options.upstream_ca = self.upstream_ca.clone();
        options.pass_headers = self.pass_headers.clone();
        options.underscores_in_headers = self.underscores_in_headers;
        options.head_bytes = self.head_size;
        options.header_fields = self.header_fields;
        options.via = self.via.clone();
        options.continue_timeout = self.continue_timeout;
        options.trailers = self.trailers.iter().filter(|name| !name.is_empty()).cloned().collect();
        options.health = self.upstream_health.clone();
        options.idle_connections = self.upstream_idle;
        options.upload_min_rate = self.upload_min_rate;
        options.read_body = self.read_body;
        options.health_interval = self.upstream_health_interval;
        options.connect_timeout = self.upstream_connect_timeout;
        options.answer_timeout = self.upstream_answer_timeout;
        options.pause_timeout = self.upstream_pause_timeout;
        options.idle_timeout = self.upstream_idle_timeout;
        options.upload_timeout = self.upload_timeout;
        options.read_body_timeout = self.read_body_timeout;
        options.tunnel_timeout = self.tunnel_timeout;
        self.defer.apply(&mut options.defer);
        Ok(Some(options))
    }
}

fn rate(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| "write a whole number of bytes per second, such as 100, or 0".to_owned())
}

fn path(text: &str) -> Result<String, String> {
    match text.starts_with('/') && text.parse::<tollgate_server::client::Uri>().is_ok() {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is no path; write /healthz")),
    }
}
