//! The settings of a server: each is a flag, an environment variable and a key of `tollgate.toml`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use ipnet::IpNet;
use tollgate_server::net::Address;
use tollgate_server::secret::Secret;

use super::gateway::GatewayArgs;
use super::logging::LogLevel;
use super::store::StoreArgs;
use super::tls::TlsArgs;
use super::values::{DoorAddress, HeaderStyleName, LogFormat, SnapshotInterval, network};
use crate::quantity::{
    duration, memory_size, number, number_u16, number_usize, positive_duration, share,
};

const SERVE_HELP: &str = "\
Settings come from flags, then from environment variables, then from the file `tollgate.toml`: each
flag is a key there, with _ for -; a section such as [tls] stands for the prefix tls_.

Signals: HUP reloads rules, certificates and the log level. TERM and INT drain: /readyz fails first,
then new connections are refused, then requests in flight finish. A second signal stops at once.

Examples:
  tollgate
  tollgate serve --rules rules/ --http 127.0.0.1:8080 --grpc off --resp off
  tollgate serve --rules rules/ --store redis://cache.example:6379
  tollgate serve --http unix:/run/tollgate/http.sock
  tollgate serve --http 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem --data-tokens tokens
  tollgate serve --check                      validation only; starts nothing";

/// The arguments of `tollgate serve` and `tollgate gateway`.
#[derive(Args, Clone, Debug)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ServeArgs {
    /// File of settings [default: tollgate.toml in this folder, if it exists]
    #[arg(long, env = "TOLLGATE_CONFIG", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// File, folder or URL of the rules, such as the /v1/rules/bundle of a rules service [default:
    /// rules in the data folder, a sample at first, changed by `tollgate rules put`]
    #[arg(long, env = "TOLLGATE_RULES", value_name = "FILE|DIR|URL")]
    pub(super) rules: Option<String>,
    /// Token for the URL of the rules
    #[arg(long, env = "TOLLGATE_RULES_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(super) rules_token: Option<Secret>,
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// Folder of the rules database, the tokens and the snapshot, created if missing [default:
    /// systemd's state directory, or tollgate-data]
    #[arg(long, env = "TOLLGATE_DATA", value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Time between snapshots of the memory store in the data folder, or `off`: what a crash can lose
    /// [default: 1s]
    #[arg(long, env = "TOLLGATE_SNAPSHOT", value_name = "TIME")]
    pub(super) snapshot: Option<SnapshotInterval>,
    /// Maximum number of keys in the memory store [default: 16M]
    #[arg(long, env = "TOLLGATE_MAX_KEYS", value_name = "N", value_parser = number)]
    pub(super) max_keys: Option<u64>,
    /// Maximum memory of the counters in the memory store, at least 16MiB [default: 2GiB]
    #[arg(long, env = "TOLLGATE_MAX_MEMORY", value_name = "SIZE", value_parser = memory_size)]
    pub(super) max_memory: Option<u64>,

    /// Address of the HTTP listener, `unix:PATH` or `off` [default: 127.0.0.1:8080]
    #[arg(long, env = "TOLLGATE_HTTP", value_name = "ADDR")]
    pub(super) http: Option<DoorAddress>,
    /// Address of the gRPC listener (Envoy's rate limit service), `unix:PATH` or `off` [default:
    /// 127.0.0.1:8081]
    #[arg(long, env = "TOLLGATE_GRPC", value_name = "ADDR")]
    pub(super) grpc: Option<DoorAddress>,
    /// Address of the Redis-protocol listener, `unix:PATH` or `off` [default: 127.0.0.1:6380]
    #[arg(long, env = "TOLLGATE_RESP", value_name = "ADDR")]
    pub(super) resp: Option<DoorAddress>,
    /// Address of a separate listener for the admin API [default: the HTTP listener]
    #[arg(long, env = "TOLLGATE_ADMIN", value_name = "ADDR")]
    pub(super) admin: Option<Address>,

    #[command(flatten)]
    pub(super) gateway: GatewayArgs,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    /// File of tokens for the admin API, one per line as name:token or name:token:role [default:
    /// tokens in the data folder]
    #[arg(long, env = "TOLLGATE_ADMIN_TOKENS", value_name = "FILE")]
    pub(super) admin_tokens: Option<PathBuf>,
    /// File of tokens for clients that request decisions [default: no token needed]
    #[arg(long, env = "TOLLGATE_DATA_TOKENS", value_name = "FILE")]
    pub(super) data_tokens: Option<PathBuf>,
    /// File with the secret for the hashes of API keys, cookies and other secrets in keys [default: a
    /// random one in the shared store or the data folder]
    #[arg(long, env = "TOLLGATE_KEY_SECRET_FILE", value_name = "FILE")]
    pub(super) key_secret_file: Option<PathBuf>,
    /// Host names accepted from clients on this machine, besides names without a dot, *.localhost and
    /// addresses
    #[arg(long, env = "TOLLGATE_HOSTS", value_name = "NAME,…", value_delimiter = ',')]
    pub(super) hosts: Vec<String>,
    /// Networks of proxies whose X-Forwarded-* headers forward-auth and the gateway trust
    #[arg(
        long,
        env = "TOLLGATE_TRUSTED_PROXIES",
        value_name = "NETWORK,…",
        value_delimiter = ',',
        value_parser = network
    )]
    pub(super) trusted_proxies: Vec<IpNet>,
    /// Style of the rate limit headers sent to clients [default: draft-10]
    #[arg(long, env = "TOLLGATE_HEADERS", value_enum, value_name = "STYLE")]
    pub(super) headers: Option<HeaderStyleName>,
    /// RateLimit headers in the responses of Envoy
    #[arg(long, env = "TOLLGATE_ENVOY_HEADERS", value_parser = BoolishValueParser::new())]
    pub(super) envoy_headers: bool,

    /// Maximum number of connections of all doors [default: the system's limit on open files]
    #[arg(long, env = "TOLLGATE_BOUNDS_CONNECTIONS", value_name = "N", value_parser = number_usize)]
    pub(super) bounds_connections: Option<usize>,
    /// Maximum size of a request body [default: 1MiB]
    #[arg(long, env = "TOLLGATE_BOUNDS_BODY", value_name = "SIZE", value_parser = number_usize)]
    pub(super) bounds_body: Option<usize>,
    /// Memory for request bodies that are being received, shared fairly by all clients [default: 64MiB]
    #[arg(long, env = "TOLLGATE_BOUNDS_BUFFERED_BODIES", value_name = "SIZE", value_parser = number_usize)]
    pub(super) bounds_buffered_bodies: Option<usize>,
    /// Timeout for the head of a request, and for the body of a decision call [default: 10s]
    #[arg(long, env = "TOLLGATE_BOUNDS_HEADER_TIMEOUT", value_name = "TIME", value_parser = positive_duration)]
    pub(super) bounds_header_timeout: Option<Duration>,
    /// Idle timeout of a connection [default: 5min]
    #[arg(long, env = "TOLLGATE_BOUNDS_IDLE_TIMEOUT", value_name = "TIME", value_parser = positive_duration)]
    pub(super) bounds_idle_timeout: Option<Duration>,
    /// Timeout for a client that reads nothing from its connection [default: 10s]
    #[arg(long, env = "TOLLGATE_BOUNDS_WRITE_TIMEOUT", value_name = "TIME", value_parser = positive_duration)]
    pub(super) bounds_write_timeout: Option<Duration>,
    /// Timeout for a client that takes less than 16 KiB of a response body [default: 30s]
    #[arg(long, env = "TOLLGATE_BOUNDS_STALL_TIMEOUT", value_name = "TIME", value_parser = positive_duration)]
    pub(super) bounds_stall_timeout: Option<Duration>,
    /// Maximum number of concurrent streams on an HTTP/2 connection [default: 256]
    #[arg(long, env = "TOLLGATE_BOUNDS_STREAMS", value_name = "N", value_parser = number_u16)]
    pub(super) bounds_streams: Option<u16>,
    /// Maximum number of open reservations, of which one client may have a quarter of what others
    /// leave [default: 65536]
    #[arg(long, env = "TOLLGATE_BOUNDS_RESERVATIONS", value_name = "N", value_parser = number_usize)]
    pub(super) bounds_reservations: Option<usize>,
    /// Maximum memory of open reservations, shared in the same way [default: 64MiB]
    #[arg(long, env = "TOLLGATE_BOUNDS_RESERVATION_BYTES", value_name = "SIZE", value_parser = number_usize)]
    pub(super) bounds_reservation_bytes: Option<usize>,

    /// Time between the failure of /readyz and the end of accepting connections [default: 1s]
    #[arg(long, env = "TOLLGATE_DRAIN_NOTICE", value_name = "TIME", value_parser = duration)]
    pub(super) drain_notice: Option<Duration>,
    /// Time for requests in flight to finish after that [default: 10s]
    #[arg(long, env = "TOLLGATE_DRAIN_PATIENCE", value_name = "TIME", value_parser = duration)]
    pub(super) drain_patience: Option<Duration>,

    /// Format of the logs [default: text]
    #[arg(long, env = "TOLLGATE_LOG_FORMAT", value_enum, value_name = "FORMAT")]
    pub(super) log: Option<LogFormat>,
    /// Log level: error, warn, info, debug or trace, or as tollgate=debug,warn [default: info]
    #[arg(long, env = "TOLLGATE_LOG_LEVEL", value_name = "LEVEL")]
    pub(super) log_level: Option<LogLevel>,
    /// Share of allowed decisions that are logged, from 0 to 1 [default: 0]
    #[arg(long, env = "TOLLGATE_LOG_ALLOWED", value_name = "SHARE", value_parser = share)]
    pub(super) log_allowed: Option<f64>,
    /// Share of denied decisions that are logged, from 0 to 1 [default: 0]
    #[arg(long, env = "TOLLGATE_LOG_DENIED", value_name = "SHARE", value_parser = share)]
    pub(super) log_denied: Option<f64>,
    /// OTLP/gRPC endpoint for traces, such as http://127.0.0.1:4317 [default: no traces]
    #[arg(long, env = "TOLLGATE_OTLP", value_name = "URL")]
    pub(super) otlp: Option<String>,
    /// Share of decisions that are traced, from 0 to 1 [default: 0.01]
    #[arg(long, env = "TOLLGATE_TRACE_SHARE", value_name = "SHARE", value_parser = share)]
    pub(super) trace_share: Option<f64>,
    /// Number of keys in each list of `tollgate top` [default: 1024]
    #[arg(long, env = "TOLLGATE_TOP_KEYS", value_name = "N", value_parser = number_u16)]
    pub(super) top_keys: Option<u16>,

    /// Number of threads [default: number of cores]
    #[arg(long, env = "TOLLGATE_THREADS", value_name = "N", value_parser = number_u16)]
    pub(super) threads: Option<u16>,
    /// JSON output of the addresses, in one line
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(super) json: bool,
    /// Validation of settings, rules, tokens and certificates, without starting the server
    #[arg(long, env = "TOLLGATE_CHECK", value_parser = BoolishValueParser::new())]
    pub(super) check: bool,
}

impl ServeArgs {
    /// Returns the settings of a gateway: it needs an upstream, and the gRPC and Redis-protocol
    /// doors are off unless they are given.
    pub(super) fn into_gateway(mut self) -> anyhow::Result<ServeArgs> {
        if self.gateway.to.is_empty() {
            anyhow::bail!(
                "the gateway has no upstream: give one, such as --to http://localhost:3000"
            );
        }
        self.grpc.get_or_insert(DoorAddress::Off);
        self.resp.get_or_insert(DoorAddress::Off);
        Ok(self)
    }
}
