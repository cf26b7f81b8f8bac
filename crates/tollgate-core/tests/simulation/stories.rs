//! The stories ours was tuned on.

use super::world::{Crowd, Order, Scenario, Spread, World};

const BUSY: World = World::overloaded();
const WIDE: World = World { spread: Spread::Wide, ..BUSY };

/// All of them.
pub(crate) fn stories() -> Vec<Scenario> {
    let half = World { servers: 4.0, ..BUSY };
    let wide_half = World { servers: 4.0, ..WIDE };
    let far = World { delay_ms: 40.0, ..BUSY };
    let slow = World { service_ms: 60.0, ..BUSY };
    let failing = World { fails: 0.1, ..WIDE };
    let down = World { fails: 1.0, ..BUSY };
    let strict = World { queue: 2, ..BUSY };
    let bursts = World { rate: 200.0, burst: 6.0, ..BUSY };
    let quiet = World { rate: 8.0, ..BUSY };
    let lone = World { servers: 1.0, service_ms: 200.0, rate: 8.0, ..WIDE };
    let long = World { servers: 16.0, service_ms: 500.0, rate: 60.0, ..BUSY };
    let shared = |scenario| Scenario { order: Order::Shared, ..scenario };
    let crowd = Some(Crowd { clients: 60, thinks_ms: 50.0 });
    vec![
        Scenario::new("overload").then(60.0, WIDE),
        Scenario::new("capacity halves and returns")
            .then(20.0, WIDE)
            .then(20.0, wide_half)
            .then(20.0, WIDE),
        shared(Scenario::new("the same, sharing").then(20.0, BUSY).then(20.0, half))
            .then(20.0, BUSY),
        Scenario { crowd, ..Scenario::new("the same, a crowd") }
            .then(20.0, BUSY)
            .then(20.0, half)
            .then(20.0, BUSY),
        Scenario::new("the same, it drops early")
            .then(20.0, strict)
            .then(20.0, World { servers: 4.0, ..strict })
            .then(20.0, strict),
        Scenario::new("latency × 3 at once").then(20.0, BUSY).then(20.0, far).then(20.0, BUSY),
        Scenario::new("latency × 3 slowly")
            .then(20.0, BUSY)
            .slowly(30.0, far)
            .then(10.0, far)
            .slowly(30.0, BUSY)
            .then(10.0, BUSY),
        Scenario::new("requests 3 × as much work")
            .then(20.0, BUSY)
            .then(20.0, slow)
            .then(20.0, BUSY),
        Scenario::new("it drops one in ten").then(20.0, WIDE).then(20.0, failing).then(20.0, WIDE),
        Scenario::new("it fails, and returns").then(20.0, BUSY).then(10.0, down).then(20.0, BUSY),
        Scenario::new("bursts").then(60.0, bursts),
        Scenario::new("a quiet night, then half as much")
            .then(20.0, BUSY)
            .then(60.0, quiet)
            .then(20.0, half),
        Scenario::new("one place, 5 a second").then(200.0, lone),
        Scenario::new("half a second each")
            .then(120.0, long)
            .then(120.0, World { servers: 8.0, ..long }),
    ]
}

/// One of them goes on for hours: nothing may creep.
pub(crate) fn three_hours() -> Scenario {
    let small = World { servers: 2.0, rate: 150.0, ..WIDE };
    Scenario::new("three hours of overload").then(3.0 * 3600.0, small)
}
