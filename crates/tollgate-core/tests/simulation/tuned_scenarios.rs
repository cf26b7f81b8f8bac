//! The scenarios on which the flow controller was tuned.

use super::scenario::{
    ClientPopulation, Conditions, Scenario, ServiceDiscipline, WorkDistribution,
};

const BUSY: Conditions = Conditions::overloaded();
const WIDE: Conditions = Conditions { work: WorkDistribution::Wide, ..BUSY };

/// Returns the scenarios on which the flow controller was tuned.
pub(crate) fn tuned_scenarios() -> Vec<Scenario> {
    let half = Conditions { servers: 4.0, ..BUSY };
    let wide_half = Conditions { servers: 4.0, ..WIDE };
    let far = Conditions { delay_ms: 40.0, ..BUSY };
    let slow = Conditions { service_ms: 60.0, ..BUSY };
    let failing = Conditions { fails: 0.1, ..WIDE };
    let down = Conditions { fails: 1.0, ..BUSY };
    let strict = Conditions { queue: 2, ..BUSY };
    let bursts = Conditions { rate: 200.0, burst: 6.0, ..BUSY };
    let quiet = Conditions { rate: 8.0, ..BUSY };
    let lone = Conditions { servers: 1.0, service_ms: 200.0, rate: 8.0, ..WIDE };
    let long = Conditions { servers: 16.0, service_ms: 500.0, rate: 60.0, ..BUSY };
    let shared = |scenario| Scenario { discipline: ServiceDiscipline::Shared, ..scenario };
    let clients = Some(ClientPopulation { count: 60, think_ms: 50.0 });
    vec![
        Scenario::new("overload").hold(60.0, WIDE),
        Scenario::new("capacity halves and returns")
            .hold(20.0, WIDE)
            .hold(20.0, wide_half)
            .hold(20.0, WIDE),
        shared(
            Scenario::new("capacity halves, all share the processor")
                .hold(20.0, BUSY)
                .hold(20.0, half),
        )
        .hold(20.0, BUSY),
        Scenario { clients, ..Scenario::new("capacity halves, 60 clients") }
            .hold(20.0, BUSY)
            .hold(20.0, half)
            .hold(20.0, BUSY),
        Scenario::new("capacity halves, a queue of two")
            .hold(20.0, strict)
            .hold(20.0, Conditions { servers: 4.0, ..strict })
            .hold(20.0, strict),
        Scenario::new("latency × 3 at once").hold(20.0, BUSY).hold(20.0, far).hold(20.0, BUSY),
        Scenario::new("latency × 3 gradually")
            .hold(20.0, BUSY)
            .change_gradually(30.0, far)
            .hold(10.0, far)
            .change_gradually(30.0, BUSY)
            .hold(10.0, BUSY),
        Scenario::new("requests 3 × as much work")
            .hold(20.0, BUSY)
            .hold(20.0, slow)
            .hold(20.0, BUSY),
        Scenario::new("one in ten dropped").hold(20.0, WIDE).hold(20.0, failing).hold(20.0, WIDE),
        Scenario::new("an outage of 10 s").hold(20.0, BUSY).hold(10.0, down).hold(20.0, BUSY),
        Scenario::new("bursts").hold(60.0, bursts),
        Scenario::new("a quiet minute, then half the capacity")
            .hold(20.0, BUSY)
            .hold(60.0, quiet)
            .hold(20.0, half),
        Scenario::new("one worker, 5 a second").hold(200.0, lone),
        Scenario::new("half a second each")
            .hold(120.0, long)
            .hold(120.0, Conditions { servers: 8.0, ..long }),
    ]
}

/// Returns a scenario of three hours, in which the limit must not creep.
pub(crate) fn three_hours() -> Scenario {
    let small = Conditions { servers: 2.0, rate: 150.0, ..WIDE };
    Scenario::new("three hours of overload").hold(3.0 * 3600.0, small)
}
