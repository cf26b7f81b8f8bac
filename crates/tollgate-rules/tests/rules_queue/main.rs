//! Queued requests under virtual time.

mod decide_only;
mod model;
#[path = "../support/mod.rs"]
mod support;
mod test_queue;
mod threads;
mod upstreams;

use std::time::Duration;

use test_queue::TestQueue;
use tollgate_rules::Request;

#[test]
fn the_outflow_of_a_leaky_queue_is_exactly_the_rate() {
    let mut queue =
        TestQueue::new("{ name: r, limit: 1k/s leaky burst 1, then: queue 100 up to 1s }");
    let mut number = 0;
    for _ in 0..10_000 {
        // Twice as many requests arrive as may pass, at irregular times.
        for _ in 0..(number * 7 % 5) {
            number += 1;
            queue.arrive(number, Request::empty());
        }
        number += 1;
        queue.arrive(number, Request::empty());
        queue.advance_ms(1);
        assert!(queue.waiting() <= 100);
    }
    let gone = queue.let_through();
    let times: Vec<u64> = gone.iter().map(|(_, at)| *at).collect();
    assert_eq!(times, (0..=10_000).collect::<Vec<_>>(), "one each millisecond, none missed");
    assert!(gone.is_sorted(), "first come, first served");
    assert!(!queue.refused().is_empty());
}

#[test]
fn a_full_queue_refuses_at_once_and_returns_when_a_position_becomes_free() {
    let mut queue = TestQueue::new("{ name: r, limit: 10/s burst 1, then: queue 2 up to 5s }");
    (1..=4).for_each(|number| queue.arrive(number, Request::empty()));
    assert_eq!(queue.let_through(), [(1, 0)]);
    assert_eq!(queue.refused(), [(4, 0, 100)]);
    queue.advance_ms(99);
    queue.arrive(5, Request::empty());
    assert_eq!(queue.refused()[1], (5, 99, 1));
    queue.advance_ms(1);
    queue.arrive(6, Request::empty());
    queue.advance_ms(200);
    assert_eq!(queue.let_through(), [(1, 0), (2, 100), (3, 200), (6, 300)]);
    let waited: Vec<_> = queue.done.iter().map(|(.., it)| it.wait.as_millis()).collect();
    assert_eq!(waited, [0, 0, 0, 100, 200, 200]);
}

#[test]
fn a_request_that_would_wait_too_long_is_refused_at_once() {
    let mut queue = TestQueue::new("{ name: r, limit: 10/s burst 1, then: queue 50 up to 250ms }");
    (1..=5).for_each(|number| queue.arrive(number, Request::empty()));
    // The next slot is in 300 ms; in 50 ms it is within the 250 ms of the rule.
    assert_eq!(queue.refused(), [(4, 0, 50), (5, 0, 50)]);
    queue.advance_ms(49);
    queue.arrive(6, Request::empty());
    assert_eq!(queue.refused()[2], (6, 49, 1));
    queue.advance_ms(1);
    queue.arrive(7, Request::empty());
    queue.advance_ms(250);
    assert_eq!(queue.let_through(), [(1, 0), (2, 100), (3, 200), (7, 300)]);
}

#[test]
fn a_cancelled_request_frees_its_position_and_later_ones_move_up() {
    let mut queue = TestQueue::new("{ name: r, limit: 10/s burst 1, then: queue 4 up to 5s }");
    (1..=5).for_each(|number| queue.arrive(number, Request::empty()));
    assert!(queue.cancel(2));
    assert_eq!(queue.waiting(), 3);
    queue.arrive(6, Request::empty());
    queue.advance_ms(100);
    assert!(queue.cancel(5));
    queue.advance_ms(400);
    assert_eq!(queue.let_through(), [(1, 0), (3, 100), (4, 200), (6, 300)]);
    // The charges of cancelled requests were refunded: the next slot is 100 ms after the last.
    queue.advance_ms(1);
    queue.arrive(7, Request::empty());
    assert_eq!(queue.let_through()[4], (7, 501));
}

#[test]
fn the_next_request_watches_the_clock_when_the_first_is_cancelled() {
    let mut queue = TestQueue::new("{ name: r, limit: 10/s burst 1, then: delay up to 5s }");
    (1..=6).for_each(|number| queue.arrive(number, Request::empty()));
    queue.advance_ms(50);
    (2..=5).for_each(|number| assert!(queue.cancel(number)));
    queue.advance_ms(50);
    assert_eq!(queue.let_through(), [(1, 0), (6, 100)]);
}

