//! Tests of the gRPC door: with a raw client, grpcio, a real Envoy and hostile clients.

mod calls;
mod client;
mod envoy;
mod grpcio;
mod hostile;
mod idle_connections;
mod shutdown;
mod sockets;
#[rustfmt::skip]
#[path = "../../../src/doors/grpc/proto/mod.rs"]
#[allow(dead_code, unreachable_pub, clippy::all, reason = "generated")]
mod proto;

use tollgate_server::Config;

use crate::support::{TestServer, start_with};

/// The rules of every server; its clock stands still, so that no window ends during a test.
const RULES: &str = "
domain: demo
descriptors:
  - key: user
    rate_limit: { name: users, unit: hour, requests_per_unit: 3 }
  - key: heavy
    rate_limit: { unit: day, requests_per_unit: 10 }
  - key: watched
    shadow_mode: true
    rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: never
    rate_limit: { unit: hour, requests_per_unit: 0 }
  - key: gold
    metadata: { tier: gold }
    rate_limit: { unit: week, requests_per_unit: 5 }
";

fn start() -> TestServer {
    start_configured(|_| {})
}

fn start_configured(set_up: impl FnOnce(&mut Config)) -> TestServer {
    start_with_rules(RULES, set_up)
}

fn start_with_rules(rules: &str, set_up: impl FnOnce(&mut Config)) -> TestServer {
    let noon = tollgate::Time::from_nanos(1_767_268_807_500_000_000);
    start_with(rules, |config| {
        config.clock = Some((&tollgate::testing::ManualClock::at(noon)).into());
        set_up(config);
    })
}
