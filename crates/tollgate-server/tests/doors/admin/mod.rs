//! The admin API, metrics and telemetry, through real sockets.

mod bans;
mod client;
mod envoy_endpoints;
mod keys;
mod ladder;
mod metrics;
mod modes;
mod openapi;
mod rule_origins;
mod secrets;
mod stalled_disk;
mod tail;
mod telemetry;
mod tokens;

const API: &str =
    "domain: shop\nattributes: [user]\nrules: [{ name: api, per: user, limit: 2/h }]\n";
