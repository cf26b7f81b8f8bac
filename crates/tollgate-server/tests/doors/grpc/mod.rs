//! The gRPC door: called by hand, by grpcio, by a real Envoy, and by those who mean no good.

mod calls;
mod client;
mod ending;
mod envoy;
mod grpcio;
mod hostile;
mod sockets;
#[rustfmt::skip]
#[path = "../../../src/doors/grpc/proto/mod.rs"]
#[allow(dead_code, unreachable_pub, clippy::all, reason = "generated")]
mod proto;

use tollgate_server::Config;

use crate::support::{Running, start_with};

/// Every test has its own server, whose clock stands still: no window ends under it.
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

fn start() -> Running {
    start_also(|_| {})
}

fn start_also(set_up: impl FnOnce(&mut Config)) -> Running {
    start_by(RULES, set_up)
}

fn start_by(rules: &str, set_up: impl FnOnce(&mut Config)) -> Running {
    let noon = tollgate::Time::from_nanos(1_767_268_807_500_000_000);
    start_with(rules, |config| {
        config.clock = Some((&tollgate::testing::ManualClock::at(noon)).into());
        set_up(config);
    })
}
