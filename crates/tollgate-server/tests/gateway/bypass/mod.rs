//! One caller, one bucket: whatever a client writes into its request, it is counted where it was
//! counted before, and the upstream is asked for what was decided on.

mod addresses;
mod corpus;
mod fields;
mod paths;
mod upstreams;

use tollgate_rig::Upstream;

use crate::support::Gateway;

/// Header fields of a request.
type Fields<'f> = &'f [(&'f str, &'f str)];

/// Sends one request after the other, each on a connection of its own; how many passed. All that
/// passed were seen upstream, and nothing else was.
fn passed(gateway: &Gateway, upstream: &Upstream, requests: &[(&str, &str, Fields<'_>)]) -> usize {
    let before = upstream.count();
    let mut passed = 0;
    for (method, target, fields) in requests {
        let answer = gateway.connect().send(method, target, fields, "");
        match answer.status() {
            200 => passed += 1,
            400 | 429 => {}
            other => panic!("{method} {target} {fields:?}: {other} {answer:?}"),
        }
    }
    assert_eq!(upstream.count() - before, passed);
    passed
}
