//! Rules while their store fails, and afterwards.

mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use support::block_on;
use support::failing_store::Fixture;
use tollgate_rules::{AdjustTarget, Adjustment, OnError, Reason, Request, RuleLimiter};

fn local(limit: &str) -> Fixture {
    Fixture::new(&format!(
        "attributes: [user]\nrules: [{{ name: api, per: user, limit: {limit}, on_error: local }}]"
    ))
}

#[test]
fn a_node_enforces_its_share_of_the_limit() {
    let fixture = local("12/h fixed");
    assert_eq!(fixture.pass(2), 2);
    fixture.down(true);
    assert_eq!(fixture.pass(10), 3, "a fourth of 12");
    let decision = block_on(fixture.limiter.decide(&Fixture::ann()));
    assert_eq!(decision.without_store(), Some(OnError::Local));
    assert_eq!((decision.reason, decision.code), (Reason::OverLimit, 429));
    assert_eq!(decision.tightest().unwrap().quota.amount, 3);
    fixture.clock.advance(Duration::from_secs(3600));
    assert_eq!(fixture.pass(10), 3, "the next hour");
}

#[test]
fn spending_without_the_store_is_charged_to_it_once() {
    let fixture = local("12/h fixed");
    assert_eq!(fixture.pass(2), 2);
    fixture.down(true);
    assert_eq!(fixture.pass(10), 3);
    assert!(!block_on(fixture.limiter.decide(&Fixture::ann().dry_run())).allowed);
    fixture.down(false);
    assert_eq!(fixture.pass(1), 1);
    assert_eq!(fixture.left(), 12 - 2 - 3 - 1);
    assert_eq!(fixture.pass(20), 6);
    assert_eq!(fixture.store.spends.load(Ordering::Relaxed), 1);
    // A second failure in the same hour grants no second share.
    fixture.down(true);
    assert_eq!(fixture.pass(10), 0);
    fixture.down(false);
    assert_eq!(fixture.pass(1), 0);
    assert_eq!(fixture.store.spends.load(Ordering::Relaxed), 1);
}

#[test]
fn refilled_spending_is_not_charged() {
    let fixture = local("12/h");
    fixture.down(true);
    assert_eq!(fixture.pass(10), 3);
    // A share of 12/4h gives one back every 20 minutes.
    fixture.clock.advance(Duration::from_secs(40 * 60));
    fixture.down(false);
    assert_eq!((fixture.pass(1), fixture.left()), (1, 12 - 1 - 1));

    let fixture = local("12/h fixed");
    fixture.down(true);
    assert_eq!(fixture.pass(10), 3);
    fixture.clock.advance(Duration::from_secs(3600));
    fixture.down(false);
    assert_eq!((fixture.pass(1), fixture.left()), (1, 11));
    assert_eq!(fixture.store.spends.load(Ordering::Relaxed), 0, "forgotten");
}

#[test]
fn a_charge_that_may_have_arrived_is_not_sent_again() {
    let fixture = local("12/h fixed");
    fixture.down(true);
    assert_eq!(fixture.pass(2), 2);
    fixture.down(false);
    fixture.store.loses_answers.store(true, Ordering::Relaxed);
    assert_eq!(fixture.pass(1), 1, "by the share again");
    fixture.store.loses_answers.store(false, Ordering::Relaxed);
    assert_eq!((fixture.pass(1), fixture.left()), (1, 12 - 2 - 1 - 1));
    assert_eq!(fixture.store.spends.load(Ordering::Relaxed), 2, "two, and then the one after");

    // While charges certainly do not arrive, the debt stays.
    fixture.down(true);
    assert_eq!(fixture.pass(5), 0);
    fixture.clock.advance(Duration::from_secs(3600));
    assert_eq!(fixture.pass(2), 2);
    assert_eq!(fixture.pass(1), 1);
    fixture.down(false);
    assert_eq!((fixture.pass(1), fixture.left()), (1, 12 - 3 - 1));
}

#[test]
fn a_reset_key_owes_nothing() {
    let fixture = local("12/h fixed");
    let reset = |fixture: &Fixture| {
        let limiter = &fixture.limiter;
        let target = AdjustTarget::Key { domain: None, rule: "api", key: "ann" };
        assert_eq!(
            block_on(limiter.adjust(target, Adjustment::Reset)).unwrap().rule(),
            Some("api")
        );
    };
    fixture.down(true);
    assert_eq!(fixture.pass(3), 3);
    fixture.down(false);
    reset(&fixture);
    assert_eq!((fixture.pass(1), fixture.left()), (1, 11));
}

