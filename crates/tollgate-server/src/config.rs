//! The configuration of a server. The command line reads flags, variables and files; this module
//! defines the name, the meaning and the default of every setting.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use tollgate::Clock;

use crate::net::{Address, Bind};
use crate::rules_service::Tokens;
use crate::sources::Origin;

pub use crate::deferred::DeferOptions;
pub use crate::doors::gateway::{GatewayOptions, UpstreamUrl, UpstreamUrlError, ViaName};
pub use crate::identity::{ApiKeyOptions, IdentityOptions, JwtAlgorithm, JwtKeySource, JwtOptions};
pub use crate::key_secret::{KeySecretError, read_key_secret};
pub use crate::telemetry::StatsdAddress;
pub use tollgate_redis::{ConnectError, Options as RedisOptions};
pub use tollgate_rules::KeySecret;
pub use tollgate_tower::headers::HeaderStyle;

/// The configuration of a server.
///
/// ```
/// use tollgate_server::Config;
/// let config = Config::default();
/// assert_eq!(config.http.unwrap().address.to_string(), "127.0.0.1:8080");
/// assert!(config.rules.is_none(), "the server stores the rules, at first a sample");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The origin of the rules. Without one, the data folder stores them and `/v1/rules` edits them.
    pub rules: Option<Origin>,
    /// The folder of the rules database, the tokens and the snapshot. Without one, nothing survives
    /// a restart.
    pub data: Option<PathBuf>,
    /// Address of the HTTP door: decisions, forward-auth, `POST /json` and operations.
    ///
    /// The admin API is on this door too, unless [`Config::admin`] is set.
    pub http: Option<Bind>,
    /// Address of the gRPC door: Envoy's rate limit service.
    pub grpc: Option<Bind>,
    /// Address of the Redis-protocol door.
    pub resp: Option<Bind>,
    /// The gateway, a reverse proxy that limits requests.
    pub gateway: Option<GatewayOptions>,
    /// A separate address for the admin API.
    pub admin: Option<Bind>,
    /// The tokens of the admin API. Without them, the server creates tokens in the data folder.
    pub admin_tokens: Option<Tokens>,
    /// The tokens of callers that ask for decisions. Without them, no token is required.
    pub data_tokens: Option<Tokens>,
    /// Names, besides those of this machine, that requests from this machine may have in `Host`.
    ///
    /// A page on another name that resolves to a loopback address cannot use the HTTP door.
    pub hosts: Vec<String>,
    /// The secret of the hashes that stand for API keys and other secrets in keys.
    ///
    /// Servers that share a store need the same one. Without it, the secret is in the shared store,
    /// or in the data folder.
    pub key_secret: Option<KeySecret>,
    /// The keys that verify who sent a request, in the gateway and forward-auth.
    pub identity: IdentityOptions,
    /// The proxies whose forwarding headers are trusted.
    ///
    /// Forward-auth trusts their `X-Forwarded-*` and `X-Original-*`. The gateway trusts their
    /// `X-Forwarded-*`, and also that of the proxies which the rules trust.
    pub trusted_proxies: Vec<IpNet>,
    /// The style of the response headers that describe limits to clients.
    pub headers: HeaderStyle,
    /// Whether Envoy adds rate-limit headers to its responses.
    ///
    /// They are `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, or those of the styles
    /// `envoy-03`, `legacy` and `draft-6` of [`Config::headers`]; the style `envoy-03` needs no other
    /// setting. The default is off, as in Envoy's own rate limit service, so that clients see no
    /// difference when tollgate replaces it.
    pub envoy_headers: bool,
    /// The resources that one client may use.
    pub bounds: Bounds,
    /// The timing of a graceful stop.
    pub drain: DrainOptions,
    /// Traces, decision logs and the list of busiest keys.
    pub telemetry: TelemetryOptions,
    /// The store of the counters.
    pub store: StoreChoice,
    /// The maximum number of keys in the memory store. The default is 16 M.
    pub max_keys: Option<u64>,
    /// The maximum memory of the counters in the memory store, in bytes. The default is 2 GiB.
    pub max_memory: Option<u64>,
    /// The time between snapshots of the memory store, in the data folder; `None` for no snapshots.
    ///
    /// Without a data folder, or with another store, there are none. The default is one second.
    pub snapshot: Option<Duration>,
    /// The clock used for decisions. The default is the system clock.
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
            hosts: Vec::new(),
            key_secret: None,
            identity: IdentityOptions::default(),
            trusted_proxies: Vec::new(),
            headers: HeaderStyle::default(),
            envoy_headers: false,
            bounds: Bounds::default(),
            drain: DrainOptions::default(),
            telemetry: TelemetryOptions::default(),
            store: StoreChoice::default(),
            max_keys: None,
            max_memory: None,
            snapshot: Some(Duration::from_secs(1)),
            clock: None,
        }
    }
}

