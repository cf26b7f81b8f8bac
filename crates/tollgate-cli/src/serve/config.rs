//! Conversion of settings to the configuration of a server.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tollgate_server::Config;
use tollgate_server::client::parse_url;
use tollgate_server::config::read_key_secret;
use tollgate_server::net::Bind;
use tollgate_server::rules_service::Tokens;
use tollgate_server::sources::Origin;

use super::args::ServeArgs;
use super::values::{DoorAddress, SnapshotInterval};
use crate::data_folder;

/// Returns the configuration of a server, and reads the token files.
pub(super) fn config(args: &ServeArgs) -> anyhow::Result<Config> {
    let mut config = Config::default();
    let data = data(args);
    config.store = args.store.choice()?;
    config.max_keys = args.max_keys;
    config.max_memory = args.max_memory;
    match args.snapshot {
        Some(SnapshotInterval::Every(interval)) => config.snapshot = Some(interval),
        Some(SnapshotInterval::Off) => config.snapshot = None,
        None => {}
    }
    config.rules = args.rules.as_deref().map(|rules| origin(args, rules, &data)).transpose()?;
    for (name, given, bind) in [
        ("http", &args.http, &mut config.http),
        ("grpc", &args.grpc, &mut config.grpc),
        ("resp", &args.resp, &mut config.resp),
    ] {
        let tls = args.tls.options(name)?;
        match given {
            Some(DoorAddress::Off) => *bind = None,
            Some(DoorAddress::At(address)) => *bind = Some(Bind { address: address.clone(), tls }),
            None => *bind = bind.take().map(|bind| Bind { tls, ..bind }),
        }
    }
    config.gateway = args.gateway.options(args.tls.options("gateway")?)?;
    if let Some(address) = args.admin.clone() {
        config.admin = Some(Bind { address, tls: args.tls.options("admin")? });
    }
    config.admin_tokens = args.admin_tokens.as_deref().map(tokens).transpose()?;
    config.data_tokens = args.data_tokens.as_deref().map(tokens).transpose()?;
    config.key_secret = match &args.key_secret_file {
        Some(path) => Some(read_key_secret(path).context("--key-secret-file")?),
        None => None,
    };
    config.hosts = args.hosts.clone();
    config.data = Some(data);
    config.trusted_proxies = args.trusted_proxies.clone();
    if let Some(headers) = args.headers {
        config.headers = headers.into();
    }
    config.envoy_headers = args.envoy_headers;
    bounds(args, &mut config);
    telemetry(args, &mut config)?;
    Ok(config)
}

/// Returns the data folder.
pub(super) fn data(args: &ServeArgs) -> PathBuf {
    args.data.clone().unwrap_or_else(data_folder)
}

fn origin(args: &ServeArgs, rules: &str, data: &Path) -> anyhow::Result<Origin> {
    let origin = Origin::parse(rules).context("--rules")?;
    Ok(origin.token(args.rules_token.clone()).copy_folder(data))
}

fn tokens(path: &Path) -> anyhow::Result<Tokens> {
    Tokens::read(path).with_context(|| format!("cannot use the tokens in {}", path.display()))
}

fn bounds(args: &ServeArgs, config: &mut Config) {
    let (bounds, drain) = (&mut config.bounds, &mut config.drain);
    bounds.connections = args.bounds_connections;
    bounds.body = args.bounds_body.unwrap_or(bounds.body);
    bounds.buffered_bodies = args.bounds_buffered_bodies.unwrap_or(bounds.buffered_bodies);
    bounds.header_timeout = args.bounds_header_timeout.unwrap_or(bounds.header_timeout);
    bounds.idle_timeout = args.bounds_idle_timeout.unwrap_or(bounds.idle_timeout);
    bounds.write_timeout = args.bounds_write_timeout.unwrap_or(bounds.write_timeout);
    bounds.stall_timeout = args.bounds_stall_timeout.unwrap_or(bounds.stall_timeout);
    bounds.streams = args.bounds_streams.map_or(bounds.streams, u32::from);
    bounds.reservations = args.bounds_reservations.unwrap_or(bounds.reservations);
    bounds.reservation_bytes = args.bounds_reservation_bytes.unwrap_or(bounds.reservation_bytes);
    drain.notice = args.drain_notice.unwrap_or(drain.notice);
    drain.patience = args.drain_patience.unwrap_or(drain.patience);
}

fn telemetry(args: &ServeArgs, config: &mut Config) -> anyhow::Result<()> {
    let telemetry = &mut config.telemetry;
    if let Some(url) = &args.otlp {
        parse_url(url).context("--otlp")?;
        telemetry.otlp = Some(url.clone());
    }
    telemetry.trace_share = args.trace_share.unwrap_or(telemetry.trace_share);
    telemetry.log_allowed = args.log_allowed.unwrap_or(telemetry.log_allowed);
    telemetry.log_denied = args.log_denied.unwrap_or(telemetry.log_denied);
    telemetry.top_keys = args.top_keys.map_or(telemetry.top_keys, usize::from);
    Ok(())
}
