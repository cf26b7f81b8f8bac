//! Requests that may go to one of several upstreams, each of which has a line of its own.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::Request;
use tollgate::rules::Reason;

use crate::support::block_on;
use crate::visitors::Visitors;

const PLACES: &str =
    "{ name: up, per: upstream, limit: 1 concurrent lease 1h, then: queue 9 up to 10s }";

fn to(upstream: &'static str) -> Request<'static> {
    Request::empty().attribute("upstream", upstream)
}

#[test]
fn nobody_overtakes_who_waits_at_the_same_upstream() {
    let mut visitors = Visitors::new(PLACES);
    (1..=2).for_each(|number| visitors.comes(number, to("a")));
    let held = visitors.done[0].2.clone();
    visitors.limiter.release(&held, Duration::from_millis(1));
    // The place is free, and whoever waits for it has not asked yet.
    assert!(block_on(visitors.limiter.admit_if_free(&to("a"))).is_none());
    visitors.settle();
    assert_eq!(visitors.let_through(), [(1, 0), (2, 0)]);
}

#[test]
fn a_full_upstream_holds_nobody_back_and_is_charged_nothing() {
    let rate = "{ name: up, per: upstream, limit: 10/s leaky burst 1, then: delay up to 10s }";
    for rule in [PLACES, rate] {
        let visitors = Visitors::new(rule);
        let ask = |upstream| block_on(visitors.limiter.admit_if_free(&to(upstream)));
        assert!(ask("a").is_some_and(|decision| decision.allowed), "{rule}");
        assert!(ask("a").is_none() && ask("a").is_none(), "{rule}");
        assert!(ask("b").is_some_and(|decision| decision.allowed), "{rule}");
        assert_eq!(visitors.waiting(), 0);
        // Only one was charged to the first.
        visitors.clock.advance(Duration::from_millis(100));
        let is_free = ask("a").is_some();
        assert_eq!(is_free, rule == rate, "{rule}");
    }
}

#[test]
fn what_another_rule_says_is_waited_for_at_any_upstream() {
    let even = "{ name: even, limit: 10/s leaky burst 1, then: queue 9 up to 10s }";
    let one = "{ name: even, limit: 1 concurrent, then: queue 9 up to 10s }";
    for rule in [even, one] {
        let visitors = Visitors::new(&format!("{rule}, {PLACES}"));
        let limiter = &visitors.limiter;
        let first = block_on(limiter.admit_if_free(&to("a"))).unwrap();
        let request = to("b");
        let mut second = pin!(limiter.admit_if_free(&request));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending(), "{rule}");
        limiter.release(&first, Duration::ZERO);
        visitors.clock.advance(Duration::from_millis(100));
        let Poll::Ready(second) = second.as_mut().poll(&mut context) else { panic!("{rule}") };
        let second = second.expect("its upstream was free");
        assert_eq!((second.allowed, second.wait.as_millis()), (true, 100), "{rule}");
    }
}

/// Refused by a guard that bans, and by each upstream for longer.
#[test]
fn a_request_that_is_tried_at_several_upstreams_is_denied_once() {
    let guard =
        "{ name: guard, per: user, limit: 2/min fixed, then: 'ban [1h] after 3 denials in 1min' }";
    let visitors = Visitors::new(&format!("{guard}, {PLACES}"));
    let to = |upstream| to(upstream).attribute("user", "ann");
    let tries = |upstream| block_on(visitors.limiter.admit_if_free(&to(upstream)));
    assert!(tries("a").is_some() && tries("b").is_some());
    for expected in [Reason::OverLimit, Reason::OverLimit, Reason::Banned] {
        assert!(tries("a").is_none());
        assert_eq!(block_on(visitors.limiter.admit(&to("b"))).reason, expected);
    }
}

