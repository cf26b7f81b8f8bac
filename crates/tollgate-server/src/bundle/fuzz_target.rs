//! The fuzz target of rule bundles.

use tollgate_rules::{Request, RuleLimiter};

use super::Bundle;

/// Reads any bytes as a bundle, compiles its rules and decides a request.
///
/// A bundle that is read is written and read again without a change, and its version depends on its
/// content alone.
pub fn fuzz_bundle(bytes: &[u8]) {
    let Ok(bundle) = Bundle::decode(bytes) else { return };
    let encoded = bundle.encode().expect("a bundle that was read can be written");
    let again = Bundle::decode(&encoded.bytes).expect("a bundle that was written can be read");
    assert_eq!(again, bundle);
    assert_eq!(again.encode().expect("it can be written").version, encoded.version);
    match bundle.rules() {
        Ok(rules) => {
            let limiter = RuleLimiter::new(rules);
            let request = Request::new("POST", "/login").attribute("user", "ann");
            let decision = limiter.decide_now(&request);
            assert_eq!(decision.allowed, decision.code == 200, "{decision:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
