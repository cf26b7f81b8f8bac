//! Verified identities of clients: tokens (JWT) made by PyJWT and jose, and API keys.

mod api_keys;
mod key_changes;
mod tokens;

use std::path::Path;

use serde_json::Value;
use tollgate::Clock;
use tollgate::testing::ManualClock;
use tollgate_rig::{Message, Upstream};
use tollgate_server::config::{JwtAlgorithm, JwtKeySource, JwtOptions};

use crate::programs::python;
use crate::support::{Gateway, start_with};

/// The time of tests, in seconds since 1970.
const NOW_S: u64 = 1_767_268_800;

/// Rules that answer 418 if the claims are attributes.
const KNOWN: &str = r#"
rules:
  - { name: known, when: 'jwt.sub == "ann" && jwt.plan == "pro"', then: deny 418 }
  - { name: all, limit: 1000000/s burst 1000000 }
"#;

/// Returns the tokens of PyJWT, issued at the time of tests.
fn made_tokens() -> Value {
    let printed = python("../gateway/scripts/tokens.py", &[&NOW_S.to_string()]);
    serde_json::from_str(&printed).unwrap()
}

fn write(folder: &Path, name: &str, content: &str) -> JwtKeySource {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    JwtKeySource::File(path)
}

/// Starts a gateway that verifies tokens, at the time of tests.
fn verifying(
    rules: &str,
    upstream: &Upstream,
    keys: JwtKeySource,
    algorithms: &[JwtAlgorithm],
    set_up: impl FnOnce(&mut JwtOptions),
) -> (Gateway, ManualClock) {
    let clock = ManualClock::new();
    let gateway = start_with(rules, &[&upstream.url()], |config| {
        let mut options = JwtOptions::new(keys);
        if !algorithms.is_empty() {
            options.algorithms = algorithms.to_vec();
        }
        options.issuers = vec!["https://id.example".into()];
        options.audiences = vec!["api".into()];
        set_up(&mut options);
        config.identity.jwt = Some(options);
        config.clock = Some(Clock::from(&clock));
    });
    (gateway, clock)
}

fn with_token(gateway: &Gateway, token: &str) -> Message {
    gateway.connect().get_with("/", &[("Authorization", &format!("Bearer {token}"))])
}