#[test]
fn who_stands_in_line_is_not_denied_each_time_it_asks() {
    let rule =
        "{ name: r, limit: 1 concurrent lease 1h, then: 'ban [1h] after 3 denials in 1min' }";
    let mut visitors = Visitors::new(rule);
    visitors.comes(1, Request::empty());
    visitors.comes(2, Request::empty().patience(Duration::from_secs(10)));
    for _ in 0..5 {
        // Anything may have come free: it asks.
        let rules = format!("rules: [{rule}]").parse().unwrap();
        visitors.limiter.replace(rules);
        visitors.settle();
    }
    assert_eq!(visitors.waiting(), 1);
    let held = visitors.done[0].2.clone();
    visitors.limiter.release(&held, Duration::from_millis(1));
    visitors.settle();
    assert_eq!(visitors.let_through(), [(1, 0), (2, 0)]);
}

#[test]
fn a_place_at_any_upstream_is_taken_by_who_waited_longest() {
    let rule = "{ name: up, per: upstream, limit: 1 concurrent lease 1h, then: queue 3 up to 10s }";
    let mut visitors = Visitors::new(rule);
    visitors.comes(1, to("a"));
    visitors.comes(2, to("b"));
    // The line is full, which concerns only those who are not in it.
    (3..=5).for_each(|number| visitors.comes_to_any(number, [to("b"), to("a")]));
    for (releases, expected) in [(0, 3), (2, 4)] {
        let held = visitors.done[releases].2.clone();
        visitors.limiter.release(&held, Duration::from_millis(1));
        visitors.settle();
        let (number, _, decision) = visitors.done.last().unwrap();
        assert_eq!((*number, decision.key()), (expected, Some("a")));
    }
    // Its own comes free: it goes there.
    let held = visitors.done[1].2.clone();
    visitors.limiter.release(&held, Duration::from_millis(1));
    visitors.settle();
    let (number, _, decision) = visitors.done.last().unwrap();
    assert_eq!((*number, decision.key()), (5, Some("b")));
    assert!(visitors.limiter.waiting().is_empty());
}

#[test]
fn who_stands_in_line_for_an_upstream_is_not_overtaken_from_another_line() {
    let mut visitors = Visitors::new(PLACES);
    visitors.comes(1, to("a"));
    visitors.comes(2, to("b"));
    visitors.comes_to_any(3, [to("b"), to("a")]);
    visitors.comes(4, to("a"));
    let held = visitors.done[0].2.clone();
    visitors.limiter.release(&held, Duration::from_millis(1));
    // Everybody asks, the third before the fourth.
    visitors.limiter.replace(format!("rules: [{PLACES}]").parse().unwrap());
    visitors.settle();
    let (number, _, decision) = visitors.done.last().unwrap();
    assert_eq!((*number, decision.key(), visitors.waiting()), (4, Some("a"), 1));
}

#[test]
fn who_may_go_anywhere_waits_no_longer_than_the_rule_says() {
    let mut visitors = Visitors::new(PLACES);
    visitors.comes(1, to("a"));
    visitors.comes(2, to("b"));
    visitors.comes_to_any(3, [to("b"), to("a")]);
    visitors.passes(10_000);
    let (number, at, decision) = visitors.done.last().unwrap();
    assert_eq!((*number, *at, decision.allowed), (3, 10_000, false));
    assert_eq!(visitors.waiting(), 0);
}

#[test]
fn what_the_last_of_a_line_leaves_is_for_who_waits_elsewhere() {
    let rule = "{ name: up, per: upstream, limit: 2 concurrent lease 1h, then: queue 9 up to 10s }";
    let mut visitors = Visitors::new(rule);
    for (number, upstream) in [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "a")] {
        visitors.comes(number, to(upstream));
    }
    visitors.comes_to_any(6, [to("b"), to("a")]);
    // Two places come free, of which the one who stands in line there takes one.
    for held in [0, 1].map(|held| visitors.done[held].2.clone()) {
        visitors.limiter.release(&held, Duration::from_millis(1));
    }
    visitors.settle();
    let gone: Vec<usize> = visitors.let_through().iter().map(|(number, _)| *number).collect();
    assert_eq!(gone, [1, 2, 3, 4, 5, 6]);
}
