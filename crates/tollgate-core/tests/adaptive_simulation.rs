//! The default controller in a simulation: near the ideal, soon after any change, and no creep.
//!
//! `cargo xtask bench adaptive` prints the same stories beside the published controllers.

mod simulation;

use simulation::{Score, Steering, hours, score, stories};

/// Every story that `wanted` picks, for ours.
fn ours(wanted: impl Fn(usize) -> bool) {
    for (number, story) in stories().iter().enumerate().filter(|(number, _)| wanted(*number)) {
        let [score] = score(story, &[Steering::ours()], 1..4);
        println!("{number:>2} {}: {score:?}", story.name);
        assert!(score.whole_pct >= 90.0, "{}, over the whole: {score:?}", story.name);
        assert!(score.found_pct >= 90.0, "{}, 5 s after a change: {score:?}", story.name);
        let Score { p99_ms, ideal_p99_ms, .. } = score;
        assert!(p99_ms <= ideal_p99_ms * 2.0, "{}, latency: {score:?}", story.name);
    }
}

#[test]
fn near_the_ideal_where_capacity_changes() {
    ours(|number| number < 3);
}

#[test]
fn near_the_ideal_with_a_crowd_and_a_short_queue() {
    ours(|number| (3..5).contains(&number));
}

#[test]
fn near_the_ideal_where_latency_changes() {
    ours(|number| (5..8).contains(&number));
}

#[test]
fn near_the_ideal_where_it_drops_and_where_traffic_changes() {
    ours(|number| number >= 8);
}

#[test]
fn no_creep_in_three_hours_of_overload() {
    let (means, highest) = hours(Steering::ours());
    println!("{means:?}, never above {highest}");
    assert!(means.iter().all(|mean| (3.0..=4.5).contains(mean)), "{means:?}");
    assert!(highest <= 20, "{highest}");
}

/// Why there is a controller of our own.
#[test]
fn the_published_ones_lose_most_of_it_where_capacity_halves() {
    let story = &stories()[1];
    let scores = score(story, &Steering::all(), 1..2);
    for (steering, score) in Steering::all().iter().zip(&scores).skip(1) {
        println!("{}: {score:?}", steering.name());
        assert!(score.found_pct < 80.0, "{}: {score:?}", steering.name());
    }
}
