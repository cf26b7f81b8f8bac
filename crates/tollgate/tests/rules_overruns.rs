//! Costs that turn out higher than what was reserved, while the store cannot be told.
#![cfg(feature = "rules")]

mod support;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::block_on;
use support::shaky::Fixture;
use tollgate::rules::{Adjustment, Decision, KeyAdjustment, SettledAs};

fn fixture(limit: &str) -> (Fixture, Arc<Mutex<Vec<SettledAs>>>) {
    let fixture = Fixture::new(&format!(
        "rules: [{{ name: api, per: user, on_error: local, limit: {limit}, \
         cost: {{ reserve: body.max, settle: response.tokens }} }}]"
    ));
    let all = Arc::new(Mutex::new(Vec::new()));
    let told = all.clone();
    assert!(fixture.limiter.on_settled(move |_, _, as_what| told.lock().unwrap().push(as_what)));
    (fixture, all)
}

fn reserve(fixture: &Fixture, tokens: i64) -> Decision {
    let decision = block_on(fixture.limiter.ask(&Fixture::ann().attribute("body.max", tokens)));
    assert!(decision.allowed, "{decision}");
    decision
}

fn settle(fixture: &Fixture, decision: &Decision, tokens: i64) -> bool {
    let outcome = Fixture::ann().attribute("response.tokens", tokens);
    block_on(fixture.limiter.report(decision, &outcome)).is_ok()
}

/// How much is left of a limit of that many, as far as the store knows.
fn left(fixture: &Fixture, all: u64) -> u64 {
    let peeked = block_on(fixture.limiter.adjust(&Fixture::ann(), Adjustment::Peek)).unwrap();
    let verdict = peeked.tightest().unwrap().verdict;
    assert_eq!(verdict.limit, all);
    verdict.remaining
}

#[test]
fn what_the_store_could_not_be_told_is_charged_when_it_is_back() {
    let (fixture, told) = fixture("1000/h fixed");
    let decision = reserve(&fixture, 100);
    fixture.down(true);
    assert!(settle(&fixture, &decision, 400));
    assert!(settle(&fixture, &decision, 4_000), "settled once");
    fixture.down(false);
    assert_eq!(left(&fixture, 1_000), 900, "nobody has asked yet");
    reserve(&fixture, 1);
    assert_eq!(left(&fixture, 1_000), 1_000 - 100 - 300 - 1);
    reserve(&fixture, 1);
    assert_eq!(left(&fixture, 1_000), 1_000 - 100 - 300 - 2, "it was charged once");
    assert_eq!(fixture.store.spends.load(Ordering::Relaxed), 1);
    assert_eq!(*told.lock().unwrap(), [SettledAs::Owed]);
}

#[test]
fn who_ran_far_over_is_in_debt_when_the_store_is_back() {
    let (fixture, _) = fixture("1000/h");
    let calls: Vec<Decision> = (0..3).map(|_| reserve(&fixture, 10)).collect();
    fixture.down(true);
    calls.iter().for_each(|call| assert!(settle(&fixture, call, 1_010)));
    fixture.down(false);
    let refused = block_on(fixture.limiter.ask(&Fixture::ann().attribute("body.max", 1)));
    assert!(!refused.allowed);
    // 3,031 are to come back, at 1,000 an hour, before one is left of 1,000.
    assert_eq!(refused.retry_after.unwrap(), Duration::from_millis(3_600 * 2_031));
}

#[test]
fn it_is_as_if_the_store_had_been_told() {
    for limit in ["3600/h", "600/h burst 3600", "3600/h fixed", "3600/h log"] {
        for wait in [0, 100, 599, 601, 900, 1_199, 1_300, 3_599, 3_601, 9_000] {
            let [silent, told] = [true, false].map(|is_down| {
                let (fixture, _) = fixture(limit);
                let decision = reserve(&fixture, 600);
                fixture.clock.advance(Duration::from_secs(7));
                fixture.down(is_down);
                assert!(settle(&fixture, &decision, 1_200));
                fixture.clock.advance(Duration::from_secs(wait));
                fixture.down(false);
                reserve(&fixture, 1);
                left(&fixture, 3_600)
            });
            assert_eq!(silent, told, "{limit} after {wait} s");
        }
    }
}

#[test]
fn a_charge_that_may_have_arrived_is_not_made_again() {
    let (fixture, told) = fixture("1000/h fixed");
    let decision = reserve(&fixture, 100);
    fixture.store.loses_answers.store(true, Ordering::Relaxed);
    assert!(!settle(&fixture, &decision, 400));
    fixture.store.loses_answers.store(false, Ordering::Relaxed);
    reserve(&fixture, 1);
    assert_eq!(left(&fixture, 1_000), 1_000 - 400 - 1);
    assert_eq!(*told.lock().unwrap(), [SettledAs::Kept], "nobody can say");
}

#[test]
fn what_was_to_go_back_stays_charged() {
    let (fixture, told) = fixture("1000/h fixed");
    let decision = reserve(&fixture, 400);
    fixture.down(true);
    assert!(!settle(&fixture, &decision, 100));
    fixture.down(false);
    reserve(&fixture, 1);
    assert_eq!(left(&fixture, 1_000), 1_000 - 400 - 1);
    assert_eq!(*told.lock().unwrap(), [SettledAs::Kept]);
}

#[test]
fn overruns_of_this_nodes_share_are_charged_too() {
    let (fixture, told) = fixture("1000/h fixed");
    fixture.down(true);
    let decision = reserve(&fixture, 100);
    assert!(settle(&fixture, &decision, 240));
    let refused = block_on(fixture.limiter.ask(&Fixture::ann().attribute("body.max", 11)));
    assert!(!refused.allowed, "a fourth of the limit has 10 left");
    fixture.down(false);
    reserve(&fixture, 1);
    assert_eq!(left(&fixture, 1_000), 1_000 - 240 - 1);
    assert_eq!(*told.lock().unwrap(), [SettledAs::Owed]);
}

#[test]
fn who_is_reset_owes_nothing() {
    let (fixture, _) = fixture("1000/h fixed");
    let decision = reserve(&fixture, 100);
    fixture.down(true);
    assert!(settle(&fixture, &decision, 400));
    fixture.down(false);
    let reset = fixture.limiter.adjust_key(None, "api", "ann", KeyAdjustment::Reset);
    block_on(reset).unwrap().unwrap();
    reserve(&fixture, 1);
    assert_eq!(left(&fixture, 1_000), 999);
}
