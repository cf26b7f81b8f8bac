//! What an adaptive limit learns from the life of a request. `aimd` moves at every one of them:
//! one more for an answer, less for a drop.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tollgate::Limiter;
use tollgate::rules::RuleLimiter;
use tollgate::testing::ManualClock;
use tollgate_tower::arrival::Arrival;
use tollgate_tower::passage::{End, Passage, follow};

struct Place {
    clock: ManualClock,
    limiter: RuleLimiter,
    head: http::request::Parts,
}

impl Place {
    fn new() -> Place {
        let clock = ManualClock::new();
        let rules = "rules: [{ name: r, limit: adaptive 1..9 concurrent aimd }]".parse().unwrap();
        let limiter = Limiter::builder().clock(&clock).build_rules(rules);
        let (head, ()) = http::Request::get("/").body(()).unwrap().into_parts();
        Place { clock, limiter, head }
    }

    /// A request that is let through.
    fn passes(&self) -> Passage {
        let arrival = Arrival::new(&self.head);
        let decision = self.limiter.decide(&arrival.request());
        assert!(decision.allowed);
        follow(&self.limiter, decision, &arrival)
    }

    fn limit(&self) -> u64 {
        let arrival = Arrival::new(&self.head);
        self.limiter.explain(&arrival.request()).rules[0].limits[0].capacity
    }

    /// The limit after a request that is answered so, at once, and ends so.
    fn after(&self, status: u16, end: End) -> u64 {
        let mut passage = self.passes();
        self.clock.advance(Duration::from_millis(1));
        passage.answered(StatusCode::from_u16(status).unwrap(), &HeaderMap::new());
        passage.end(end);
        self.limit()
    }
}

#[test]
fn a_long_answer_is_not_a_slow_one() {
    let place = Place::new();
    let mut passage = place.passes();
    place.clock.advance(Duration::from_millis(10));
    passage.answered(StatusCode::OK, &HeaderMap::new());
    place.clock.advance(Duration::from_secs(10)); // It would be taken for a drop after five.
    passage.end(End::Whole);
    assert_eq!(place.limit(), 2);
}

#[test]
fn services_that_are_overloaded_say_so_in_these_ways() {
    for status in [502, 503, 504] {
        let place = Place::new();
        assert_eq!(place.after(200, End::Whole), 2);
        assert_eq!(place.after(status, End::Whole), 1, "{status}");
    }
    for status in [200, 404, 429, 500] {
        let place = Place::new();
        assert_eq!(place.after(status, End::Whole), 2, "{status}");
    }
    let place = Place::new();
    assert_eq!(place.after(200, End::Whole), 2);
    assert_eq!(place.after(200, End::Broken), 1, "it broke off");
    assert_eq!(place.after(200, End::Whole), 2);
    place.passes().end(End::Broken);
    assert_eq!(place.limit(), 1, "it never answered");
}

#[test]
fn a_client_that_leaves_says_nothing_unless_the_answer_had_begun() {
    let place = Place::new();
    drop(place.passes());
    assert_eq!(place.limit(), 1);
    place.clock.advance(Duration::from_secs(9));
    drop(place.passes());
    assert_eq!(place.limit(), 1);
    assert_eq!(place.after(200, End::Gone), 2);
}

#[test]
fn who_was_missed_counts_as_a_drop_though_somebody_else_answered() {
    let place = Place::new();
    assert_eq!(place.after(200, End::Whole), 2);
    let mut passage = place.passes();
    passage.missed();
    passage.answered(StatusCode::OK, &HeaderMap::new());
    passage.end(End::Whole);
    assert_eq!(place.limit(), 1);
}
