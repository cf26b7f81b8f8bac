//! Requests that are decided without joining a queue are assigned a wait: a rate lets as many wait
//! as a queue has positions.

use std::time::Duration;

use tollgate_rules::{Request, RuleLimiter};

use crate::model::Random;
use crate::test_queue::TestQueue;

/// Equal arrivals are admitted by a queue and decided without one: both let the same requests pass.
#[test]
fn deciding_without_a_queue_lets_as_many_requests_wait_as_a_queue() {
    for (seed, limit) in [
        (1, "5/s leaky burst 1"),
        (2, "7/s leaky burst 3"),
        (3, "3/s burst 4"),
        (4, "20/s burst 1"),
        (5, "90/min leaky burst 2"),
    ] {
        let mut random = Random(seed);
        for places in 1..=4 {
            let rule = format!("{{ name: r, limit: {limit}, then: queue {places} up to 1h }}");
            let mut queue = TestQueue::new(&rule);
            let rules = format!("rules: [{rule}]").parse().unwrap();
            let limiter = RuleLimiter::builder().clock(&queue.clock).build(rules);
            let mut refused = 0;
            for number in 0..200 {
                let waiting = queue.waiting();
                let passed = queue.let_through().len();
                queue.arrive(number, Request::empty());
                let is_in = queue.waiting() > waiting || queue.let_through().len() > passed;
                let asked = limiter.decide_now(&Request::empty());
                let at = queue.now_ms();
                assert_eq!(asked.allowed, is_in, "{rule}: number {number}, at {at} ms");
                assert_eq!(!asked.wait.is_zero(), queue.waiting() > waiting, "{rule}");
                refused += u32::from(!is_in);
                queue.advance_ms(random.below(3) * random.below(150));
            }
            assert!(refused > 0, "{rule}: it was full now and then");
        }
    }
}

#[test]
fn where_the_wait_does_not_determine_the_queue_length_only_the_wait_is_bounded() {
    let waits = |rule: &str, request: Request<'_>| {
        let limiter = TestQueue::new(rule).limiter;
        std::iter::repeat_with(|| limiter.decide_now(&request)).take_while(|it| it.allowed).count()
    };
    let window = "{ name: r, limit: 2/s fixed, then: queue 1 up to 2s }";
    assert_eq!(waits(window, Request::empty()), 6);
    let costly = "{ name: r, limit: 10/s burst 5, then: queue 1 up to 2s }";
    assert_eq!(waits(costly, Request::empty().cost(5)), 5);
    assert_eq!(waits(costly, Request::empty()), 6);
}

#[test]
fn no_request_waits_longer_than_the_rule_says() {
    let limiter =
        TestQueue::new("{ name: r, limit: 10/s burst 1, then: queue 50 up to 250ms }").limiter;
    let waits = [(); 4].map(|()| limiter.decide_now(&Request::empty()).wait);
    assert_eq!(waits, [0, 100, 200, 0].map(Duration::from_millis));
}
