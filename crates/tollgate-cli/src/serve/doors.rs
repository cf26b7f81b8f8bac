//! The settings of the listeners, and of what clients see there.

use clap::Args;
use clap::builder::BoolishValueParser;
use ipnet::IpNet;
use tollgate_server::Config;
use tollgate_server::net::{Address, Bind};

use super::tls::TlsArgs;
use super::values::{DoorAddress, HeaderStyleName, network};

/// The settings of the listeners, and of what clients see there.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Doors (HOST:PORT, :PORT on 127.0.0.1, unix:PATH or off)")]
pub(crate) struct DoorArgs {
    /// Address of the HTTP listener
    #[arg(long, env = "TOLLGATE_HTTP", value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub(super) http: DoorAddress,
    /// Address of the gRPC listener: Envoy's rate limit service
    #[arg(long, env = "TOLLGATE_GRPC", value_name = "ADDR", default_value = "127.0.0.1:8081")]
    pub(super) grpc: DoorAddress,
    /// Address of the Redis-protocol listener
    #[arg(long, env = "TOLLGATE_RESP", value_name = "ADDR", default_value = "127.0.0.1:6380")]
    pub(super) resp: DoorAddress,
    /// Address of a separate listener for the admin API [default: the HTTP listener]
    #[arg(long, env = "TOLLGATE_ADMIN", value_name = "ADDR")]
    pub(super) admin: Option<Address>,
    /// Style of the rate limit headers sent to clients
    #[arg(
        long,
        env = "TOLLGATE_HEADERS",
        value_enum,
        value_name = "STYLE",
        default_value = "draft-10"
    )]
    pub(super) headers: HeaderStyleName,
    /// RateLimit headers in the responses of Envoy, also in the styles draft-6 and legacy; the style
    /// envoy-03 needs no other setting
    #[arg(long, env = "TOLLGATE_ENVOY_HEADERS", value_parser = BoolishValueParser::new())]
    pub(super) envoy_headers: bool,
    /// Networks of proxies whose X-Forwarded-* headers forward-auth and the gateway trust
    #[arg(
        long,
        env = "TOLLGATE_TRUSTED_PROXIES",
        value_name = "NETWORK,…",
        value_delimiter = ',',
        value_parser = network
    )]
    pub(super) trusted_proxies: Vec<IpNet>,
    /// Host names accepted from clients on this machine, besides names without a dot, *.localhost and
    /// addresses
    #[arg(
        long,
        env = "TOLLGATE_HOSTS",
        value_name = "NAME,…",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub(super) hosts: Vec<String>,
}

impl DoorArgs {
    /// Sets the listeners of a server.
    pub(super) fn apply(&self, tls: &TlsArgs, config: &mut Config) -> anyhow::Result<()> {
        for (name, address, bind) in [
            ("http", &self.http, &mut config.http),
            ("grpc", &self.grpc, &mut config.grpc),
            ("resp", &self.resp, &mut config.resp),
        ] {
            let tls = tls.options(name)?;
            *bind = match address {
                DoorAddress::Off => None,
                DoorAddress::At(address) => Some(Bind { address: address.clone(), tls }),
            };
        }
        if let Some(address) = self.admin.clone() {
            config.admin = Some(Bind { address, tls: tls.options("admin")? });
        }
        config.headers = self.headers.into();
        config.envoy_headers = self.envoy_headers;
        config.trusted_proxies = self.trusted_proxies.clone();
        config.hosts = self.hosts.clone();
        Ok(())
    }
}
