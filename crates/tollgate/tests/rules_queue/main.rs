//! Requests that stand in line, under virtual time.

mod asked;
mod model;
#[path = "../support/mod.rs"]
mod support;
mod threads;
mod upstreams;
mod visitors;

use std::time::Duration;

use tollgate::Request;
use visitors::Visitors;

#[test]
fn the_outflow_of_a_leaky_queue_is_exactly_the_rate() {
    let mut visitors =
        Visitors::new("{ name: r, limit: 1k/s leaky burst 1, then: queue 100 up to 1s }");
    let mut number = 0;
    for _ in 0..10_000 {
        // Twice as many come as may go, in no order that fits the rate.
        for _ in 0..(number * 7 % 5) {
            number += 1;
            visitors.comes(number, Request::empty());
        }
        number += 1;
        visitors.comes(number, Request::empty());
        visitors.passes(1);
        assert!(visitors.waiting() <= 100);
    }
    let gone = visitors.let_through();
    let times: Vec<u64> = gone.iter().map(|(_, at)| *at).collect();
    assert_eq!(times, (0..=10_000).collect::<Vec<_>>(), "one each millisecond, none missed");
    assert!(gone.is_sorted(), "first come, first served");
    assert!(!visitors.refused().is_empty());
}

#[test]
fn a_full_queue_refuses_at_once_and_says_when_a_place_comes_free() {
    let mut visitors = Visitors::new("{ name: r, limit: 10/s burst 1, then: queue 2 up to 5s }");
    (1..=4).for_each(|number| visitors.comes(number, Request::empty()));
    assert_eq!(visitors.let_through(), [(1, 0)]);
    assert_eq!(visitors.refused(), [(4, 0, 100)]);
    visitors.passes(99);
    visitors.comes(5, Request::empty());
    assert_eq!(visitors.refused()[1], (5, 99, 1));
    visitors.passes(1);
    visitors.comes(6, Request::empty());
    visitors.passes(200);
    assert_eq!(visitors.let_through(), [(1, 0), (2, 100), (3, 200), (6, 300)]);
    let waited: Vec<_> = visitors.done.iter().map(|(.., it)| it.wait.as_millis()).collect();
    assert_eq!(waited, [0, 0, 0, 100, 200, 200]);
}

#[test]
fn who_would_wait_too_long_is_refused_at_once_until_it_would_not() {
    let mut visitors =
        Visitors::new("{ name: r, limit: 10/s burst 1, then: queue 50 up to 250ms }");
    (1..=5).for_each(|number| visitors.comes(number, Request::empty()));
    // The next turn is in 300 ms: in 50 it is within 250.
    assert_eq!(visitors.refused(), [(4, 0, 50), (5, 0, 50)]);
    visitors.passes(49);
    visitors.comes(6, Request::empty());
    assert_eq!(visitors.refused()[2], (6, 49, 1));
    visitors.passes(1);
    visitors.comes(7, Request::empty());
    visitors.passes(250);
    assert_eq!(visitors.let_through(), [(1, 0), (2, 100), (3, 200), (7, 300)]);
}

#[test]
fn who_leaves_frees_its_place_and_all_behind_move_up() {
    let mut visitors = Visitors::new("{ name: r, limit: 10/s burst 1, then: queue 4 up to 5s }");
    (1..=5).for_each(|number| visitors.comes(number, Request::empty()));
    assert!(visitors.leaves(2));
    assert_eq!(visitors.waiting(), 3);
    visitors.comes(6, Request::empty());
    visitors.passes(100);
    assert!(visitors.leaves(5));
    visitors.passes(400);
    assert_eq!(visitors.let_through(), [(1, 0), (3, 100), (4, 200), (6, 300)]);
    // All was given back: the next is 100 ms after the last.
    visitors.passes(1);
    visitors.comes(7, Request::empty());
    assert_eq!(visitors.let_through()[4], (7, 501));
}

#[test]
fn nobody_is_forgotten_when_whoever_watched_the_clock_leaves() {
    let mut visitors = Visitors::new("{ name: r, limit: 10/s burst 1, then: delay up to 5s }");
    (1..=6).for_each(|number| visitors.comes(number, Request::empty()));
    visitors.passes(50);
    (2..=5).for_each(|number| assert!(visitors.leaves(number)));
    visitors.passes(50);
    assert_eq!(visitors.let_through(), [(1, 0), (6, 100)]);
}

