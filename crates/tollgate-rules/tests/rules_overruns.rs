//! Overruns while the store does not answer.

mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use support::failing_store::Fixture;
use support::{Settlements, block_on};
use tollgate_rules::{AdjustTarget, Adjustment, Decision, Outcome, SettledAs};

fn fixture(limit: &str) -> (Fixture, Settlements) {
    let fixture = Fixture::new(&format!(
        "attributes: [response.tokens, user]\nrules: [{{ name: api, per: user, on_error: local, limit: {limit}, \
         cost: {{ reserve: body.max, settle: response.tokens }} }}]"
    ));
    let settlements = fixture.settlements.clone();
    (fixture, settlements)
}

fn reserve(fixture: &Fixture, tokens: i64) -> Decision {
    let decision = block_on(fixture.limiter.decide(&Fixture::ann().attribute("body.max", tokens)));
    assert!(decision.allowed, "{decision}");
    decision
}

fn settle(decision: &Decision, tokens: i64) -> bool {
    let outcome = Fixture::ann().attribute("response.tokens", tokens);
    block_on(decision.admission().unwrap().settle(Outcome::of(&outcome))).is_ok()
}

/// Returns the remaining amount of a limit of `all`, as the store knows it.
fn left(fixture: &Fixture, all: u64) -> u64 {
    let peeked = block_on(fixture.limiter.adjust(&Fixture::ann(), Adjustment::Peek)).unwrap();
    let verdict = peeked.tightest().unwrap().verdict;
    assert_eq!(verdict.limit, all);
    verdict.remaining
}

#[test]
fn an_unreported_overrun_is_charged_when_the_store_is_back() {
    let (fixture, settlements) = fixture("1000/h fixed");
    let decision = reserve(&fixture, 100);
    fixture.down(true);
    assert!(settle(&decision, 400));
    assert!(settle(&decision, 4_000), "settled once");
    fixture.down(false);
    assert_eq!(left(&fixture, 1_000), 900, "no request was decided yet");
    reserve(&fixture, 1);
    assert_eq!(left(&fixture, 1_000), 1_000 - 100 - 300 - 1);
    reserve(&fixture, 1);
    assert_eq!(left(&fixture, 1_000), 1_000 - 100 - 300 - 2, "it was charged once");
    assert_eq!(fixture.store.spends.load(Ordering::Relaxed), 1);
    assert_eq!(*settlements.lock().unwrap(), [SettledAs::Owed]);
}

#[test]
fn a_large_overrun_becomes_debt_when_the_store_is_back() {
    let (fixture, _) = fixture("1000/h");
    let calls: Vec<Decision> = (0..3).map(|_| reserve(&fixture, 10)).collect();
    fixture.down(true);
    calls.iter().for_each(|call| assert!(settle(call, 1_010)));
    fixture.down(false);
    let refused = block_on(fixture.limiter.decide(&Fixture::ann().attribute("body.max", 1)));
    assert!(!refused.allowed);
    // 3,031 must refill, at 1,000 an hour, before one of 1,000 is left.
    assert_eq!(refused.retry_after.unwrap(), Duration::from_millis(3_600 * 2_031));
}

#[test]
fn a_later_charge_has_the_same_effect_as_an_immediate_one() {
    for limit in ["3600/h", "600/h burst 3600", "3600/h fixed", "3600/h log"] {
        for wait in [0, 100, 599, 601, 900, 1_199, 1_300, 3_599, 3_601, 9_000] {
            let [later, immediate] = [true, false].map(|is_down| {
                let (fixture, _) = fixture(limit);
                let decision = reserve(&fixture, 600);
                fixture.clock.advance(Duration::from_secs(7));
                fixture.down(is_down);
                assert!(settle(&decision, 1_200));
                fixture.clock.advance(Duration::from_secs(wait));
                fixture.down(false);
                reserve(&fixture, 1);
                left(&fixture, 3_600)
            });
            assert_eq!(later, immediate, "{limit} after {wait} s");
        }
    }
}

#[test]
fn a_charge_that_may_have_arrived_is_not_made_again() {
    let (fixture, settlements) = fixture("1000/h fixed");
    let decision = reserve(&fixture, 100);
    fixture.store.loses_answers.store(true, Ordering::Relaxed);
    assert!(!settle(&decision, 400));
    fixture.store.loses_answers.store(false, Ordering::Relaxed);
    reserve(&fixture, 1);
    assert_eq!(left(&fixture, 1_000), 1_000 - 400 - 1);
    assert_eq!(*settlements.lock().unwrap(), [SettledAs::Kept], "the charge is unknown");
}

