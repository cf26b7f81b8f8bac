//! The settings of a server: each is a flag, a variable and a key of `tollgate.toml`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use ipnet::IpNet;
use tollgate_server::net::Address;
use tollgate_server::secret::Secret;

use super::gateway::GatewayArgs;
use super::logs::Level;
use super::store::StoreArgs;
use super::tls::TlsArgs;
use super::values::{Door, Headers, LogFormat, network};
use crate::quantity::{duration, number, patience, share, size, small};

const SERVE_HELP: &str = "\
Settings come from flags, then from variables, then from the file `tollgate.toml`: each flag is
a key there, with _ for -; a section such as [tls] stands for the prefix tls_.

Signals: HUP reads rules, certificates and the log level again; TERM and INT go down in good
order: /readyz fails first, then nobody new is accepted, then what is under way is finished. A
second one ends it at once.

Examples:
  tollgate
  tollgate serve --rules rules/ --http 127.0.0.1:8080 --grpc off --resp off
  tollgate serve --rules rules/ --store redis://cache.example:6379
  tollgate serve --http unix:/run/tollgate/http.sock
  tollgate serve --http 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem --data-tokens tokens
  tollgate serve --check                      is everything right? starts nothing";

#[derive(Args, Clone, Debug)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ServeArgs {
    /// The file of settings; tollgate.toml in this folder if there is one
    #[arg(long, env = "TOLLGATE_CONFIG", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// Rules: a file, a folder, or a URL such as a rules service's /v1/rules/bundle. Without it
    /// they are in the data folder, a sample at first, and changed by `tollgate rules put`
    #[arg(long, env = "TOLLGATE_RULES", value_name = "FILE|DIR|URL")]
    pub(super) rules: Option<String>,
    /// The token to present where the rules come from a URL
    #[arg(long, env = "TOLLGATE_RULES_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(super) rules_token: Option<Secret>,
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// The folder of the rules database and the tokens, made if need be; systemd's state
    /// directory, or tollgate-data
    #[arg(long, env = "TOLLGATE_DATA", value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// How many keys the memory store holds: 16M
    #[arg(long, env = "TOLLGATE_MAX_KEYS", value_name = "N", value_parser = number)]
    pub(super) max_keys: Option<u64>,

    /// The HTTP door: 127.0.0.1:8080; unix:PATH, or off
    #[arg(long, env = "TOLLGATE_HTTP", value_name = "ADDR")]
    pub(super) http: Option<Door>,
    /// The gRPC door, Envoy's rate limit service: 127.0.0.1:8081; unix:PATH, or off
    #[arg(long, env = "TOLLGATE_GRPC", value_name = "ADDR")]
    pub(super) grpc: Option<Door>,
    /// The door of the Redis protocol: 127.0.0.1:6380; unix:PATH, or off
    #[arg(long, env = "TOLLGATE_RESP", value_name = "ADDR")]
    pub(super) resp: Option<Door>,
    /// An address of its own for the admin API; on the HTTP door without it
    #[arg(long, env = "TOLLGATE_ADMIN", value_name = "ADDR")]
    pub(super) admin: Option<Address>,

    #[command(flatten)]
    pub(super) gateway: GatewayArgs,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    /// A file of tokens for the admin API, one a line as name:token or name:token:role; those of
    /// the data folder without it
    #[arg(long, env = "TOLLGATE_ADMIN_TOKENS", value_name = "FILE")]
    pub(super) admin_tokens: Option<PathBuf>,
    /// A file of tokens for whoever asks for decisions; everybody may without it
    #[arg(long, env = "TOLLGATE_DATA_TOKENS", value_name = "FILE")]
    pub(super) data_tokens: Option<PathBuf>,
    /// Networks of proxies whose X-Forwarded-* headers forward-auth and the gateway believe
    #[arg(
        long,
        env = "TOLLGATE_TRUSTED_PROXIES",
        value_name = "NETWORK,…",
        value_delimiter = ',',
        value_parser = network
    )]
    pub(super) trusted_proxies: Vec<IpNet>,
    /// Which headers tell clients about their limits: draft-10
    #[arg(long, env = "TOLLGATE_HEADERS", value_enum, value_name = "STYLE")]
    pub(super) headers: Option<Headers>,
    /// Have Envoy add RateLimit headers to its answers
    #[arg(long, env = "TOLLGATE_ENVOY_HEADERS", value_parser = BoolishValueParser::new())]
    pub(super) envoy_headers: bool,

    /// Connections at once; as many as the system allows files without it
    #[arg(long, env = "TOLLGATE_BOUNDS_CONNECTIONS", value_name = "N", value_parser = size)]
    pub(super) bounds_connections: Option<usize>,
    /// The largest body of a call: 1MiB
    #[arg(long, env = "TOLLGATE_BOUNDS_BODY", value_name = "SIZE", value_parser = size)]
    pub(super) bounds_body: Option<usize>,
    /// How long the head of a request may take: 10s
    #[arg(long, env = "TOLLGATE_BOUNDS_HEADER_TIMEOUT", value_name = "TIME", value_parser = patience)]
    pub(super) bounds_header_timeout: Option<Duration>,
    /// How long a connection may say nothing: 5min
    #[arg(long, env = "TOLLGATE_BOUNDS_IDLE_TIMEOUT", value_name = "TIME", value_parser = patience)]
    pub(super) bounds_idle_timeout: Option<Duration>,
    /// How long a client may take to read an answer: 10s
    #[arg(long, env = "TOLLGATE_BOUNDS_WRITE_TIMEOUT", value_name = "TIME", value_parser = patience)]
    pub(super) bounds_write_timeout: Option<Duration>,
    /// Streams at once on one HTTP/2 connection: 256
    #[arg(long, env = "TOLLGATE_BOUNDS_STREAMS", value_name = "N", value_parser = small)]
    pub(super) bounds_streams: Option<u16>,

    /// How long it goes on while /readyz already fails: 1s
    #[arg(long, env = "TOLLGATE_DRAIN_NOTICE", value_name = "TIME", value_parser = duration)]
    pub(super) drain_notice: Option<Duration>,
    /// How long what is under way may take after that: 10s
    #[arg(long, env = "TOLLGATE_DRAIN_PATIENCE", value_name = "TIME", value_parser = duration)]
    pub(super) drain_patience: Option<Duration>,

    /// How logs are written: text
    #[arg(long, env = "TOLLGATE_LOG_FORMAT", value_enum, value_name = "FORMAT")]
    pub(super) log: Option<LogFormat>,
    /// What is logged: error, warn, info, debug or trace, or as tollgate=debug,warn
    #[arg(long, env = "TOLLGATE_LOG_LEVEL", value_name = "LEVEL")]
    pub(super) log_level: Option<Level>,
    /// The share of allowed decisions that are logged, from 0 to 1: 0
    #[arg(long, env = "TOLLGATE_LOG_ALLOWED", value_name = "SHARE", value_parser = share)]
    pub(super) log_allowed: Option<f64>,
    /// The share of refused decisions that are logged: 0
    #[arg(long, env = "TOLLGATE_LOG_DENIED", value_name = "SHARE", value_parser = share)]
    pub(super) log_denied: Option<f64>,
    /// Where traces are sent by OTLP over gRPC, such as http://127.0.0.1:4317
    #[arg(long, env = "TOLLGATE_OTLP", value_name = "URL")]
    pub(super) otlp: Option<String>,
    /// The share of decisions that are traced: 0.01
    #[arg(long, env = "TOLLGATE_TRACE_SHARE", value_name = "SHARE", value_parser = share)]
    pub(super) trace_share: Option<f64>,
    /// How many keys each list of `tollgate top` remembers: 1024
    #[arg(long, env = "TOLLGATE_TOP_KEYS", value_name = "N", value_parser = small)]
    pub(super) top_keys: Option<u16>,

    /// Threads that serve; as many as there are cores without it
    #[arg(long, env = "TOLLGATE_THREADS", value_name = "N", value_parser = small)]
    pub(super) threads: Option<u16>,
    /// Say where it listens in one line of JSON
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(super) json: bool,
    /// Look at settings, rules, tokens and certificates, and start nothing
    #[arg(long, env = "TOLLGATE_CHECK", value_parser = BoolishValueParser::new())]
    pub(super) check: bool,
}

impl ServeArgs {
    /// A gateway needs somewhere to send requests; of the other doors it opens the one for people
    /// who run it, unless told otherwise.
    pub(super) fn into_gateway(mut self) -> anyhow::Result<ServeArgs> {
        if self.gateway.to.is_empty() {
            anyhow::bail!("where to? give --to http://localhost:3000");
        }
        self.grpc.get_or_insert(Door::Off);
        self.resp.get_or_insert(Door::Off);
        Ok(self)
    }
}
