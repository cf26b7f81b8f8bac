//! The default controller in a simulation: near the ideal, soon after any change, and no creep.
//!
//! `cargo xtask bench adaptive` prints these scenarios with the published controllers for comparison.

mod simulation;

use std::ops::Range;

use simulation::{
    LimitPolicy, Scenario, Score, held_out_scenarios, regression_scenarios, score,
    three_hours_of_overload, tuned_scenarios,
};

/// Asserts the score of our controller in every scenario that `wanted` selects.
fn assert_near_the_ideal(wanted: impl Fn(usize) -> bool) {
    for (number, scenario) in
        tuned_scenarios().iter().enumerate().filter(|(number, _)| wanted(*number))
    {
        let [score] = score(scenario, &[LimitPolicy::ours()], 1..4);
        println!("{number:>2} {}: {score:?}", scenario.name);
        assert!(score.whole_pct >= 90.0, "{}, over the whole: {score:?}", scenario.name);
        assert!(score.settled_pct >= 90.0, "{}, 5 s after a change: {score:?}", scenario.name);
        let Score { p99_ms, ideal_p99_ms, .. } = score;
        assert!(p99_ms <= ideal_p99_ms * 2.0, "{}, latency: {score:?}", scenario.name);
    }
}

#[test]
fn near_the_ideal_where_capacity_changes() {
    assert_near_the_ideal(|number| number < 3);
}

#[test]
fn near_the_ideal_with_many_clients_and_a_short_queue() {
    assert_near_the_ideal(|number| (3..5).contains(&number));
}

#[test]
fn near_the_ideal_where_latency_changes() {
    assert_near_the_ideal(|number| (5..8).contains(&number));
}

#[test]
fn near_the_ideal_where_the_service_drops_and_where_traffic_changes() {
    assert_near_the_ideal(|number| number >= 8);
}

/// The percent of the ideal by which a score may be lower than when it was last measured.
const MARGIN: f64 = 3.0;

/// Asserts that our controller is no worse than when it was last measured.
fn assert_no_worse(scenarios: &[Scenario], before: &[[f64; 2]], seeds: Range<u64>) {
    assert_eq!(scenarios.len(), before.len());
    for (scenario, [whole, settled]) in scenarios.iter().zip(before) {
        let [score] = score(scenario, &[LimitPolicy::ours()], seeds.clone());
        println!("{}: {score:?}", scenario.name);
        assert!(score.whole_pct >= whole - MARGIN, "{}, was {whole}: {score:?}", scenario.name);
        assert!(
            score.settled_pct >= settled - MARGIN,
            "{}, was {settled}: {score:?}",
            scenario.name
        );
    }
}

#[test]
fn no_worse_in_regression_scenarios() {
    let before = [[97.0, 97.0], [98.0, 98.0], [94.0, 84.0], [85.0, 62.0], [94.0, 94.0]];
    assert_no_worse(&regression_scenarios()[..5], &before, 1..4);
    assert_no_worse(&regression_scenarios()[7..], &[[99.0, 99.0], [95.0, 93.0]], 1..4);
}

#[test]
fn no_worse_in_held_out_scenarios() {
    assert_no_worse(&held_out_scenarios()[..3], &[[97.0, 97.0], [95.0, 92.0], [91.0, 90.0]], 1..4);
    assert_no_worse(&held_out_scenarios()[5..], &[[86.0, 90.0], [97.0, 98.0], [94.0, 95.0]], 1..4);
}

/// Scenarios with many requests run with one seed.
#[test]
fn no_worse_in_scenarios_with_many_requests() {
    assert_no_worse(&regression_scenarios()[5..7], &[[98.0, 89.0], [96.0, 83.0]], 1..2);
    assert_no_worse(&held_out_scenarios()[3..5], &[[94.0, 96.0], [94.0, 97.0]], 1..2);
}

#[test]
fn no_creep_in_three_hours_of_overload() {
    let (means, highest) = three_hours_of_overload(LimitPolicy::ours());
    println!("{means:?}, never above {highest}");
    assert!(means.iter().all(|mean| (3.0..=4.5).contains(mean)), "{means:?}");
    assert!(highest <= 20, "{highest}");
}

/// This is the reason for a controller of our own.
#[test]
fn the_published_controllers_lose_goodput_where_capacity_halves() {
    let scenario = &tuned_scenarios()[1];
    let scores = score(scenario, &LimitPolicy::all(), 1..2);
    for (policy, score) in LimitPolicy::all().iter().zip(&scores).skip(1) {
        println!("{}: {score:?}", policy.name());
        assert!(score.settled_pct < 80.0, "{}: {score:?}", policy.name());
    }
}
