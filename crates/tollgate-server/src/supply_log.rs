//! Warnings about attributes that rules read and an open door cannot supply.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tollgate_rules::{Door, Rules};

use crate::config::Config;

/// The maximum number of warnings about one rule set.
const MAX_WARNINGS: usize = 32;

/// The log of attributes that the doors of a server cannot supply.
#[derive(Debug)]
pub(crate) struct SupplyLog {
    doors: Vec<Door>,
    /// The groups of attributes that proxies supply by the settings of identities.
    identities: Vec<&'static str>,
    /// The warnings about the last rules; the same are not logged again when data change.
    logged: Mutex<BTreeSet<String>>,
}

impl SupplyLog {
    pub(crate) fn new(config: &Config) -> SupplyLog {
        // Forward-auth is a call of the HTTP door that many servers never get: there the first
        // request without a key is logged.
        let doors = [
            (config.http.is_some(), Door::Http),
            (config.grpc.is_some(), Door::Grpc),
            (config.resp.is_some(), Door::Resp),
            (config.gateway.is_some(), Door::Gateway),
        ];
        let open = doors.into_iter().filter(|(is_open, _)| *is_open).map(|(_, door)| door);
        let identities = [
            (config.identity.jwt.is_some(), "jwt.*"),
            (config.identity.api_keys.is_some(), "apikey.*"),
        ];
        let identities = identities.into_iter().filter(|(is_set, _)| *is_set);
        SupplyLog {
            doors: open.collect(),
            identities: identities.map(|(_, group)| group).collect(),
            logged: Mutex::default(),
        }
    }

    /// Logs the attributes that rules read and an open door cannot supply, each once.
    pub(crate) fn check(&self, rules: &Rules) {
        let mut warnings = BTreeSet::new();
        for door in &self.doors {
            for warning in rules.unsupplied(*door, &self.identities).iter() {
                let help = warning.help_text().unwrap_or_default();
                warnings.insert(format!("{}: {help}", warning.message()));
            }
        }
        let mut logged = self.logged.lock();
        for warning in warnings.iter().filter(|new| !logged.contains(*new)).take(MAX_WARNINGS) {
            tracing::warn!("{warning}");
        }
        *logged = warnings;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_remembered_until_the_rules_change() {
        let doors = vec![Door::Http, Door::Gateway];
        let log = SupplyLog { doors, identities: vec!["jwt.*"], logged: Mutex::default() };
        let rules = "attributes: [user]\nrules: [{ name: api, per: user, limit: 1/s }]";
        log.check(&rules.parse().unwrap());
        let logged: Vec<String> = log.logged.lock().iter().cloned().collect();
        let expected = "the door gateway does not supply `user`, which `per` of \"api\" reads: \
                        there, all clients share one counter";
        assert!(logged.len() == 1 && logged[0].starts_with(expected), "{logged:?}");
        log.check(&"rules: [{ name: api, per: [ip, jwt.sub], limit: 1/s }]".parse().unwrap());
        assert!(log.logged.lock().is_empty());
        log.check(&"rules: [{ name: api, per: apikey.name, limit: 1/s }]".parse().unwrap());
        assert_eq!(log.logged.lock().len(), 1, "the settings name no file of API keys");
    }
}
