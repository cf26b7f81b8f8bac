//! Who only asks is told how long to wait, and stands in line for as long: a rate lets as many wait
//! as a line has places.

use std::time::Duration;

use tollgate::{Limiter, Request};

use crate::model::Dice;
use crate::visitors::Visitors;

/// The same requests come to a line, and only ask: both let the same ones pass, at the same time.
#[test]
fn a_rate_that_is_asked_lets_as_many_wait_as_one_that_holds_them_back() {
    for (seed, limit) in [
        (1, "5/s leaky burst 1"),
        (2, "7/s leaky burst 3"),
        (3, "3/s burst 4"),
        (4, "20/s burst 1"),
        (5, "90/min leaky burst 2"),
    ] {
        let mut dice = Dice(seed);
        for places in 1..=4 {
            let rule = format!("{{ name: r, limit: {limit}, then: queue {places} up to 1h }}");
            let mut visitors = Visitors::new(&rule);
            let rules = format!("rules: [{rule}]").parse().unwrap();
            let limiter = Limiter::builder().clock(&visitors.clock).build_rules(rules);
            let mut refused = 0;
            for number in 0..200 {
                let standing = visitors.waiting();
                let passed = visitors.let_through().len();
                visitors.comes(number, Request::empty());
                let is_in = visitors.waiting() > standing || visitors.let_through().len() > passed;
                let asked = limiter.decide(&Request::empty());
                let at = visitors.now_ms();
                assert_eq!(asked.allowed, is_in, "{rule}: number {number}, at {at} ms");
                assert_eq!(!asked.wait.is_zero(), visitors.waiting() > standing, "{rule}");
                refused += u32::from(!is_in);
                visitors.passes(dice.below(3) * dice.below(150));
            }
            assert!(refused > 0, "{rule}: it was full now and then");
        }
    }
}

#[test]
fn where_time_does_not_tell_how_many_wait_only_time_bounds_them() {
    let waits = |rule: &str, request: Request<'_>| {
        let limiter = Visitors::new(rule).limiter;
        std::iter::repeat_with(|| limiter.decide(&request)).take_while(|it| it.allowed).count()
    };
    let window = "{ name: r, limit: 2/s fixed, then: queue 1 up to 2s }";
    assert_eq!(waits(window, Request::empty()), 6);
    let costly = "{ name: r, limit: 10/s burst 5, then: queue 1 up to 2s }";
    assert_eq!(waits(costly, Request::empty().cost(5)), 5);
    assert_eq!(waits(costly, Request::empty()), 6);
}

#[test]
fn nobody_waits_for_longer_than_the_rule_says() {
    let limiter =
        Visitors::new("{ name: r, limit: 10/s burst 1, then: queue 50 up to 250ms }").limiter;
    let waits = [(); 4].map(|()| limiter.decide(&Request::empty()).wait);
    assert_eq!(waits, [0, 100, 200, 0].map(Duration::from_millis));
}
