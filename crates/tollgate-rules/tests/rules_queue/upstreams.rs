//! Requests that may go to one of several upstreams, each of which has its own queue.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate_rules::{Reason, Request};

use crate::support::{block_on, release};
use crate::test_queue::TestQueue;

const PERMITS: &str =
    "{ name: up, per: upstream, limit: 1 concurrent lease 1h, then: queue 9 up to 10s }";

/// The attribute that names the upstream.
const BY: &str = "upstream";

fn to(upstream: &'static str) -> Request<'static> {
    Request::empty().attribute("upstream", upstream)
}

#[test]
fn an_arriving_request_does_not_overtake_one_that_waits_for_the_upstream() {
    let mut queue = TestQueue::new(PERMITS);
    (1..=2).for_each(|number| queue.arrive(number, to("a")));
    let held = queue.done[0].2.clone();
    release(&held, Duration::from_millis(1));
    // The permit is free, but the request that waits for it has not retried yet.
    let (decision, alternative) = block_on(queue.limiter.admit_any(&[to("a"), to("b")], BY));
    assert_eq!((decision.allowed, alternative), (true, 1));
    queue.poll_woken();
    assert_eq!(queue.let_through(), [(1, 0), (2, 0)]);
}

#[test]
fn a_full_upstream_delays_no_request_and_is_not_charged() {
    let rate = "{ name: up, per: upstream, limit: 10/s leaky burst 1, then: delay up to 10s }";
    for rule in [PERMITS, rate] {
        let queue = TestQueue::new(rule);
        // The decisions are kept, because dropping them would return the permits.
        let mut admitted = Vec::new();
        let mut ask = |upstreams: [&'static str; 2]| {
            let (decision, alternative) = block_on(queue.limiter.admit_any(&upstreams.map(to), BY));
            assert!(decision.allowed && decision.wait.is_zero(), "{rule}");
            admitted.push(decision);
            upstreams[alternative]
        };
        assert_eq!(ask(["a", "b"]), "a", "{rule}");
        assert_eq!([ask(["a", "b"]), ask(["a", "c"]), ask(["a", "d"])], ["b", "c", "d"], "{rule}");
        assert_eq!(queue.waiting(), 0);
        // Only one request was charged to the first upstream.
        queue.clock.advance(Duration::from_millis(100));
        let is_free = ask(["a", "e"]) == "a";
        assert_eq!(is_free, rule == rate, "{rule}");
    }
}

#[test]
fn a_request_waits_for_another_rule_at_any_upstream() {
    let even = "{ name: even, limit: 10/s leaky burst 1, then: queue 9 up to 10s }";
    let one = "{ name: even, limit: 1 concurrent, then: queue 9 up to 10s }";
    for rule in [even, one] {
        let queue = TestQueue::new(&format!("{rule}, {PERMITS}"));
        let limiter = &queue.limiter;
        let first = block_on(limiter.admit(&to("a")));
        let alternatives = [to("b"), to("c")];
        let mut second = pin!(limiter.admit_any(&alternatives, BY));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending(), "{rule}");
        release(&first, Duration::ZERO);
        queue.clock.advance(Duration::from_millis(100));
        let Poll::Ready(second) = second.as_mut().poll(&mut context) else { panic!("{rule}") };
        let (second, 0) = second else { panic!("its upstream was free") };
        assert_eq!((second.allowed, second.wait.as_millis()), (true, 100), "{rule}");
    }
}

/// The request is refused by a rule that bans, and by each upstream for longer.
#[test]
fn a_request_that_is_tried_at_several_upstreams_is_denied_once() {
    let guard =
        "{ name: guard, per: user, limit: 2/min fixed, then: 'ban [1h] after 3 denials in 1min' }";
    let queue = TestQueue::new(&format!("{guard}, {PERMITS}"));
    let to = |upstream| to(upstream).attribute("user", "ann");
    let tries = || block_on(queue.limiter.admit_any(&[to("a"), to("b")], BY));
    let admitted = [tries(), tries()];
    assert!(admitted.iter().all(|(decision, _)| decision.allowed));
    for expected in [Reason::OverLimit, Reason::OverLimit, Reason::Banned] {
        let (decision, alternative) = tries();
        assert_eq!((decision.reason, alternative), (expected, 1));
    }
}

