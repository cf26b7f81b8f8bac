//! Stories held out: written down before anybody saw how ours does in them, and nothing was changed
//! for their sake.

use super::world::{Crowd, Order, Scenario, Spread, World};

const BUSY: World = World::overloaded();

/// All of them, as an operator might meet them.
pub(crate) fn held_out() -> Vec<Scenario> {
    vec![leak(), rolls(), stalls(), swarm(), far_away(), slow_kinds(), limps(), easy_bursts()]
}

/// Ever slower for two minutes, until somebody restarts it.
fn leak() -> Scenario {
    Scenario::new("a leak: 20 ms to 60 ms in two minutes, a restart")
        .then(20.0, BUSY)
        .slowly(120.0, World { service_ms: 60.0, ..BUSY })
        .then(20.0, BUSY)
}

/// A quarter of the instances is replaced at a time.
fn rolls() -> Scenario {
    let whole = World { servers: 16.0, rate: 1200.0, spread: Spread::Heavy, ..BUSY };
    let less = World { servers: 12.0, ..whole };
    Scenario::new("a rolling deploy: 16 places, 12, three times; lognormal")
        .then(16.0, whole)
        .then(8.0, less)
        .then(8.0, whole)
        .then(8.0, less)
        .then(8.0, whole)
        .then(8.0, less)
        .then(16.0, whole)
}

/// It is not busy, but stands still for a moment now and then, and requests differ.
fn stalls() -> Scenario {
    let calm = World { rate: 300.0, spread: Spread::Heavy, ..BUSY };
    Scenario::new("75 % load, it stands still for 1.5 s every 10 s; lognormal")
        .then(20.0, calm)
        .then(60.0, World { pause_ms: 1500.0, ..calm })
}

/// Clients who hardly think before they ask again, of a service that shares its processors.
fn swarm() -> Scenario {
    let wide = World { servers: 32.0, service_ms: 40.0, queue: 400, ..BUSY };
    let crowd = Some(Crowd { clients: 200, thinks_ms: 20.0 });
    let story = Scenario::new("200 impatient clients; 32 processors, 8, 32");
    Scenario { order: Order::Shared, crowd, ..story }
        .then(20.0, wide)
        .then(20.0, World { servers: 8.0, ..wide })
        .then(20.0, wide)
}

/// The network takes twelve times as long as the work.
fn far_away() -> Scenario {
    let far = World { servers: 4.0, service_ms: 5.0, delay_ms: 60.0, rate: 1200.0, ..BUSY };
    Scenario::new("5 ms behind a network of 60 ms; 4 places, 2, 4")
        .then(20.0, far)
        .then(20.0, World { servers: 2.0, ..far })
        .then(20.0, far)
}

/// One in five takes twenty times as long.
fn slow_kinds() -> Scenario {
    let mixed = World { servers: 24.0, rate: 400.0, ..BUSY }.kinds(20.0, 400.0, 0.2);
    Scenario::new("20 ms and 400 ms, 80/20").then(60.0, mixed)
}

/// Half of it is gone, and one answer in five of the rest is an error.
fn limps() -> Scenario {
    let limping = World { servers: 4.0, fails: 0.2, ..BUSY };
    Scenario::new("half of it gone, and one in five dropped")
        .then(20.0, BUSY)
        .then(30.0, limping)
        .then(20.0, BUSY)
}

/// Seven tenths of what it bears, and three times too much for half a second now and then.
fn easy_bursts() -> Scenario {
    let easy = World { rate: 280.0, burst: 4.0, spread: Spread::Wide, ..BUSY };
    Scenario::new("70 % load, bursts of 280 %").then(60.0, easy)
}
