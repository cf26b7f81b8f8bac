//! The arguments of `tollgate bench`.

use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use tollgate_server::net::Address;
use tollgate_server::secret::Secret;

use crate::ask::pair;
use crate::quantity::{number, patience, small};

const BENCH_HELP: &str = "\
Every request is about one of --keys keys, chosen at random. In a value of an attribute, {} stands
for the number of the key and {ip} for an address of its own. Without --limit and --domain, a limit
of 1k/s comes along (HTTP, RESP), or the domain demo is asked about remote_address={ip} (gRPC).

With --rate, requests start at their times whatever became of those before, and how long one took
is counted from when it should have started: a server that stalls is not let off. Without it, every
connection asks again as soon as it was answered.

Examples:
  tollgate bench                                       HTTP, 50 connections, 10 seconds
  tollgate bench --door resp --pipeline 16
  tollgate bench --door resp --rate 50k --duration 30s
  tollgate bench --domain demo ip={ip} route='POST /login'
  tollgate bench --door grpc --to 127.0.0.1:8081 --json

Exit codes: 0 fine, whatever was denied; 1 some requests failed; 2 error.";

#[derive(Args, Debug)]
#[command(after_help = BENCH_HELP)]
pub(crate) struct BenchArgs {
    /// Which door
    #[arg(long, env = "TOLLGATE_BENCH_DOOR", value_enum, default_value_t = Door::Http)]
    pub(super) door: Door,
    /// Where it is: the door's usual port on this machine; unix:PATH
    #[arg(long, env = "TOLLGATE_BENCH_TO", value_name = "ADDR")]
    pub(super) to: Option<Address>,
    /// Connections at once
    #[arg(
        long,
        short,
        env = "TOLLGATE_BENCH_CONNECTIONS",
        value_name = "N",
        default_value = "50",
        value_parser = small
    )]
    pub(super) connections: u16,
    /// Requests under way on each: 1; for RESP without --rate 16, for gRPC 10
    #[arg(long, short, env = "TOLLGATE_BENCH_PIPELINE", value_name = "N", value_parser = small)]
    pub(super) pipeline: Option<u16>,
    /// For how long
    #[arg(
        long,
        short,
        env = "TOLLGATE_BENCH_DURATION",
        value_name = "TIME",
        default_value = "10s",
        value_parser = patience
    )]
    pub(super) duration: Duration,
    /// So many requests instead, however long they take
    #[arg(
        long,
        short = 'n',
        env = "TOLLGATE_BENCH_REQUESTS",
        value_name = "N",
        value_parser = number
    )]
    pub(super) requests: Option<u64>,
    /// So many requests a second, instead of as many as can be
    #[arg(long, env = "TOLLGATE_BENCH_RATE", value_name = "N", value_parser = number)]
    pub(super) rate: Option<u64>,
    /// How many keys
    #[arg(
        long,
        env = "TOLLGATE_BENCH_KEYS",
        value_name = "N",
        default_value = "100k",
        value_parser = keys
    )]
    pub(super) keys: u32,
    /// The limit each key is asked about with
    #[arg(long, env = "TOLLGATE_BENCH_LIMIT", conflicts_with = "domain")]
    pub(super) limit: Option<String>,
    /// The domain whose rules decide
    #[arg(long, env = "TOLLGATE_BENCH_DOMAIN")]
    pub(super) domain: Option<String>,
    /// What is known about each request, with --domain
    #[arg(value_name = "NAME=VALUE", requires = "domain", value_parser = pair)]
    pub(super) attributes: Vec<(String, String)>,
    /// The process whose CPU time is told; found by its port if it is on this machine
    #[arg(long, env = "TOLLGATE_BENCH_PID")]
    pub(super) pid: Option<u32>,
    /// Threads that ask; half as many as there are cores without it
    #[arg(long, env = "TOLLGATE_BENCH_THREADS", value_name = "N", value_parser = small)]
    pub(super) threads: Option<u16>,
    /// The token to present, if the door wants one
    #[arg(long, env = "TOLLGATE_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(super) token: Option<Secret>,
    /// Answer in JSON
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(super) json: bool,
}

/// A way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Door {
    /// POST /v1/limit or /v1/check
    Http,
    /// Envoy's ShouldRateLimit
    Grpc,
    /// TG.LIMIT or TG.CHECK
    Resp,
}

impl Door {
    pub(super) fn name(self) -> &'static str {
        match self {
            Door::Http => "http",
            Door::Grpc => "grpc",
            Door::Resp => "resp",
        }
    }

    pub(super) fn usual_port(self) -> u16 {
        match self {
            Door::Http => 8080,
            Door::Grpc => 8081,
            Door::Resp => 6380,
        }
    }
}

/// As many as there are addresses for.
fn keys(text: &str) -> Result<u32, String> {
    let most = super::message::MOST_KEYS;
    let keys = number(text)?;
    u32::try_from(keys).ok().filter(|keys| *keys <= most).ok_or(format!("at most {most} keys"))
}