#[test]
fn a_queued_request_is_not_denied_at_each_retry() {
    let rule =
        "{ name: r, limit: 1 concurrent lease 1h, then: 'ban [1h] after 3 denials in 1min' }";
    let mut queue = TestQueue::new(rule);
    queue.arrive(1, Request::empty());
    queue.arrive(2, Request::empty().patience(Duration::from_secs(10)));
    for _ in 0..5 {
        // Replacing the rules makes the waiting request retry.
        let rules = format!("attributes: [user]\nrules: [{rule}]").parse().unwrap();
        queue.limiter.replace(rules);
        queue.poll_woken();
    }
    assert_eq!(queue.waiting(), 1);
    let held = queue.done[0].2.clone();
    release(&held, Duration::from_millis(1));
    queue.poll_woken();
    assert_eq!(queue.let_through(), [(1, 0), (2, 0)]);
}

#[test]
fn a_permit_of_any_upstream_goes_to_the_oldest_request() {
    let rule = "{ name: up, per: upstream, limit: 1 concurrent lease 1h, then: queue 3 up to 10s }";
    let mut queue = TestQueue::new(rule);
    queue.arrive(1, to("a"));
    queue.arrive(2, to("b"));
    // The queue is full, which affects only arriving requests.
    (3..=5).for_each(|number| queue.arrive_at_any(number, [to("a"), to("b")]));
    for (releases, expected) in [(0, 3), (2, 4)] {
        let held = queue.done[releases].2.clone();
        release(&held, Duration::from_millis(1));
        queue.poll_woken();
        let (number, _, decision) = queue.done.last().unwrap();
        assert_eq!((*number, decision.key()), (expected, Some("a")));
    }
    // The permit of its own upstream becomes free.
    let held = queue.done[1].2.clone();
    release(&held, Duration::from_millis(1));
    queue.poll_woken();
    let (number, _, decision) = queue.done.last().unwrap();
    assert_eq!((*number, decision.key()), (5, Some("b")));
    assert!(queue.limiter.status().queues().is_empty());
}

#[test]
fn a_queued_request_is_not_overtaken_from_another_queue() {
    let mut queue = TestQueue::new(PERMITS);
    queue.arrive(1, to("a"));
    queue.arrive(2, to("b"));
    queue.arrive_at_any(3, [to("a"), to("b")]);
    queue.arrive(4, to("a"));
    let held = queue.done[0].2.clone();
    release(&held, Duration::from_millis(1));
    // All waiting requests retry, the third before the fourth.
    queue.limiter.replace(format!("attributes: [user]\nrules: [{PERMITS}]").parse().unwrap());
    queue.poll_woken();
    let (number, _, decision) = queue.done.last().unwrap();
    assert_eq!((*number, decision.key(), queue.waiting()), (4, Some("a"), 1));
}

#[test]
fn a_request_with_alternatives_waits_no_longer_than_the_rule_says() {
    let mut queue = TestQueue::new(PERMITS);
    queue.arrive(1, to("a"));
    queue.arrive(2, to("b"));
    queue.arrive_at_any(3, [to("a"), to("b")]);
    queue.advance_ms(10_000);
    let (number, at, decision) = queue.done.last().unwrap();
    assert_eq!((*number, *at, decision.allowed), (3, 10_000, false));
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn a_permit_left_over_by_one_queue_goes_to_a_request_in_another() {
    let rule = "{ name: up, per: upstream, limit: 2 concurrent lease 1h, then: queue 9 up to 10s }";
    let mut queue = TestQueue::new(rule);
    for (number, upstream) in [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "a")] {
        queue.arrive(number, to(upstream));
    }
    queue.arrive_at_any(6, [to("a"), to("b")]);
    // Two permits become free; the request that waits for this upstream takes one.
    for held in [0, 1].map(|held| queue.done[held].2.clone()) {
        release(&held, Duration::from_millis(1));
    }
    queue.poll_woken();
    let gone: Vec<usize> = queue.let_through().iter().map(|(number, _)| *number).collect();
    assert_eq!(gone, [1, 2, 3, 4, 5, 6]);
}
