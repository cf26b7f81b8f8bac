//! The scripts that clients have loaded, for `EVALSHA`.

use std::sync::Arc;

use parking_lot::RwLock;

use super::ThrottleScript;

/// The maximum number of loaded scripts. Clients load a script again when the server does not know it.
const MAX_SCRIPTS: usize = 256;

/// The scripts that only call `cl.throttle`, by their SHA-1, for all connections.
#[derive(Debug, Default)]
pub(in crate::doors::resp) struct LoadedScripts(RwLock<Vec<(String, Arc<ThrottleScript>)>>);

impl LoadedScripts {
    /// Finds a script by its hash in lower case.
    pub(in crate::doors::resp) fn find(&self, sha1: &str) -> Option<Arc<ThrottleScript>> {
        let scripts = self.0.read();
        scripts.iter().find(|(known, _)| known == sha1).map(|(_, script)| script.clone())
    }

    /// Adds a script; at the bound, the oldest is removed.
    pub(in crate::doors::resp) fn add(&self, sha1: &str, script: ThrottleScript) {
        let mut scripts = self.0.write();
        if scripts.iter().any(|(known, _)| known == sha1) {
            return;
        }
        if scripts.len() >= MAX_SCRIPTS {
            scripts.remove(0);
        }
        scripts.push((sha1.to_owned(), Arc::new(script)));
    }

    /// Removes all scripts.
    pub(in crate::doors::resp) fn clear(&self) {
        self.0.write().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_scripts_is_bounded() {
        let scripts = LoadedScripts::default();
        let script = ThrottleScript::parse(b"return redis.call('cl.throttle', KEYS[1])").unwrap();
        for number in 0..1_000 {
            scripts.add(&number.to_string(), script.clone());
        }
        assert_eq!(scripts.0.read().len(), MAX_SCRIPTS);
        assert!(scripts.find("999").is_some() && scripts.find("0").is_none());
        scripts.clear();
        assert!(scripts.find("999").is_none());
    }
}
