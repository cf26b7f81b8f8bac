//! Stories ours was not tuned on, written down before anybody saw how it does. What it lost in them
//! has mended it since, so they are not held out any more.

use super::world::{Order, Scenario, Spread, World};

const BUSY: World = World::overloaded();

/// All of them, as an operator might meet them.
pub(crate) fn surprises() -> Vec<Scenario> {
    vec![
        pauses(),
        cold_cache(),
        waves(),
        two_kinds(),
        fails_fast(),
        scales(),
        very_quick(),
        very_slow(),
        hangs(),
    ]
}

/// Garbage is collected for 400 ms every ten seconds, and everybody waits for it.
fn pauses() -> Scenario {
    let pausing = World { pause_ms: 400.0, ..BUSY };
    Scenario::new("it stands still for 400 ms every 10 s").then(20.0, BUSY).then(60.0, pausing)
}

/// The same requests, always: six times what it bears at first, three quarters in the end.
fn cold_cache() -> Scenario {
    let cold = World { service_ms: 80.0, ..BUSY };
    let warm = World { service_ms: 10.0, ..BUSY };
    Scenario::new("a cold cache: 80 ms, 10 ms half a minute later")
        .then(10.0, cold)
        .slowly(30.0, warm)
        .then(20.0, warm)
}

/// From a fifth of what it bears to three times as much, every 40 s.
fn waves() -> Scenario {
    let low = World { rate: 80.0, spread: Spread::Heavy, ..BUSY };
    let high = World { rate: 1200.0, ..low };
    Scenario::new("waves of 20 % to 300 %, lognormal work")
        .then(10.0, low)
        .slowly(20.0, high)
        .slowly(20.0, low)
        .slowly(20.0, high)
        .slowly(20.0, low)
}

/// As many requests, but half of them, not one in twenty, are slow queries.
fn two_kinds() -> Scenario {
    let busy = World { rate: 800.0, ..BUSY };
    let quick = busy.kinds(5.0, 200.0, 0.05);
    Scenario::new("5 ms and 200 ms: 95/5, then 50/50, and back")
        .then(20.0, quick)
        .then(30.0, busy.kinds(5.0, 200.0, 0.5))
        .then(20.0, quick)
}

/// Its latency never tells anything: what it has no place for it drops at once.
fn fails_fast() -> Scenario {
    let strict = World { servers: 16.0, service_ms: 30.0, queue: 0, rate: 800.0, ..BUSY };
    Scenario { order: Order::Shared, ..Scenario::new("it fails fast, and its capacity halves") }
        .then(20.0, strict)
        .then(20.0, World { servers: 8.0, ..strict })
        .then(20.0, strict)
}

/// Instances are added one by one, and taken away at once.
fn scales() -> Scenario {
    let few = World { servers: 4.0, service_ms: 50.0, rate: 1600.0, ..BUSY };
    let many = World { servers: 64.0, ..few };
    Scenario::new("4 to 64 places within a minute, and back at once")
        .then(10.0, few)
        .slowly(60.0, many)
        .then(10.0, many)
        .then(20.0, few)
}

/// Two thousand a second, 1 ms each, and half of that for a while.
fn very_quick() -> Scenario {
    let quick = World { servers: 2.0, service_ms: 1.0, rate: 3000.0, ..BUSY };
    Scenario::new("2,000 a second of 1 ms, half, and back")
        .then(20.0, quick)
        .then(20.0, World { servers: 1.0, ..quick })
        .then(20.0, quick)
}

/// Two a second, half a second each.
fn very_slow() -> Scenario {
    let slow = World { servers: 1.0, service_ms: 500.0, rate: 3.0, ..BUSY };
    Scenario::new("2 a second of 500 ms").then(300.0, slow)
}

/// Three seconds of every ten nothing moves.
fn hangs() -> Scenario {
    let hanging = World { pause_ms: 3000.0, ..BUSY };
    Scenario::new("it hangs for 3 s every 10 s").then(20.0, BUSY).then(60.0, hanging)
}
