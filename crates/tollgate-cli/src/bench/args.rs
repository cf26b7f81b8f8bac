//! The arguments of `tollgate bench`.

use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use tollgate_server::net::Address;
use tollgate_server::secret::Secret;

use crate::quantity::{number, number_u16, positive_duration};
use crate::service_client::parse_pair;

const BENCH_HELP: &str = "\
Each request has one of --keys keys, chosen at random. In the value of an attribute, {} stands for
the number of the key and {ip} for its address. Without --limit and --domain, requests have an inline
limit of 1k/s (HTTP, RESP), or the domain demo and remote_address={ip} (gRPC).

With --rate, requests start on schedule even if earlier ones are unanswered, and latency counts from
the scheduled start, so that a stalled server shows. Without it, each connection sends the next
request as soon as it has a response.

Examples:
  tollgate bench                                       HTTP, 50 connections, 10 seconds
  tollgate bench --door resp --pipeline 16
  tollgate bench --door resp --rate 50k --duration 30s
  tollgate bench --domain demo ip={ip} route='POST /login'
  tollgate bench --door grpc --to 127.0.0.1:8081 --json

Exit codes: 0 success, even if requests were denied; 1 some requests failed; 2 error.";

/// The arguments of `tollgate bench`.
#[derive(Args, Debug)]
#[command(after_help = BENCH_HELP)]
pub(crate) struct BenchArgs {
    /// Door to measure
    #[arg(long, value_enum, default_value_t = BenchDoor::Http)]
    pub(super) door: BenchDoor,
    /// Address of the door, or unix:PATH [default: the door's default port on this machine]
    #[arg(long, value_name = "ADDR")]
    pub(super) to: Option<Address>,
    /// Number of connections
    #[arg(
        long,
        short,
        value_name = "N",
        default_value = "50",
        value_parser = number_u16
    )]
    pub(super) connections: u16,
    /// Requests in flight per connection [default: 1; without --rate 16 for RESP, 10 for gRPC]
    #[arg(long, short, value_name = "N", value_parser = number_u16)]
    pub(super) pipeline: Option<u16>,
    /// Duration of the measurement
    #[arg(
        long,
        short,
        value_name = "TIME",
        default_value = "10s",
        value_parser = positive_duration
    )]
    pub(super) duration: Duration,
    /// Number of requests, instead of a duration
    #[arg(
        long,
        short = 'n',
        value_name = "N",
        value_parser = number
    )]
    pub(super) requests: Option<u64>,
    /// Requests per second [default: as many as possible]
    #[arg(long, value_name = "N", value_parser = number)]
    pub(super) rate: Option<u64>,
    /// Number of keys
    #[arg(
        long,
        value_name = "N",
        default_value = "100k",
        value_parser = keys
    )]
    pub(super) keys: u32,
    /// Inline limit of each key
    #[arg(long, conflicts_with = "domain")]
    pub(super) limit: Option<String>,
    /// Domain whose rules decide
    #[arg(long)]
    pub(super) domain: Option<String>,
    /// Attributes of each request, with --domain
    #[arg(value_name = "NAME=VALUE", requires = "domain", value_parser = parse_pair)]
    pub(super) attributes: Vec<(String, String)>,
    /// Process whose CPU time is reported [default: the one that listens on the port]
    #[arg(long)]
    pub(super) pid: Option<u32>,
    /// Number of client threads [default: half the number of cores]
    #[arg(long, value_name = "N", value_parser = number_u16)]
    pub(super) threads: Option<u16>,
    /// Token for the door
    #[arg(long, env = "TOLLGATE_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(super) token: Option<Secret>,
    /// JSON output
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(super) json: bool,
}

/// A door that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum BenchDoor {
    /// POST /v1/limit or /v1/check
    Http,
    /// Envoy's ShouldRateLimit
    Grpc,
    /// TG.LIMIT or TG.CHECK
    Resp,
}

impl BenchDoor {
    pub(super) fn name(self) -> &'static str {
        match self {
            BenchDoor::Http => "http",
            BenchDoor::Grpc => "grpc",
            BenchDoor::Resp => "resp",
        }
    }

    pub(super) fn default_port(self) -> u16 {
        match self {
            BenchDoor::Http => 8080,
            BenchDoor::Grpc => 8081,
            BenchDoor::Resp => 6380,
        }
    }
}

/// Parses the number of keys; each needs its own address.
fn keys(text: &str) -> Result<u32, String> {
    let max = super::request_template::MAX_KEYS;
    let keys = number(text)?;
    u32::try_from(keys).ok().filter(|keys| *keys <= max).ok_or(format!("at most {max} keys"))
}
