//! Threads whose requests wait in one queue: they arrive, are cancelled at any moment, displace
//! each other and proceed.
//!
//! Time advances only when every thread is parked. So no thread is woken by chance, and a lost
//! wake-up is found.

mod scenario;

use scenario::ClientBehaviour::{CancelsAtOnce, CancelsWhenWoken, HoldsPermit, Waits};
use scenario::{Client, LimitKind, QueueScenario};
use tollgate_rules::Rules;

use crate::explore_some;

/// The number of schedules; each request takes many steps.
const RUNS: usize = 300;

/// Runs one thread per client against a rule, in any order.
fn run_clients(rule: &str, limit: LimitKind, capacity: usize, clients: &'static [Client]) {
    let rules = format!("attributes: [user]\nrules: [{{ name: r, {rule} }}]").parse::<Rules>();
    let rules = rules.unwrap_or_else(|found| panic!("{found}"));
    explore_some(RUNS, move || QueueScenario::new(rules.clone(), limit, capacity, clients).run());
}

#[test]
fn a_released_permit_wakes_a_waiting_request() {
    let clients = &[("ann", Waits), ("ann", Waits), ("ann", Waits), ("ann", CancelsAtOnce)];
    for (max_in_flight, rule) in [
        (1, "limit: 1 concurrent, then: queue 4 up to 1h"),
        (1, "limit: 1 concurrent, then: queue 4 up to 1h lifo"),
        (2, "limit: 2 concurrent, then: queue 4 up to 1h"),
    ] {
        run_clients(rule, LimitKind::concurrent(max_in_flight), 4, clients);
    }
}

#[test]
fn the_next_request_retries_when_a_woken_one_is_cancelled() {
    let clients =
        &[("ann", Waits), ("ann", CancelsWhenWoken), ("ann", Waits), ("ann", CancelsWhenWoken)];
    for rule in [
        "limit: 1 concurrent, then: queue 4 up to 1h",
        "limit: 1 concurrent, then: queue 4 up to 1h lifo",
    ] {
        run_clients(rule, LimitKind::concurrent(1), 4, clients);
    }
}

#[test]
fn a_later_key_displaces_a_request_of_the_largest_key() {
    let clients =
        &[("loud", Waits), ("loud", Waits), ("loud", Waits), ("ann", Waits), ("ann", Waits)];
    for rule in ["queue 2 up to 1h", "queue 2 up to 1h lifo"] {
        let places = format!("per: user, limit: 1 concurrent, then: {rule}");
        run_clients(&places, LimitKind::concurrent(1), 2, clients);
        let rate = format!("per: user, limit: 1/s leaky burst 1, then: {rule}");
        run_clients(&rate, LimitKind::RATE, 2, clients);
    }
}

#[test]
fn a_slot_is_used_once_or_released() {
    for rule in ["queue 5 up to 1h", "queue 5 up to 1h lifo", "delay up to 1h"] {
        let rule = format!("limit: 1/s leaky burst 1, then: {rule}");
        let cancel_at_once =
            &[("ann", Waits), ("ann", CancelsAtOnce), ("ann", Waits), ("ann", CancelsAtOnce)];
        run_clients(&rule, LimitKind::RATE, 5, cancel_at_once);
        let cancel_when_woken =
            &[("ann", Waits), ("ann", CancelsWhenWoken), ("ann", Waits), ("ann", CancelsWhenWoken)];
        run_clients(&rule, LimitKind::RATE, 5, cancel_when_woken);
    }
}

#[test]
fn a_full_queue_accepts_no_request_and_loses_none() {
    let clients = &[("ann", Waits), ("ann", Waits), ("ann", Waits), ("ann", CancelsAtOnce)];
    run_clients(
        "limit: 1 concurrent, then: queue 1 up to 1h",
        LimitKind::concurrent(1),
        1,
        clients,
    );
    run_clients("limit: 1/s leaky burst 1, then: queue 1 up to 1h", LimitKind::RATE, 1, clients);
}

#[test]
fn tenants_that_take_turns_are_all_served() {
    let clients = &[("loud", Waits), ("loud", CancelsWhenWoken), ("loud", Waits), ("ann", Waits)];
    let rule = "limit: 1 concurrent, fair: { by: user }, then: queue 4 up to 1h";
    run_clients(rule, LimitKind::concurrent(1), 4, clients);
}

/// A request that waits for a slot of one rule holds the permit of another meanwhile.
#[test]
fn a_request_cancelled_in_another_queue_returns_its_permit() {
    let clients =
        &[("ann", Waits), ("ann", CancelsAtOnce), ("ann", CancelsWhenWoken), ("ann", Waits)];
    let rules = "limit: 1 concurrent, then: queue 4 up to 1h },
        { name: s, limit: 1/s leaky burst 1, then: queue 4 up to 1h";
    run_clients(rules, LimitKind { rate: true, max_in_flight: 1 }, 4, clients);
}

/// One permit stays taken: all other requests use the other upstream, whichever queue they wait in.
#[test]
fn a_released_permit_of_any_upstream_wakes_a_waiting_request() {
    for line in ["queue 4 up to 1h", "queue 4 up to 1h lifo"] {
        let rule = format!("per: upstream, limit: 1 concurrent, then: {line}");
        let stay = &[("a b", HoldsPermit), ("a b", Waits), ("b a", Waits), ("a b", Waits)];
        run_clients(&rule, LimitKind::concurrent(1), 4, stay);
        let leave =
            &[("a b", HoldsPermit), ("b a", Waits), ("b a", CancelsWhenWoken), ("a b", Waits)];
        run_clients(&rule, LimitKind::concurrent(1), 4, leave);
    }
    let two = "per: upstream, limit: 2 concurrent, then: queue 5 up to 1h";
    let clients = &[
        ("a b", HoldsPermit),
        ("a b", HoldsPermit),
        ("b a", Waits),
        ("a b", Waits),
        ("b a", Waits),
    ];
    run_clients(two, LimitKind::concurrent(2), 5, clients);
}