#[test]
fn a_failed_refund_stays_charged() {
    let (fixture, settlements) = fixture("1000/h fixed");
    let decision = reserve(&fixture, 400);
    fixture.down(true);
    assert!(!settle(&decision, 100));
    fixture.down(false);
    reserve(&fixture, 1);
    assert_eq!(left(&fixture, 1_000), 1_000 - 400 - 1);
    assert_eq!(*settlements.lock().unwrap(), [SettledAs::Kept]);
}

#[test]
fn a_failed_refund_can_be_repeated_also_after_its_expiry() {
    let (fixture, settlements) = fixture("1000/day fixed");
    let decision = reserve(&fixture, 400);
    fixture.down(true);
    assert!(!settle(&decision, 100));
    assert!(!settle(&decision, 100));
    fixture.clock.advance(Duration::from_secs(601));
    fixture.down(false);
    assert!(settle(&decision, 100));
    assert!(settle(&decision, 0), "settled once");
    assert_eq!(left(&fixture, 1_000), 900);
    let kept_twice = [SettledAs::Kept, SettledAs::Kept, SettledAs::Refunded];
    assert_eq!(*settlements.lock().unwrap(), kept_twice);
}

#[test]
fn a_refund_that_may_have_arrived_is_not_made_again() {
    let (fixture, _) = fixture("1000/h fixed");
    let decision = reserve(&fixture, 400);
    reserve(&fixture, 500);
    fixture.store.loses_answers.store(true, Ordering::Relaxed);
    assert!(!settle(&decision, 100));
    fixture.store.loses_answers.store(false, Ordering::Relaxed);
    assert!(settle(&decision, 100));
    assert_eq!(left(&fixture, 1_000), 1_000 - 500 - 100, "refunded once");
}

#[test]
fn a_failed_cancellation_can_be_repeated() {
    let (fixture, _) = fixture("1000/h fixed");
    let decision = reserve(&fixture, 400);
    let cancel = || block_on(decision.admission().unwrap().cancel()).is_ok();
    fixture.down(true);
    assert!(!cancel());
    fixture.down(false);
    assert!(cancel() && cancel());
    assert_eq!(left(&fixture, 1_000), 1_000);
    reserve(&fixture, 10);
    assert!(cancel(), "cancelled once");
    assert_eq!(left(&fixture, 1_000), 990);
}

#[test]
fn a_repeated_settlement_charges_an_overrun_of_another_rule_once() {
    let fixture = Fixture::new(
        "
attributes: [response.input, response.tokens, user]
rules:
  - { name: out, per: user, limit: 1000/h fixed, on_error: local, cost: { reserve: body.max, settle: response.tokens } }
  - { name: in, per: user, limit: 500/h fixed, on_error: local, cost: { reserve: 100, settle: response.input } }
",
    );
    let decision = reserve(&fixture, 400);
    let outcome = Fixture::ann().attribute("response.tokens", 100).attribute("response.input", 150);
    let settle = || block_on(decision.admission().unwrap().settle(Outcome::of(&outcome))).is_ok();
    fixture.down(true);
    assert!(!settle());
    fixture.down(false);
    assert!(settle() && settle());
    let next = Fixture::ann().attribute("body.max", 1);
    assert!(block_on(fixture.limiter.decide(&next)).allowed);
    let peeked = block_on(fixture.limiter.adjust(&Fixture::ann(), Adjustment::Peek)).unwrap();
    let left: Vec<u64> = peeked.limits().map(|limit| limit.verdict.remaining).collect();
    assert_eq!(left, [1_000 - 100 - 1, 500 - 150 - 100]);
}

#[test]
fn overruns_of_local_shares_are_charged_too() {
    let (fixture, settlements) = fixture("1000/h fixed");
    fixture.down(true);
    let decision = reserve(&fixture, 100);
    assert!(settle(&decision, 240));
    let refused = block_on(fixture.limiter.decide(&Fixture::ann().attribute("body.max", 11)));
    assert!(!refused.allowed, "a fourth of the limit has 10 left");
    fixture.down(false);
    reserve(&fixture, 1);
    assert_eq!(left(&fixture, 1_000), 1_000 - 240 - 1);
    assert_eq!(*settlements.lock().unwrap(), [SettledAs::Owed]);
}

#[test]
fn a_reset_key_owes_nothing() {
    let (fixture, _) = fixture("1000/h fixed");
    let decision = reserve(&fixture, 100);
    fixture.down(true);
    assert!(settle(&decision, 400));
    fixture.down(false);
    let target = AdjustTarget::Key { domain: None, rule: "api", key: "ann" };
    let reset = block_on(fixture.limiter.adjust(target, Adjustment::Reset)).unwrap();
    assert_eq!(reset.rule(), Some("api"));
    reserve(&fixture, 1);
    assert_eq!(left(&fixture, 1_000), 999);
}
