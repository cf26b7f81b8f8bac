//! How a server is set up. Who reads flags, variables and files is the command line's business;
//! here every setting has a name, a meaning and a default.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use tollgate::Clock;

use crate::net::{Address, Bind};
use crate::rules_service::Tokens;
use crate::sources::Origin;

pub use crate::deferred::DeferOptions;
pub use crate::doors::gateway::{GatewayOptions, UpstreamUrl, UpstreamUrlError};
pub use tollgate_redis::{ConnectError, Options as RedisOptions};
pub use tollgate_tower::headers::HeaderStyle;

/// How a server is set up.
///
/// ```
/// use tollgate_server::Config;
/// let config = Config::default();
/// assert_eq!(config.http.unwrap().address.to_string(), "127.0.0.1:8080");
/// assert!(config.rules.is_none(), "those of the rules service inside, at first a sample");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Where rules come from. Without it they are in the data folder, changed by `/v1/rules`.
    pub rules: Option<Origin>,
    /// The folder of the rules database and the tokens. Without it nothing outlives the process.
    pub data: Option<PathBuf>,
    /// The HTTP door: decisions, forward-auth, `POST /json`, operations, and the admin API unless
    /// it has an address of its own.
    pub http: Option<Bind>,
    /// The gRPC door: Envoy's rate limit service.
    pub grpc: Option<Bind>,
    /// The door of the Redis protocol.
    pub resp: Option<Bind>,
    /// The gateway: a reverse proxy that limits.
    pub gateway: Option<GatewayOptions>,
    /// The admin API's own address.
    pub admin: Option<Bind>,
    /// Who may use the admin API. Without it, tokens are made and kept in the data folder.
    pub admin_tokens: Option<Tokens>,
    /// Who may ask for decisions. Without it everybody who reaches a door may.
    pub data_tokens: Option<Tokens>,
    /// Whose `X-Forwarded-*` and `X-Original-*` are believed by forward-auth, and whose
    /// `X-Forwarded-*` by the gateway, which believes those that the rules trust too.
    pub trusted_proxies: Vec<IpNet>,
    /// Which headers tell clients about their limits.
    pub headers: HeaderStyle,
    /// Whether Envoy is told to add `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`
    /// to its answers. Off unless set, as in Envoy's own rate limit service: what clients see
    /// should not change because another service answers.
    pub envoy_headers: bool,
    /// What a client may cost.
    pub bounds: Bounds,
    /// How it goes down.
    pub drain: DrainOptions,
    /// What is told about decisions.
    pub telemetry: TelemetryOptions,
    /// Where counters are kept.
    pub store: StoreChoice,
    /// How many keys the memory store holds; 16 M unless set.
    pub max_keys: Option<u64>,
    /// The clock that decides; the system's unless set.
    pub clock: Option<Clock>,
}

impl Default for Config {
    fn default() -> Config {
        let local = |port| {
            let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
            Some(Bind::plain(Address::Tcp(address)))
        };
        Config {
            rules: None,
            data: None,
            http: local(8080),
            grpc: local(8081),
            resp: local(6380),
            gateway: None,
            admin: None,
            admin_tokens: None,
            data_tokens: None,
            trusted_proxies: Vec::new(),
            headers: HeaderStyle::default(),
            envoy_headers: false,
            bounds: Bounds::default(),
            drain: DrainOptions::default(),
            telemetry: TelemetryOptions::default(),
            store: StoreChoice::default(),
            max_keys: None,
            clock: None,
        }
    }
}

/// Where counters are kept.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum StoreChoice {
    /// In this process.
    #[default]
    Memory,
    /// In Redis or Valkey, shared by all servers that use the same addresses and prefix.
    Redis(RedisOptions),
}

/// What a client may cost before it is cut off.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Bounds {
    /// Connections at once; when they run out, who has been silent longest leaves. As many as the
    /// system lets the process have files, less a reserve, unless set.
    pub connections: Option<usize>,
    /// The body of a decision call, in bytes.
    pub body: usize,
    /// How long the head of a request may take.
    pub header_timeout: Duration,
    /// How long a connection may say nothing.
    pub idle_timeout: Duration,
    /// How long a client may take to read an answer.
    pub write_timeout: Duration,
    /// Streams at once on a connection of HTTP/2.
    pub streams: u32,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            connections: None,
            body: 1 << 20,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            write_timeout: Duration::from_secs(10),
            streams: 256,
        }
    }
}

/// How the server goes down once it is told to.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DrainOptions {
    /// How long it goes on as usual while `/readyz` says that it is leaving: what load balancers
    /// need to notice.
    pub notice: Duration,
    /// How long what is under way may take after that.
    pub patience: Duration,
}

impl Default for DrainOptions {
    fn default() -> DrainOptions {
        DrainOptions { notice: Duration::from_secs(1), patience: Duration::from_secs(10) }
    }
}

/// What is told about decisions, beside metrics.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TelemetryOptions {
    /// Where traces are sent by OTLP over gRPC: `http://127.0.0.1:4317`.
    pub otlp: Option<String>,
    /// The share of decisions that are traced, from 0 to 1, unless the caller's trace says.
    pub trace_share: f64,
    /// The share of allowed decisions that are logged, from 0 to 1.
    pub log_allowed: f64,
    /// The share of refused decisions that are logged, from 0 to 1.
    pub log_denied: f64,
    /// How many keys each list of `/v1/top` may remember.
    pub top_keys: usize,
}

impl Default for TelemetryOptions {
    fn default() -> TelemetryOptions {
        TelemetryOptions {
            otlp: None,
            trace_share: 0.01,
            log_allowed: 0.0,
            log_denied: 0.0,
            top_keys: 1024,
        }
    }
}
