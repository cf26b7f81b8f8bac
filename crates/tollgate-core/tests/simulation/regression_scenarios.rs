//! Regression scenarios: the controller was not tuned on them, but was improved after their results.

use super::scenario::{Conditions, Scenario, ServiceDiscipline, WorkDistribution};

const BUSY: Conditions = Conditions::overloaded();

/// Returns the regression scenarios, as an operator might meet them.
pub(crate) fn regression_scenarios() -> Vec<Scenario> {
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

/// A garbage collection that stalls the service for 400 ms every ten seconds.
fn pauses() -> Scenario {
    let pausing = Conditions { pause_ms: 400.0, ..BUSY };
    Scenario::new("a stall of 400 ms every 10 s").hold(20.0, BUSY).hold(60.0, pausing)
}

/// A constant load: six times the capacity at first, three quarters of it at the end.
fn cold_cache() -> Scenario {
    let cold = Conditions { service_ms: 80.0, ..BUSY };
    let warm = Conditions { service_ms: 10.0, ..BUSY };
    Scenario::new("a cold cache: 80 ms, 10 ms half a minute later")
        .hold(10.0, cold)
        .change_gradually(30.0, warm)
        .hold(20.0, warm)
}

/// A load from a fifth of the capacity to three times as much, every 40 s.
fn waves() -> Scenario {
    let low = Conditions { rate: 80.0, work: WorkDistribution::Heavy, ..BUSY };
    let high = Conditions { rate: 1200.0, ..low };
    Scenario::new("waves of 20 % to 300 %, lognormal work")
        .hold(10.0, low)
        .change_gradually(20.0, high)
        .change_gradually(20.0, low)
        .change_gradually(20.0, high)
        .change_gradually(20.0, low)
}

/// A constant rate of requests of which half, instead of one in twenty, are slow queries.
fn two_kinds() -> Scenario {
    let busy = Conditions { rate: 800.0, ..BUSY };
    let quick = busy.with_two_kinds(5.0, 200.0, 0.05);
    Scenario::new("5 ms and 200 ms: 95/5, then 50/50, and back")
        .hold(20.0, quick)
        .hold(30.0, busy.with_two_kinds(5.0, 200.0, 0.5))
        .hold(20.0, quick)
}

/// A service without a queue, whose latency says nothing: it drops what it cannot serve at once.
fn fails_fast() -> Scenario {
    let strict = Conditions { servers: 16.0, service_ms: 30.0, queue: 0, rate: 800.0, ..BUSY };
    Scenario {
        discipline: ServiceDiscipline::Shared,
        ..Scenario::new("no queue, and capacity halves")
    }
    .hold(20.0, strict)
    .hold(20.0, Conditions { servers: 8.0, ..strict })
    .hold(20.0, strict)
}

/// A service that gains instances one by one, and loses them at once.
fn scales() -> Scenario {
    let few = Conditions { servers: 4.0, service_ms: 50.0, rate: 1600.0, ..BUSY };
    let many = Conditions { servers: 64.0, ..few };
    Scenario::new("4 to 64 workers within a minute, and back at once")
        .hold(10.0, few)
        .change_gradually(60.0, many)
        .hold(10.0, many)
        .hold(20.0, few)
}

/// A service of two thousand requests a second, 1 ms each, and half of that for a while.
fn very_quick() -> Scenario {
    let quick = Conditions { servers: 2.0, service_ms: 1.0, rate: 3000.0, ..BUSY };
    Scenario::new("2,000 a second of 1 ms, half, and back")
        .hold(20.0, quick)
        .hold(20.0, Conditions { servers: 1.0, ..quick })
        .hold(20.0, quick)
}

/// A service of two requests a second, half a second each.
fn very_slow() -> Scenario {
    let slow = Conditions { servers: 1.0, service_ms: 500.0, rate: 3.0, ..BUSY };
    Scenario::new("2 a second of 500 ms").hold(300.0, slow)
}

/// A service that stalls for three seconds of every ten.
fn hangs() -> Scenario {
    let hanging = Conditions { pause_ms: 3000.0, ..BUSY };
    Scenario::new("a stall of 3 s every 10 s").hold(20.0, BUSY).hold(60.0, hanging)
}