#[test]
fn the_newest_goes_first_and_the_oldest_not_later_than_it_may() {
    let mut visitors =
        Visitors::new("{ name: r, limit: 10/s burst 1, then: queue 10 up to 400ms lifo }");
    (1..=4).for_each(|number| visitors.comes(number, Request::empty()));
    visitors.passes(150);
    visitors.comes(5, Request::empty());
    visitors.passes(100);
    visitors.comes(6, Request::empty());
    visitors.passes(400);
    assert_eq!(visitors.let_through(), [(1, 0), (4, 100), (5, 200), (6, 300), (3, 400)]);
    assert_eq!(visitors.refused()[0].0, 2);
    assert_eq!(visitors.refused()[0].1, 400);
}

#[test]
fn keys_share_the_places_of_a_rule() {
    let mut visitors =
        Visitors::new("{ name: r, per: user, limit: 10/s burst 1, then: queue 4 up to 5s }");
    (1..=5).for_each(|number| visitors.of(number, "loud"));
    assert_eq!(visitors.waiting(), 4, "alone, one key may use all");
    visitors.of(11, "ann");
    visitors.of(12, "ann"); // Passed at once, then takes the place of number 5.
    assert_eq!(visitors.refused(), [(5, 0, 100)]);
    visitors.of(13, "ann"); // And of number 4.
    assert_eq!(visitors.refused()[1], (4, 0, 100));
    visitors.of(14, "ann"); // Two each: fair.
    assert_eq!(visitors.refused()[2], (14, 0, 100));
    visitors.of(6, "loud");
    assert_eq!(visitors.refused()[3], (6, 0, 100));
    visitors.passes(300);
    let mut gone = visitors.let_through();
    gone.sort_unstable();
    assert_eq!(gone, [(1, 0), (2, 100), (3, 200), (11, 0), (12, 100), (13, 200)]);
}

#[test]
fn tenants_of_a_fair_rule_go_in_turn() {
    let mut visitors = Visitors::new(
        "{ name: r, limit: 10/s burst 1, fair: { by: user }, then: queue 6 up to 5s }",
    );
    (1..=5).for_each(|number| visitors.of(number, "loud"));
    visitors.of(11, "ann");
    visitors.of(12, "ann");
    visitors.passes(700);
    let order: Vec<usize> = visitors.let_through().iter().map(|(number, _)| *number).collect();
    assert_eq!(order, [1, 2, 11, 3, 12, 4, 5]);
}

#[test]
fn a_place_that_comes_free_is_the_first_ones() {
    let mut visitors = Visitors::new("{ name: r, limit: 1 concurrent, then: queue 2 up to 1s }");
    (1..=4).for_each(|number| visitors.comes(number, Request::empty()));
    assert_eq!(visitors.let_through(), [(1, 0)]);
    // At the latest when the first in line has lost its patience.
    assert_eq!(visitors.refused(), [(4, 0, 1000)]);
    visitors.passes(300);
    let held = visitors.done[0].2.clone();
    visitors.limiter.release(&held, Duration::from_millis(300));
    visitors.comes(5, Request::empty());
    visitors.settle();
    assert_eq!(visitors.let_through(), [(1, 0), (2, 300)], "nobody overtakes who waits");
    visitors.passes(699);
    assert_eq!(visitors.waiting(), 2);
    visitors.passes(1);
    assert_eq!(visitors.refused()[1].0, 3, "for a second, and no longer");
    assert_eq!(visitors.waiting(), 1);
}

#[test]
fn who_leaves_the_line_for_a_place_lets_the_next_one_ask() {
    let mut visitors =
        Visitors::new("{ name: r, limit: 1 concurrent, then: queue 5 up to 1s lifo }");
    (1..=4).for_each(|number| visitors.comes(number, Request::empty()));
    visitors.leaves(4);
    let held = visitors.done[0].2.clone();
    visitors.limiter.release(&held, Duration::from_millis(1));
    visitors.settle();
    assert_eq!(visitors.let_through(), [(1, 0), (3, 0)]);
}

