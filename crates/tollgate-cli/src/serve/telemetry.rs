//! The settings of logs, traces and the list of busiest keys.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tollgate_server::Config;
use tollgate_server::client::parse_url;
use tollgate_server::config::StatsdAddress;

use super::logging::LogLevel;
use super::values::LogFormat;
use crate::quantity::{number_u16, positive_duration, share};

/// The settings of logs, traces and the list of busiest keys.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logs and traces")]
pub(crate) struct TelemetryArgs {
    /// Format of the logs
    #[arg(
        long,
        env = "TOLLGATE_LOG_FORMAT",
        value_enum,
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub(super) log: LogFormat,
    /// Log level: error, warn, info, debug or trace, or as tollgate=debug,warn
    #[arg(long, env = "TOLLGATE_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub(super) log_level: LogLevel,
    /// Share of allowed decisions that are logged, from 0 to 1
    #[arg(
        long,
        env = "TOLLGATE_LOG_ALLOWED",
        value_name = "SHARE",
        value_parser = share,
        default_value = "0"
    )]
    log_allowed: f64,
    /// Share of denied decisions that are logged, from 0 to 1
    #[arg(
        long,
        env = "TOLLGATE_LOG_DENIED",
        value_name = "SHARE",
        value_parser = share,
        default_value = "0"
    )]
    log_denied: f64,
    /// OTLP/gRPC endpoint for traces, such as http://127.0.0.1:4317 [default: no traces]
    #[arg(long, env = "TOLLGATE_OTLP", value_name = "URL")]
    otlp: Option<String>,
    /// Share of decisions that are traced, from 0 to 1
    #[arg(
        long,
        env = "TOLLGATE_TRACE_SHARE",
        value_name = "SHARE",
        value_parser = share,
        default_value = "0.01",
        hide_short_help = true
    )]
    trace_share: f64,
    /// Number of keys in each list of `tollgate top`
    #[arg(
        long,
        env = "TOLLGATE_TOP_KEYS",
        value_name = "N",
        value_parser = number_u16,
        default_value = "1024",
        hide_short_help = true
    )]
    top_keys: u16,
    /// Statsd server for the statistics of envoyproxy/ratelimit files, HOST:PORT (TCP) or
    /// udp://HOST:PORT [default: none; /metrics has them too]
    #[arg(long, env = "TOLLGATE_STATSD", value_name = "ADDR", hide_short_help = true)]
    statsd: Option<StatsdAddress>,
    /// Time between two reports to the statsd server
    #[arg(
        long,
        env = "TOLLGATE_STATSD_INTERVAL",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "10s",
        hide_short_help = true
    )]
    statsd_interval: Duration,
}

impl TelemetryArgs {
    /// Sets the telemetry of a server.
    pub(super) fn apply(&self, config: &mut Config) -> anyhow::Result<()> {
        let telemetry = &mut config.telemetry;
        if let Some(url) = &self.otlp {
            parse_url(url).context("--otlp")?;
            telemetry.otlp = Some(url.clone());
        }
        telemetry.trace_share = self.trace_share;
        telemetry.log_allowed = self.log_allowed;
        telemetry.log_denied = self.log_denied;
        telemetry.top_keys = self.top_keys.into();
        telemetry.statsd = self.statsd.clone();
        telemetry.statsd_interval = self.statsd_interval;
        Ok(())
    }
}