#[test]
fn the_newest_goes_first_and_the_oldest_not_later_than_it_may() {
    let mut queue =
        TestQueue::new("{ name: r, limit: 10/s burst 1, then: queue 10 up to 400ms lifo }");
    (1..=4).for_each(|number| queue.arrive(number, Request::empty()));
    queue.advance_ms(150);
    queue.arrive(5, Request::empty());
    queue.advance_ms(100);
    queue.arrive(6, Request::empty());
    queue.advance_ms(400);
    assert_eq!(queue.let_through(), [(1, 0), (4, 100), (5, 200), (6, 300), (3, 400)]);
    assert_eq!(queue.refused()[0].0, 2);
    assert_eq!(queue.refused()[0].1, 400);
}

#[test]
fn keys_share_the_queue_capacity_of_a_rule() {
    let mut queue =
        TestQueue::new("{ name: r, per: user, limit: 10/s burst 1, then: queue 4 up to 5s }");
    (1..=5).for_each(|number| queue.arrive_as(number, "loud"));
    assert_eq!(queue.waiting(), 4, "alone, one key may use all");
    queue.arrive_as(11, "ann");
    queue.arrive_as(12, "ann"); // Passed at once, then takes the place of number 5.
    assert_eq!(queue.refused(), [(5, 0, 100)]);
    queue.arrive_as(13, "ann"); // And of number 4.
    assert_eq!(queue.refused()[1], (4, 0, 100));
    queue.arrive_as(14, "ann"); // Two each: fair.
    assert_eq!(queue.refused()[2], (14, 0, 100));
    queue.arrive_as(6, "loud");
    assert_eq!(queue.refused()[3], (6, 0, 100));
    queue.advance_ms(300);
    let mut gone = queue.let_through();
    gone.sort_unstable();
    assert_eq!(gone, [(1, 0), (2, 100), (3, 200), (11, 0), (12, 100), (13, 200)]);
}

#[test]
fn tenants_of_a_fair_rule_go_in_turn() {
    let mut queue = TestQueue::new(
        "{ name: r, limit: 10/s burst 1, fair: { by: user }, then: queue 6 up to 5s }",
    );
    (1..=5).for_each(|number| queue.arrive_as(number, "loud"));
    queue.arrive_as(11, "ann");
    queue.arrive_as(12, "ann");
    queue.advance_ms(700);
    let order: Vec<usize> = queue.let_through().iter().map(|(number, _)| *number).collect();
    assert_eq!(order, [1, 2, 11, 3, 12, 4, 5]);
}

#[test]
fn a_released_permit_goes_to_the_first_request() {
    let mut queue = TestQueue::new("{ name: r, limit: 1 concurrent, then: queue 2 up to 1s }");
    (1..=4).for_each(|number| queue.arrive(number, Request::empty()));
    assert_eq!(queue.let_through(), [(1, 0)]);
    // A position becomes free at the latest when the first request runs out of patience.
    assert_eq!(queue.refused(), [(4, 0, 1000)]);
    queue.advance_ms(300);
    let held = queue.done[0].2.clone();
    support::release(&held, Duration::from_millis(300));
    queue.arrive(5, Request::empty());
    queue.poll_woken();
    assert_eq!(queue.let_through(), [(1, 0), (2, 300)], "a queued request is not overtaken");
    queue.advance_ms(699);
    assert_eq!(queue.waiting(), 2);
    queue.advance_ms(1);
    assert_eq!(queue.refused()[1].0, 3, "for a second, and no longer");
    assert_eq!(queue.waiting(), 1);
}

#[test]
fn the_next_request_retries_when_the_first_is_cancelled() {
    let mut queue = TestQueue::new("{ name: r, limit: 1 concurrent, then: queue 5 up to 1s lifo }");
    (1..=4).for_each(|number| queue.arrive(number, Request::empty()));
    queue.cancel(4);
    let held = queue.done[0].2.clone();
    support::release(&held, Duration::from_millis(1));
    queue.poll_woken();
    assert_eq!(queue.let_through(), [(1, 0), (3, 0)]);
}