#[test]
fn local_permits_are_returned_to_this_process() {
    let fixture = local("8 concurrent");
    fixture.down(true);
    let ask = || block_on(fixture.limiter.decide(&Fixture::ann()));
    let held: Vec<_> = (0..2).map(|_| ask()).collect();
    assert!(held.iter().all(|decision| decision.allowed) && !ask().allowed);
    support::release(&held[0], Duration::ZERO);
    assert!(ask().allowed);
    fixture.down(false);
    assert_eq!(fixture.left(), 8, "places are held, not spent");
}

#[test]
fn distinct_values_are_counted_without_the_store_too() {
    let fixture = Fixture::new(
        "attributes: [device, user]\nrules: [{ name: api, per: user, limit: 8 distinct device/h, on_error: local }]",
    );
    let ask = |device: &str| {
        block_on(fixture.limiter.decide(&Fixture::ann().attribute("device", device.to_owned())))
            .allowed
    };
    fixture.down(true);
    assert!(ask("a") && ask("a") && ask("b") && !ask("c") && ask("b"));
    fixture.down(false);
    assert!(ask("a"), "the value is known to the store by then");
    let more: Vec<bool> = ["c", "d", "e", "f", "g", "h", "i"].map(ask).into();
    assert_eq!(more.iter().filter(|allowed| **allowed).count(), 8 - 2, "{more:?}");
    assert!(ask("b"));
}

#[test]
fn the_strictest_of_several_rules_decides() {
    let rule = |name: &str, on_error: &str, mode: &str| {
        format!(
            "  - {{ name: {name}, per: user, limit: 12/h fixed, on_error: {on_error}{mode} }}\n"
        )
    };
    let three = format!(
        "attributes: [user]\nrules:\n{}{}{}",
        rule("open", "allow", ""),
        rule("share", "local", ""),
        rule("tried", "deny", ", mode: shadow")
    );
    let fixture = Fixture::new(&three);
    fixture.down(true);
    assert_eq!(fixture.pass(10), 3, "a rule in shadow refuses nothing");
    let fixture = Fixture::new(&format!("{three}{}", rule("shut", "deny", "")));
    fixture.down(true);
    let decision = block_on(fixture.limiter.decide(&Fixture::ann()));
    assert_eq!((decision.without_store(), decision.code), (Some(OnError::Deny), 503));
    assert_eq!((decision.reason, decision.rule()), (Reason::StoreFailed, Some("shut")));
    fixture.down(false);
    assert_eq!(block_on(fixture.limiter.decide(&Fixture::ann())).without_store(), None);
}

/// A failing store bans no key and counts no denials.
#[test]
fn no_key_is_newly_banned_without_the_store() {
    let fixture = Fixture::new(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: 4/h fixed, on_error: local, then: ban 1h }]",
    );
    fixture.down(true);
    assert_eq!(fixture.pass(10), 1, "a fourth of 4");
    assert_eq!(fixture.limiter.bans().banned_keys(), 0);
    fixture.down(false);
    assert_eq!(fixture.pass(3), 3, "no key was banned");
    let banned = block_on(fixture.limiter.decide(&Fixture::ann()));
    assert_eq!((banned.reason, banned.starts_ban()), (Reason::Banned, true));
}

/// A ban outlasts the store: given by this node, or by another one and met before the failure.
#[test]
fn bans_stay_in_force_without_the_store() {
    for on_error in ["allow", "local", "deny"] {
        let rules = format!(
            "attributes: [user]\nrules: [{{ name: api, per: user, limit: 4/h fixed, on_error: {on_error}, then: ban 1h }}]"
        );
        let fixture = Fixture::new(&rules);
        let builder = RuleLimiter::builder().store(fixture.store.clone()).clock(&fixture.clock);
        let other_node = builder.build(rules.parse().unwrap());
        assert_eq!(fixture.pass(5), 4, "the fifth is banned");
        let met = block_on(other_node.decide(&Fixture::ann()));
        assert_eq!(met.reason, Reason::Banned, "by the first node");
        fixture.down(true);
        fixture.clock.advance(Duration::from_secs(3_599));
        for node in [&fixture.limiter, &other_node] {
            let banned = block_on(node.decide(&Fixture::ann()));
            assert_eq!((banned.allowed, banned.reason), (false, Reason::Banned), "{on_error}");
            assert_eq!(banned.retry_after, Some(Duration::from_secs(1)), "{on_error}");
            assert_eq!(banned.rule(), Some("api"));
            assert!(banned.without_store().is_some());
            let bob = Request::empty().attribute("user", "bob");
            assert_ne!(block_on(node.decide(&bob)).reason, Reason::Banned);
        }
        fixture.clock.advance(Duration::from_secs(1));
        for node in [&fixture.limiter, &other_node] {
            assert_ne!(block_on(node.decide(&Fixture::ann())).reason, Reason::Banned, "it is over");
        }
    }
}
