//! The gateway: where requests come in, and where they go.

use anyhow::bail;
use clap::Args;
use tollgate_server::config::{GatewayOptions, UpstreamUrl};
use tollgate_server::net::{Address, Bind, TlsOptions};

/// The gateway: where requests come in, and where they go.
#[derive(Args, Clone, Debug)]
pub(crate) struct GatewayArgs {
    /// Where the gateway sends requests on to, such as http://localhost:3000; several share them
    #[arg(long, env = "TOLLGATE_TO", value_name = "URL,…", value_delimiter = ',')]
    pub(super) to: Vec<UpstreamUrl>,
    /// Where the gateway listens: 127.0.0.1:8000
    #[arg(long, env = "TOLLGATE_LISTEN", value_name = "ADDR")]
    pub(super) listen: Option<Address>,
    /// Whose rules the gateway follows, if there are several domains
    #[arg(long, env = "TOLLGATE_DOMAIN", value_name = "DOMAIN")]
    pub(super) domain: Option<String>,
}

impl GatewayArgs {
    /// What they ask for; nothing without an upstream.
    pub(super) fn options(
        &self,
        tls: Option<TlsOptions>,
    ) -> anyhow::Result<Option<GatewayOptions>> {
        if self.to.is_empty() {
            if self.listen.is_some() {
                bail!("--listen needs --to: give where requests go, as http://localhost:3000");
            }
            return Ok(None);
        }
        let mut options = GatewayOptions::to(self.to.clone());
        let address = self.listen.clone().unwrap_or_else(|| options.listen.address.clone());
        options.listen = Bind { address, tls };
        options.domain = self.domain.clone();
        Ok(Some(options))
    }
}
