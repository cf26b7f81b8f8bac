//! `Server::check`: validates a configuration without starting the server.

use crate::config::{Config, StoreChoice};
use crate::doors::gateway;
use crate::identity::IdentitySources;
use crate::net::{BindError, Tls};
use crate::server::{Server, StartError};

impl Server {
    /// Validates the rules, the certificates and the store options of a configuration.
    ///
    /// The method reads the same files as [`Server::start`], opens no socket, and blocks the thread.
    pub fn check(config: &Config) -> Result<(), StartError> {
        if let Some(origin) = &config.rules {
            let opened = origin.clone().open()?;
            if let Some(options) = &config.gateway {
                gateway::check(options, opened.rules())?;
            }
        }
        let doors = [&config.http, &config.grpc, &config.resp, &config.admin];
        let gateway = config.gateway.as_ref().map(|gateway| &gateway.listen);
        for tls in doors.into_iter().flatten().chain(gateway).filter_map(|bind| bind.tls.as_ref()) {
            Tls::load(tls, &[]).map_err(BindError::from)?;
        }
        IdentitySources::check(&config.identity)?;
        if let StoreChoice::Redis(options) = &config.store {
            options.check().map_err(|error| StartError::Store(error.to_string()))?;
        }
        Ok(())
    }
}
