//! Threads that stand in line together: they come, leave at any moment, take the places of others,
//! and are let go.
//!
//! Time passes only once everybody stands still. So nobody is woken by chance: who is forgotten
//! stands there for good, which is found.

mod hall;

use hall::Way::{Keeps, LeavesAtOnce, LeavesWhenWoken, Stays};
use hall::{Hall, Of, Visit};
use tollgate::Rules;

use crate::explore_some;

/// A visit takes many steps.
const RUNS: usize = 300;

/// Everybody comes to the rule, in any order.
fn crowd(rule: &str, of: Of, line: usize, visits: &'static [Visit]) {
    let rules = format!("rules: [{{ name: r, {rule} }}]").parse::<Rules>();
    let rules = rules.unwrap_or_else(|found| panic!("{found}"));
    explore_some(RUNS, move || Hall::new(rules.clone(), of, line, visits).run());
}

#[test]
fn a_place_given_back_finds_whoever_waits() {
    let visits = &[("ann", Stays), ("ann", Stays), ("ann", Stays), ("ann", LeavesAtOnce)];
    for (at_once, rule) in [
        (1, "limit: 1 concurrent, then: queue 4 up to 1h"),
        (1, "limit: 1 concurrent, then: queue 4 up to 1h lifo"),
        (2, "limit: 2 concurrent, then: queue 4 up to 1h"),
    ] {
        crowd(rule, Of::places(at_once), 4, visits);
    }
}

#[test]
fn who_is_called_to_ask_and_leaves_lets_the_next_one_ask() {
    let visits =
        &[("ann", Stays), ("ann", LeavesWhenWoken), ("ann", Stays), ("ann", LeavesWhenWoken)];
    for rule in [
        "limit: 1 concurrent, then: queue 4 up to 1h",
        "limit: 1 concurrent, then: queue 4 up to 1h lifo",
    ] {
        crowd(rule, Of::places(1), 4, visits);
    }
}

#[test]
fn a_key_that_comes_later_takes_the_place_of_a_greedy_one() {
    let visits =
        &[("loud", Stays), ("loud", Stays), ("loud", Stays), ("ann", Stays), ("ann", Stays)];
    for rule in ["queue 2 up to 1h", "queue 2 up to 1h lifo"] {
        let places = format!("per: user, limit: 1 concurrent, then: {rule}");
        crowd(&places, Of::places(1), 2, visits);
        let rate = format!("per: user, limit: 1/s leaky burst 1, then: {rule}");
        crowd(&rate, Of::RATE, 2, visits);
    }
}

#[test]
fn a_turn_is_had_once_or_given_back() {
    for rule in ["queue 5 up to 1h", "queue 5 up to 1h lifo", "delay up to 1h"] {
        let rule = format!("limit: 1/s leaky burst 1, then: {rule}");
        let leave_soon =
            &[("ann", Stays), ("ann", LeavesAtOnce), ("ann", Stays), ("ann", LeavesAtOnce)];
        crowd(&rule, Of::RATE, 5, leave_soon);
        let leave_late =
            &[("ann", Stays), ("ann", LeavesWhenWoken), ("ann", Stays), ("ann", LeavesWhenWoken)];
        crowd(&rule, Of::RATE, 5, leave_late);
    }
}

#[test]
fn a_full_line_takes_nobody_in_and_forgets_nobody() {
    let visits = &[("ann", Stays), ("ann", Stays), ("ann", Stays), ("ann", LeavesAtOnce)];
    crowd("limit: 1 concurrent, then: queue 1 up to 1h", Of::places(1), 1, visits);
    crowd("limit: 1/s leaky burst 1, then: queue 1 up to 1h", Of::RATE, 1, visits);
}

#[test]
fn tenants_in_turn_are_all_served() {
    let visits = &[("loud", Stays), ("loud", LeavesWhenWoken), ("loud", Stays), ("ann", Stays)];
    let rule = "limit: 1 concurrent, fair: { by: user }, then: queue 4 up to 1h";
    crowd(rule, Of::places(1), 4, visits);
}

/// Who waits for its turn at one rule holds the place of another meanwhile.
#[test]
fn a_place_is_given_back_by_who_leaves_another_line() {
    let visits = &[("ann", Stays), ("ann", LeavesAtOnce), ("ann", LeavesWhenWoken), ("ann", Stays)];
    let rules = "limit: 1 concurrent, then: queue 4 up to 1h },
        { name: s, limit: 1/s leaky burst 1, then: queue 4 up to 1h";
    crowd(rules, Of { rate: true, at_once: 1 }, 4, visits);
}

/// One of two upstreams is kept busy: all others are served by the other one, wherever they stand.
#[test]
fn a_place_at_any_upstream_finds_whoever_waits_for_one() {
    for line in ["queue 4 up to 1h", "queue 4 up to 1h lifo"] {
        let rule = format!("per: upstream, limit: 1 concurrent, then: {line}");
        let stay = &[("a b", Keeps), ("a b", Stays), ("b a", Stays), ("a b", Stays)];
        crowd(&rule, Of::places(1), 4, stay);
        let leave = &[("a b", Keeps), ("b a", Stays), ("b a", LeavesWhenWoken), ("a b", Stays)];
        crowd(&rule, Of::places(1), 4, leave);
    }
    let two = "per: upstream, limit: 2 concurrent, then: queue 5 up to 1h";
    let visits = &[("a b", Keeps), ("a b", Keeps), ("b a", Stays), ("a b", Stays), ("b a", Stays)];
    crowd(two, Of::places(2), 5, visits);
}
