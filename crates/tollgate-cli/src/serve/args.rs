//! The settings of a server: each is a flag, an environment variable and a key of `tollgate.toml`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;
use tollgate_server::secret::Secret;

use super::access::AccessArgs;
use super::bounds::BoundsArgs;
use super::doors::DoorArgs;
use super::gateway::GatewayArgs;
use super::jwt::IdentityArgs;
use super::store::StoreArgs;
use super::telemetry::TelemetryArgs;
use super::tls::TlsArgs;
use crate::quantity::number_u16;

const SERVE_HELP: &str = "\
Settings come from flags, then from environment variables, then from the file `tollgate.toml`: the
variable of --drain-notice is TOLLGATE_DRAIN_NOTICE (that of --log is TOLLGATE_LOG_FORMAT), and its key
is drain_notice; a section such as [tls] stands for the prefix tls_.

Signals: HUP reloads rules, certificates and the log level. TERM and INT drain: /readyz fails first,
then new connections are refused, then requests in flight finish. A second signal stops at once.

Examples:
  tollgate
  tollgate serve --rules rules/ --http :8080 --grpc off --resp off
  tollgate serve --rules rules/ --store redis://cache.example:6379
  tollgate serve --http unix:/run/tollgate/http.sock
  tollgate serve --http 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem --data-tokens tokens
  tollgate serve --check                      validation only; starts nothing

-h shows the most frequent settings, --help all of them.";

/// The arguments of `tollgate serve` and `tollgate gateway`.
#[derive(Args, Clone, Debug)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ServeArgs {
    /// File of settings [default: tollgate.toml in this folder, if it exists]
    #[arg(long, env = "TOLLGATE_CONFIG", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Number of threads [default: number of cores]
    #[arg(long, env = "TOLLGATE_THREADS", value_name = "N", value_parser = number_u16)]
    pub(super) threads: Option<u16>,
    /// JSON output of the addresses, in one line
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(super) json: bool,
    /// Validation of settings, rules, tokens and certificates, without starting the server
    #[arg(long)]
    pub(super) check: bool,

    /// File, folder or URL of the rules, such as the /v1/rules/bundle of a rules service [default:
    /// tollgate.yaml in this folder, if it exists; otherwise rules in the data folder, a sample at
    /// first, changed by `tollgate rules put`]
    #[arg(long, env = "TOLLGATE_RULES", value_name = "FILE|DIR|URL", help_heading = "Rules")]
    pub(super) rules: Option<String>,
    /// Token for the URL of the rules
    #[arg(
        long,
        env = "TOLLGATE_RULES_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true,
        help_heading = "Rules"
    )]
    pub(super) rules_token: Option<Secret>,
    /// Several files of envoyproxy/ratelimit for one domain are merged (its MERGE_DOMAIN_CONFIG)
    #[arg(
        long,
        env = "TOLLGATE_ENVOY_MERGE_DOMAINS",
        value_parser = BoolishValueParser::new(),
        help_heading = "Rules",
        hide_short_help = true
    )]
    pub(super) envoy_merge_domains: bool,

    #[command(flatten)]
    pub(super) doors: DoorArgs,
    #[command(flatten)]
    pub(super) store: StoreArgs,
    #[command(flatten)]
    pub(super) gateway: GatewayArgs,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    #[command(flatten)]
    pub(super) identity: IdentityArgs,
    #[command(flatten)]
    pub(super) access: AccessArgs,
    #[command(flatten)]
    pub(super) bounds: BoundsArgs,
    #[command(flatten)]
    pub(super) telemetry: TelemetryArgs,
}

impl ServeArgs {
    /// Returns the settings of a gateway, which needs an upstream.
    pub(super) fn into_gateway(self) -> anyhow::Result<ServeArgs> {
        if self.gateway.to.is_empty() {
            anyhow::bail!("the gateway has no upstream: give one, such as --to localhost:3000");
        }
        Ok(self)
    }
}