#[test]
fn a_window_lets_its_line_in_when_it_opens() {
    let mut visitors = Visitors::new("{ name: r, limit: 2/s fixed, then: queue 10 up to 2s }");
    (1..=8).for_each(|number| visitors.comes(number, Request::empty()));
    visitors.passes(2_000);
    let gone = visitors.let_through();
    assert_eq!(gone, [(1, 0), (2, 0), (3, 1000), (4, 1000), (5, 2000), (6, 2000)]);
    assert_eq!(visitors.refused(), [(7, 0, 1000), (8, 0, 1000)], "in the window after those");
}

#[test]
fn costs_differ() {
    let mut visitors = Visitors::new("{ name: r, limit: 10/s burst 5, then: queue 9 up to 9s }");
    let cost = |cost| Request::empty().cost(cost);
    visitors.comes(0, cost(5));
    visitors.comes(1, cost(1)); // 100 ms
    visitors.comes(2, cost(5)); // 600
    visitors.comes(3, cost(1)); // 700
    visitors.comes(4, cost(2)); // 900
    visitors.passes(50);
    visitors.leaves(2); // What is behind moves up by half a second.
    visitors.comes(5, cost(1)); // 500
    visitors.passes(1_000);
    assert_eq!(visitors.let_through(), [(0, 0), (1, 100), (3, 200), (4, 400), (5, 500)]);
}

#[test]
fn another_limit_still_has_its_say() {
    let mut visitors = Visitors::new(
        "{ name: all, limit: 10/s burst 1, then: queue 9 up to 5s },
         { name: own, per: user, limit: 2/s burst 1, then: delay up to 5s }",
    );
    visitors.of(1, "ann");
    visitors.of(2, "bob"); // At 100 by the first rule.
    visitors.of(3, "cid"); // 200.
    visitors.of(4, "ann"); // 300 by the first, 500 by the second.
    visitors.passes(1_000);
    assert_eq!(visitors.let_through(), [(1, 0), (2, 100), (3, 200), (4, 500)]);
}

#[test]
fn rules_that_are_replaced_find_the_line_as_it_stands() {
    let mut visitors = Visitors::new("{ name: r, limit: 1 concurrent, then: queue 5 up to 1s }");
    (1..=3).for_each(|number| visitors.comes(number, Request::empty()));
    let rules = "rules: [{ name: r, limit: 2 concurrent, then: queue 5 up to 1s }]";
    visitors.limiter.replace(rules.parse().unwrap());
    visitors.settle();
    assert_eq!(visitors.let_through(), [(1, 0), (2, 0)]);
    assert_eq!(visitors.waiting(), 1);
}

#[test]
fn a_request_without_patience_is_refused_as_ever() {
    let mut visitors = Visitors::new("{ name: r, limit: 10/s burst 1 }");
    (1..=2).for_each(|number| visitors.comes(number, Request::empty()));
    assert_eq!(visitors.refused(), [(2, 0, 100)]);
    visitors.comes(3, Request::empty().patience(Duration::from_millis(150)));
    visitors.passes(100);
    assert_eq!(visitors.let_through(), [(1, 0), (3, 100)]);
}

#[test]
fn what_can_never_pass_does_not_wait() {
    let mut visitors = Visitors::new("{ name: r, limit: 3 concurrent, then: queue 5 up to 1s }");
    visitors.comes(1, Request::empty().cost(4));
    assert_eq!(visitors.done[0].2.reason, tollgate::rules::Reason::NeverFits);
}

#[test]
fn a_leaky_limit_says_when_its_line_has_room_again() {
    for limit in ["10/s leaky burst 6", "10/s leaky burst 50", "10/s leaky burst 3"] {
        let rule = format!("{{ name: r, limit: {limit}, then: delay up to 500ms }}");
        let mut visitors = Visitors::new(&rule);
        (1..=20).for_each(|number| visitors.comes(number, Request::empty()));
        let (_, _, retry) = visitors.refused()[0];
        visitors.passes(retry - 1);
        visitors.comes(30, Request::empty());
        assert_eq!(visitors.refused().last().unwrap().0, 30, "{limit}: a little too early");
        visitors.passes(1);
        visitors.comes(31, Request::empty());
        visitors.passes(1_000);
        assert_eq!(visitors.let_through().last().unwrap().0, 31, "{limit}: after {retry} ms");
    }
}
