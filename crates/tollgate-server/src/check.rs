//! Looking at what a server would be started with, without starting it.

use crate::config::{Config, StoreChoice};
use crate::doors::gateway;
use crate::net::{BindError, Tls};
use crate::server::{Server, StartError};

impl Server {
    /// Reads the rules, the certificates and what is needed to reach the store as
    /// [`Server::start`] would, and opens nothing. Blocks the thread.
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
        if let StoreChoice::Redis(options) = &config.store {
            options.check().map_err(|error| StartError::Store(error.to_string()))?;
        }
        Ok(())
    }
}