#[test]
fn a_window_lets_its_queue_pass_when_it_opens() {
    let mut queue = TestQueue::new("{ name: r, limit: 2/s fixed, then: queue 10 up to 2s }");
    (1..=8).for_each(|number| queue.arrive(number, Request::empty()));
    queue.advance_ms(2_000);
    let gone = queue.let_through();
    assert_eq!(gone, [(1, 0), (2, 0), (3, 1000), (4, 1000), (5, 2000), (6, 2000)]);
    assert_eq!(queue.refused(), [(7, 0, 1000), (8, 0, 1000)], "in the window after those");
}

#[test]
fn costs_differ() {
    let mut queue = TestQueue::new("{ name: r, limit: 10/s burst 5, then: queue 9 up to 9s }");
    let cost = |cost| Request::empty().cost(cost);
    queue.arrive(0, cost(5));
    queue.arrive(1, cost(1)); // 100 ms
    queue.arrive(2, cost(5)); // 600
    queue.arrive(3, cost(1)); // 700
    queue.arrive(4, cost(2)); // 900
    queue.advance_ms(50);
    queue.cancel(2); // What is behind moves up by half a second.
    queue.arrive(5, cost(1)); // 500
    queue.advance_ms(1_000);
    assert_eq!(queue.let_through(), [(0, 0), (1, 100), (3, 200), (4, 400), (5, 500)]);
}

#[test]
fn a_queued_request_also_waits_for_another_limit() {
    let mut queue = TestQueue::new(
        "{ name: all, limit: 10/s burst 1, then: queue 9 up to 5s },
         { name: own, per: user, limit: 2/s burst 1, then: delay up to 5s }",
    );
    queue.arrive_as(1, "ann");
    queue.arrive_as(2, "bob"); // At 100 by the first rule.
    queue.arrive_as(3, "cid"); // 200.
    queue.arrive_as(4, "ann"); // 300 by the first, 500 by the second.
    queue.advance_ms(1_000);
    assert_eq!(queue.let_through(), [(1, 0), (2, 100), (3, 200), (4, 500)]);
}

#[test]
fn a_queue_continues_when_the_rules_are_replaced() {
    let mut queue = TestQueue::new("{ name: r, limit: 1 concurrent, then: queue 5 up to 1s }");
    (1..=3).for_each(|number| queue.arrive(number, Request::empty()));
    let rules = "rules: [{ name: r, limit: 2 concurrent, then: queue 5 up to 1s }]";
    queue.limiter.replace(rules.parse().unwrap());
    queue.poll_woken();
    assert_eq!(queue.let_through(), [(1, 0), (2, 0)]);
    assert_eq!(queue.waiting(), 1);
}

#[test]
fn a_request_without_patience_is_refused_at_once() {
    let mut queue = TestQueue::new("{ name: r, limit: 10/s burst 1 }");
    (1..=2).for_each(|number| queue.arrive(number, Request::empty()));
    assert_eq!(queue.refused(), [(2, 0, 100)]);
    queue.arrive(3, Request::empty().patience(Duration::from_millis(150)));
    queue.advance_ms(100);
    assert_eq!(queue.let_through(), [(1, 0), (3, 100)]);
}

#[test]
fn a_request_that_can_never_pass_does_not_wait() {
    let mut queue = TestQueue::new("{ name: r, limit: 3 concurrent, then: queue 5 up to 1s }");
    queue.arrive(1, Request::empty().cost(4));
    assert_eq!(queue.done[0].2.reason, tollgate_rules::Reason::NeverFits);
}

#[test]
fn a_leaky_limit_returns_when_its_queue_has_capacity_again() {
    for limit in ["10/s leaky burst 6", "10/s leaky burst 50", "10/s leaky burst 3"] {
        let rule = format!("{{ name: r, limit: {limit}, then: delay up to 500ms }}");
        let mut queue = TestQueue::new(&rule);
        (1..=20).for_each(|number| queue.arrive(number, Request::empty()));
        let (_, _, retry) = queue.refused()[0];
        queue.advance_ms(retry - 1);
        queue.arrive(30, Request::empty());
        assert_eq!(queue.refused().last().unwrap().0, 30, "{limit}: a little too early");
        queue.advance_ms(1);
        queue.arrive(31, Request::empty());
        queue.advance_ms(1_000);
        assert_eq!(queue.let_through().last().unwrap().0, 31, "{limit}: after {retry} ms");
    }
}
