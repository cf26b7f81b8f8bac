//! A gateway whose process has no file descriptor left. Alone in its file, because the limit concerns
//! the whole process.

#[path = "gateway/support.rs"]
#[allow(dead_code, reason = "the tests of the gateway use the rest")]
mod support;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollgate_rig::{Upstream, until};

use support::{OPEN, start};

#[test]
fn a_gateway_without_descriptors_does_not_blame_its_upstreams() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    let mut client = gateway.connect();
    until("the client is connected", || gateway.connections() == 1);
    // Open files stay open, but no further one can be opened.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
    let refused = client.get("/");
    setrlimit(Resource::Nofile, limit).unwrap();

    assert_eq!(refused.status(), 503);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    let text = refused.text();
    assert!(text.contains("gateway-overloaded") && text.contains("file descriptor"), "{text}");
    let healthy = format!("tollgate_gateway_upstream_healthy{{upstream=\"{}\"}}", upstream.url());
    assert_eq!(gateway.metric(&healthy), 1, "it was not even asked");
    assert_eq!(upstream.connections(), 0);
    assert_eq!(client.get("/").status(), 200);
}
