//! The settings of the resources that clients may use, and of the drain.

use std::time::Duration;

use clap::Args;
use tollgate_server::Config;

use crate::quantity::{duration, number_u16, number_usize, positive_duration};

/// The settings of the resources that clients may use, and of the drain.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Bounds and drain")]
pub(crate) struct BoundsArgs {
    /// Maximum number of connections of all doors [default: the system's limit on open files]
    #[arg(long, env = "TOLLGATE_BOUNDS_CONNECTIONS", value_name = "N", value_parser = number_usize)]
    bounds_connections: Option<usize>,
    /// Maximum size of a request body
    #[arg(
        long,
        env = "TOLLGATE_BOUNDS_BODY",
        value_name = "SIZE",
        value_parser = number_usize,
        default_value = "1MiB"
    )]
    bounds_body: usize,
    /// Memory for request bodies that are being received, shared fairly by all clients
    #[arg(
        long,
        env = "TOLLGATE_BOUNDS_BUFFERED_BODIES",
        value_name = "SIZE",
        value_parser = number_usize,
        default_value = "64MiB",
        hide_short_help = true
    )]
    bounds_buffered_bodies: usize,
    /// Timeout for the head of a request, and for the body of a decision call
    #[arg(
        long,
        env = "TOLLGATE_BOUNDS_HEADER_TIMEOUT",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "10s",
        hide_short_help = true
    )]
    bounds_header_timeout: Duration,
    /// Idle timeout of a connection
    #[arg(
        long,
        env = "TOLLGATE_BOUNDS_IDLE_TIMEOUT",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "5min",
        hide_short_help = true
    )]
    bounds_idle_timeout: Duration,
    /// Timeout for a client that reads nothing from its connection
    #[arg(
        long,
        env = "TOLLGATE_BOUNDS_WRITE_TIMEOUT",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "10s",
        hide_short_help = true
    )]
    bounds_write_timeout: Duration,
    /// Timeout for a client that takes less than 16 KiB of a response body
    #[arg(
        long,
        env = "TOLLGATE_BOUNDS_STALL_TIMEOUT",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "30s",
        hide_short_help = true
    )]
    bounds_stall_timeout: Duration,
    /// Maximum number of concurrent streams on an HTTP/2 connection
    #[arg(
        long,
        env = "TOLLGATE_BOUNDS_STREAMS",
        value_name = "N",
        value_parser = number_u16,
        default_value = "256",
        hide_short_help = true
    )]
    bounds_streams: u16,
    /// Maximum number of open reservations, of which one client may have a quarter of what others
    /// leave
    #[arg(
        long,
        env = "TOLLGATE_BOUNDS_RESERVATIONS",
        value_name = "N",
        value_parser = number_usize,
        default_value = "65536",
        hide_short_help = true
    )]
    bounds_reservations: usize,
    /// Maximum memory of open reservations, shared in the same way
    #[arg(
        long,
        env = "TOLLGATE_BOUNDS_RESERVATION_BYTES",
        value_name = "SIZE",
        value_parser = number_usize,
        default_value = "64MiB",
        hide_short_help = true
    )]
    bounds_reservation_bytes: usize,
    /// Time between the failure of /readyz and the end of accepting connections
    #[arg(
        long,
        env = "TOLLGATE_DRAIN_NOTICE",
        value_name = "TIME",
        value_parser = duration,
        default_value = "1s"
    )]
    drain_notice: Duration,
    /// Time for requests in flight to finish after that
    #[arg(
        long,
        env = "TOLLGATE_DRAIN_PATIENCE",
        value_name = "TIME",
        value_parser = duration,
        default_value = "10s"
    )]
    drain_patience: Duration,
}

impl BoundsArgs {
    /// Sets the bounds and the drain of a server.
    pub(super) fn apply(&self, config: &mut Config) {
        let (bounds, drain) = (&mut config.bounds, &mut config.drain);
        bounds.connections = self.bounds_connections;
        bounds.body = self.bounds_body;
        bounds.buffered_bodies = self.bounds_buffered_bodies;
        bounds.header_timeout = self.bounds_header_timeout;
        bounds.idle_timeout = self.bounds_idle_timeout;
        bounds.write_timeout = self.bounds_write_timeout;
        bounds.stall_timeout = self.bounds_stall_timeout;
        bounds.streams = self.bounds_streams.into();
        bounds.reservations = self.bounds_reservations;
        bounds.reservation_bytes = self.bounds_reservation_bytes;
        drain.notice = self.drain_notice;
        drain.patience = self.drain_patience;
    }
}