/// The store of the counters.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum StoreChoice {
    /// The memory of this process.
    #[default]
    Memory,
    /// Redis or Valkey, shared by all servers that use the same addresses and prefix.
    Redis(RedisOptions),
}

/// The resources that clients may use before the server closes their connections.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Bounds {
    /// The maximum number of open connections of all doors.
    ///
    /// When all are taken, the one that has been idle longest is closed; if every one has a request
    /// in progress, the new one is refused. A part is reserved for each door. The default is the
    /// process's limit of open files, less a reserve.
    pub connections: Option<usize>,
    /// The maximum size of the body of a decision call, in bytes.
    pub body: usize,
    /// The memory for request bodies that are read before their requests are answered, in bytes.
    ///
    /// All doors share it. A client may hold at most as much as remains free. It is at least four
    /// times the largest body.
    pub buffered_bodies: usize,
    /// The maximum time to receive the head of a request, and the body of a decision call after it.
    pub header_timeout: Duration,
    /// The maximum time that a connection may be idle.
    pub idle_timeout: Duration,
    /// The maximum time in which a connection accepts no byte of a response.
    pub write_timeout: Duration,
    /// The maximum time in which a client takes nothing of a response body.
    ///
    /// A stream of HTTP/2 is then reset and its permits are released; a connection of HTTP/1.1 is
    /// closed. To take nothing is to take less than 16 KiB of a body that has more.
    pub stall_timeout: Duration,
    /// The maximum number of concurrent streams on an HTTP/2 connection.
    pub streams: u32,
    /// The maximum number of open reservations.
    ///
    /// One client may have a quarter of those that other clients leave.
    pub reservations: usize,
    /// The maximum memory of open reservations, in bytes, shared by clients like their number.
    pub reservation_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            connections: None,
            body: 1 << 20,
            buffered_bodies: 64 << 20,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            write_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            streams: 256,
            reservations: 65_536,
            reservation_bytes: 64 << 20,
        }
    }
}

/// The timing of a graceful stop.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DrainOptions {
    /// The time during which the server answers as usual while `/readyz` reports that it is leaving.
    ///
    /// Load balancers need this time to notice.
    pub notice: Duration,
    /// The maximum time for requests in flight to finish after the notice.
    pub patience: Duration,
}

impl Default for DrainOptions {
    fn default() -> DrainOptions {
        DrainOptions { notice: Duration::from_secs(1), patience: Duration::from_secs(10) }
    }
}

/// Traces, decision logs and the list of busiest keys.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TelemetryOptions {
    /// The OTLP endpoint (gRPC) that receives traces, such as `http://127.0.0.1:4317`.
    pub otlp: Option<String>,
    /// The probability that a decision is traced, from 0 to 1; unused without an endpoint.
    pub trace_share: f64,
    /// The share of allowed decisions that are logged, from 0 to 1.
    pub log_allowed: f64,
    /// The share of refused decisions that are logged, from 0 to 1.
    pub log_denied: f64,
    /// The maximum number of keys in each list of `/v1/top`.
    pub top_keys: usize,
    /// The statsd server that receives the statistics of domains in the format of Envoy's service.
    pub statsd: Option<StatsdAddress>,
    /// The time between two reports to the statsd server.
    pub statsd_interval: Duration,
}

impl Default for TelemetryOptions {
    fn default() -> TelemetryOptions {
        TelemetryOptions {
            otlp: None,
            trace_share: 0.01,
            log_allowed: 0.0,
            log_denied: 0.0,
            top_keys: 1024,
            statsd: None,
            statsd_interval: Duration::from_secs(10),
        }
    }
}
