//! Held-out scenarios: written before their results were known, and not used for any change.

use super::scenario::{
    ClientPopulation, Conditions, Scenario, ServiceDiscipline, WorkDistribution,
};

const BUSY: Conditions = Conditions::overloaded();

/// Returns the held-out scenarios, as an operator might meet them.
pub(crate) fn held_out_scenarios() -> Vec<Scenario> {
    vec![leak(), rolls(), stalls(), swarm(), far_away(), slow_kinds(), limps(), easy_bursts()]
}

/// A service that gets slower for two minutes, until a restart.
fn leak() -> Scenario {
    Scenario::new("a leak: 20 ms to 60 ms in two minutes, a restart")
        .hold(20.0, BUSY)
        .change_gradually(120.0, Conditions { service_ms: 60.0, ..BUSY })
        .hold(20.0, BUSY)
}

/// A deploy that replaces a quarter of the instances at a time.
fn rolls() -> Scenario {
    let whole = Conditions { servers: 16.0, rate: 1200.0, work: WorkDistribution::Heavy, ..BUSY };
    let less = Conditions { servers: 12.0, ..whole };
    Scenario::new("a rolling deploy: 16 workers, 12, three times; lognormal")
        .hold(16.0, whole)
        .hold(8.0, less)
        .hold(8.0, whole)
        .hold(8.0, less)
        .hold(8.0, whole)
        .hold(8.0, less)
        .hold(16.0, whole)
}

/// A service below its capacity that stalls now and then, with requests that differ.
fn stalls() -> Scenario {
    let calm = Conditions { rate: 300.0, work: WorkDistribution::Heavy, ..BUSY };
    Scenario::new("75 % load, a stall of 1.5 s every 10 s; lognormal")
        .hold(20.0, calm)
        .hold(60.0, Conditions { pause_ms: 1500.0, ..calm })
}

/// Clients with a short pause between requests, on a service that shares its processors.
fn swarm() -> Scenario {
    let wide = Conditions { servers: 32.0, service_ms: 40.0, queue: 400, ..BUSY };
    let clients = Some(ClientPopulation { count: 200, think_ms: 20.0 });
    let scenario = Scenario::new("200 impatient clients; 32 processors, 8, 32");
    Scenario { discipline: ServiceDiscipline::Shared, clients, ..scenario }
        .hold(20.0, wide)
        .hold(20.0, Conditions { servers: 8.0, ..wide })
        .hold(20.0, wide)
}

/// A network that takes twelve times as long as the work.
fn far_away() -> Scenario {
    let far = Conditions { servers: 4.0, service_ms: 5.0, delay_ms: 60.0, rate: 1200.0, ..BUSY };
    Scenario::new("5 ms behind a network of 60 ms; 4 workers, 2, 4")
        .hold(20.0, far)
        .hold(20.0, Conditions { servers: 2.0, ..far })
        .hold(20.0, far)
}

/// Requests of which one in five takes twenty times as long.
fn slow_kinds() -> Scenario {
    let mixed = Conditions { servers: 24.0, rate: 400.0, ..BUSY }.with_two_kinds(20.0, 400.0, 0.2);
    Scenario::new("20 ms and 400 ms, 80/20").hold(60.0, mixed)
}

/// A service with half its capacity that drops one request in five.
fn limps() -> Scenario {
    let limping = Conditions { servers: 4.0, fails: 0.2, ..BUSY };
    Scenario::new("half the capacity gone, and one in five dropped")
        .hold(20.0, BUSY)
        .hold(30.0, limping)
        .hold(20.0, BUSY)
}

/// A load of seven tenths of the capacity, with short bursts of nearly three times the capacity.
fn easy_bursts() -> Scenario {
    let easy = Conditions { rate: 280.0, burst: 4.0, work: WorkDistribution::Wide, ..BUSY };
    Scenario::new("70 % load, bursts of 280 %").hold(60.0, easy)
}
