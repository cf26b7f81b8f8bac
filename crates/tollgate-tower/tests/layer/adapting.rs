//! What an adaptive limit learns from the life of a request. `aimd` moves at every one of them:
//! one more for an answer, less for a drop.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tollgate::testing::ManualClock;
use tollgate_rules::RuleLimiter;
use tollgate_tower::lifecycle::{RequestEnd, RequestLifecycle, observe};
use tollgate_tower::request_head::RequestHead;

use super::serve::ready;

struct AdaptiveLimit {
    clock: ManualClock,
    limiter: RuleLimiter,
    head: http::request::Parts,
}

impl AdaptiveLimit {
    fn new() -> AdaptiveLimit {
        let clock = ManualClock::new();
        let rules = "rules: [{ name: r, limit: adaptive 1..9 concurrent aimd }]".parse().unwrap();
        let limiter = RuleLimiter::builder().clock(&clock).build(rules);
        let (head, ()) = http::Request::get("/").body(()).unwrap().into_parts();
        AdaptiveLimit { clock, limiter, head }
    }

    /// A request that is let through.
    fn passes(&self) -> RequestLifecycle {
        let request_head = RequestHead::new(&self.head);
        let mut decision = self.limiter.decide_now(&request_head.request());
        assert!(decision.allowed);
        observe(decision.take_admission(), &request_head)
    }

    fn limit(&self) -> u64 {
        let request_head = RequestHead::new(&self.head);
        ready(self.limiter.explain(&request_head.request())).rules[0].limits[0].capacity
    }

    /// The limit after a request that is answered so, at once, and ends so.
    fn after(&self, status: u16, end: RequestEnd) -> u64 {
        let mut lifecycle = self.passes();
        self.clock.advance(Duration::from_millis(1));
        lifecycle.responded(StatusCode::from_u16(status).unwrap(), &HeaderMap::new());
        lifecycle.end(end);
        self.limit()
    }
}

#[test]
fn a_long_answer_is_not_a_slow_one() {
    let limit = AdaptiveLimit::new();
    let mut lifecycle = limit.passes();
    limit.clock.advance(Duration::from_millis(10));
    lifecycle.responded(StatusCode::OK, &HeaderMap::new());
    limit.clock.advance(Duration::from_secs(10)); // It would be taken for a drop after five.
    lifecycle.end(RequestEnd::Complete);
    assert_eq!(limit.limit(), 2);
}

#[test]
fn services_that_are_overloaded_say_so_in_these_ways() {
    for status in [502, 503, 504] {
        let limit = AdaptiveLimit::new();
        assert_eq!(limit.after(200, RequestEnd::Complete), 2);
        assert_eq!(limit.after(status, RequestEnd::Complete), 1, "{status}");
    }
    for status in [200, 404, 429, 500] {
        let limit = AdaptiveLimit::new();
        assert_eq!(limit.after(status, RequestEnd::Complete), 2, "{status}");
    }
    let limit = AdaptiveLimit::new();
    assert_eq!(limit.after(200, RequestEnd::Complete), 2);
    assert_eq!(limit.after(200, RequestEnd::Failed), 1, "it broke off");
    assert_eq!(limit.after(200, RequestEnd::Complete), 2);
    limit.passes().end(RequestEnd::Failed);
    assert_eq!(limit.limit(), 1, "it never answered");
}

#[test]
fn a_client_that_leaves_says_nothing_unless_the_answer_had_begun() {
    let limit = AdaptiveLimit::new();
    drop(limit.passes());
    assert_eq!(limit.limit(), 1);
    limit.clock.advance(Duration::from_secs(9));
    drop(limit.passes());
    assert_eq!(limit.limit(), 1);
    assert_eq!(limit.after(200, RequestEnd::ClientLeft), 2);
}

#[test]
fn a_rerouted_request_counts_as_dropped() {
    let limit = AdaptiveLimit::new();
    assert_eq!(limit.after(200, RequestEnd::Complete), 2);
    let mut lifecycle = limit.passes();
    lifecycle.rerouted();
    lifecycle.responded(StatusCode::OK, &HeaderMap::new());
    lifecycle.end(RequestEnd::Complete);
    assert_eq!(limit.limit(), 1);
}
