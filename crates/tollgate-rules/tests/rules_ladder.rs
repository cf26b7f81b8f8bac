//! `then: ban`: a key that keeps exceeding its limit is banned, longer each time.

mod support;

use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate_rules::{Reason, Request, RuleLimiter};

use support::block_on;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

fn limiter(rules: &str) -> (RuleLimiter, ManualClock) {
    let clock = ManualClock::new();
    (RuleLimiter::builder().clock(&clock).build(rules.parse().unwrap()), clock)
}

fn user(name: &str) -> Request<'_> {
    Request::empty().attribute("user", name)
}

#[test]
fn enough_refusals_within_the_time_start_a_ban() {
    let (limiter, clock) = limiter(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: 2/10s fixed, then: 'ban [1min, 10min] after 3 denials in 1min' }]",
    );
    let ask = || limiter.decide_now(&user("mallory"));
    assert!(ask().allowed && ask().allowed);
    for _ in 0..2 {
        assert_eq!(ask().reason, Reason::OverLimit);
    }
    let last = ask();
    assert_eq!((last.reason, last.code, last.starts_ban()), (Reason::Banned, 429, true));
    assert_eq!(last.retry_after, Some(MINUTE));
    assert_eq!((last.rule(), last.key()), (Some("api"), Some("mallory")));
    assert_eq!(last.to_string(), "banned by api: 1min left");
    // The limit is free again long before the ban ends, and the ban ends exactly.
    clock.advance(MINUTE - Duration::from_nanos(1));
    let banned = ask();
    assert_eq!((banned.reason, banned.starts_ban()), (Reason::Banned, false));
    assert_eq!(banned.retry_after, Some(Duration::from_nanos(1)));
    assert!(limiter.decide_now(&user("ann")).allowed, "other keys are not banned");
    clock.advance(Duration::from_nanos(1));
    assert!(ask().allowed && ask().allowed, "requests during the ban are not charged");
    // The refusals before the ban no longer count, but the ban itself does.
    assert_eq!(
        [(); 3].map(|()| ask().reason),
        [Reason::OverLimit, Reason::OverLimit, Reason::Banned]
    );
    assert_eq!(ask().retry_after, Some(10 * MINUTE));
    assert_eq!(ask().limits().count(), 1, "a ban is not reported as a limit");
}

#[test]
fn refusals_further_apart_start_no_ban() {
    let (limiter, clock) = limiter(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: 1/day fixed, then: 'ban 1h after 3 denials in 1min' }]",
    );
    assert!(limiter.decide_now(&user("ann")).allowed);
    for _ in 0..100 {
        assert_eq!(limiter.decide_now(&user("ann")).reason, Reason::OverLimit);
        clock.advance(31 * SECOND);
    }
}

/// Checks that a client that waits for `retry_after` is not banned again.
#[test]
fn the_retry_time_of_a_ban_covers_the_limit_too() {
    let (limiter, clock) = limiter(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: 1/h fixed, then: 'ban [1min, 1h]' }]",
    );
    assert!(limiter.decide_now(&user("ann")).allowed);
    let banned = limiter.decide_now(&user("ann"));
    assert_eq!((banned.reason, banned.retry_after), (Reason::Banned, Some(HOUR)));
    clock.advance(banned.retry_after.unwrap());
    assert!(limiter.decide_now(&user("ann")).allowed);
}

#[test]
fn bans_grow_to_the_top_rung_and_a_quiet_day_goes_down_one() {
    let (limiter, clock) = limiter(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: 1/s, then: 'ban [1min, 10min, 1h]' }]",
    );
    let hammer = || {
        while limiter.decide_now(&user("mallory")).allowed {}
        let rest = limiter.decide_now(&user("mallory")).retry_after.unwrap();
        clock.advance(rest);
        rest
    };
    assert_eq!([(); 6].map(|()| hammer()), [MINUTE, 10 * MINUTE, HOUR, HOUR, HOUR, HOUR]);
    // This goes on for days: the next ban regains a rung that was lost.
    for _ in 0..100 {
        assert_eq!(hammer(), HOUR);
    }
    clock.advance(2 * DAY);
    assert_eq!(hammer(), 10 * MINUTE);
    clock.advance(3 * DAY);
    assert_eq!(hammer(), MINUTE);
    clock.advance(DAY);
    assert_eq!(hammer(), MINUTE, "with one ban a day it is always the first rung");
}

#[test]
fn requests_that_never_fit_shadow_rules_and_previews_start_no_ban() {
    let (limiter, _) = limiter(
        "
attributes: [user]
rules:
  - { name: sizes, per: user, limit: 10/h, then: ban 1h }
  - { name: trial, per: user, limit: 1/h, then: ban 1h, mode: shadow }
",
    );
    let large = user("ann").cost(11);
    for _ in 0..5 {
        assert_eq!(limiter.decide_now(&large).reason, Reason::NeverFits);
    }
    for _ in 0..10 {
        assert!(limiter.decide_now(&user("ann")).allowed);
    }
    for _ in 0..5 {
        assert_eq!(block_on(limiter.decide(&user("ann").dry_run())).reason, Reason::OverLimit);
        support::explain(&limiter, &user("ann"));
    }
    assert!(block_on(limiter.bans().list()).unwrap().is_empty());
    assert_eq!(limiter.decide_now(&user("ann")).reason, Reason::Banned);
}

/// Checks that `enforce 50%` bans only the keys for which the rule is enforced.
#[test]
fn keys_in_shadow_mode_are_never_banned() {
    let (limiter, _) = limiter(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: 1/h, then: ban 1h, mode: enforce 50% }]",
    );
    let names: Vec<String> = (0..100).map(|number| format!("user-{number}")).collect();
    let reasons = names.iter().map(|name| [(); 3].map(|()| limiter.decide_now(&user(name)).reason));
    let (banned, shadowed): (Vec<_>, Vec<_>) = reasons.partition(|all| all[1] == Reason::Banned);
    assert!(banned.iter().all(|all| all[2] == Reason::Banned));
    assert!(shadowed.iter().flatten().all(|reason| *reason == Reason::WithinLimits));
    assert!(banned.len() > 20 && shadowed.len() > 20, "{} and {}", banned.len(), shadowed.len());
    assert_eq!(limiter.bans().banned_keys(), banned.len());
}

#[test]
fn bans_are_listed_and_lifted_with_their_history() {
    let (limiter, clock) = limiter(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: 1/s, then: 'ban [1min, 1h] after 2 denials in 1min' }]",
    );
    let ban = |name: &str| {
        for _ in 0..3 {
            limiter.decide_now(&user(name));
        }
        limiter.decide_now(&user(name)).retry_after
    };
    assert_eq!(ban("ann"), Some(MINUTE));
    clock.advance(SECOND);
    assert_eq!(ban("bob"), Some(MINUTE));
    let listed = block_on(limiter.bans().list()).unwrap();
    let shown: Vec<_> = listed.iter().map(|ban| (&*ban.rule, &*ban.key, ban.rung)).collect();
    assert_eq!(shown, [("api", "ann", 1), ("api", "bob", 1)]);
    assert_eq!(listed[0].until.since(clock.now()), tollgate::Span::from_secs(59));
    assert_eq!(block_on(limiter.bans().lift(None, "api", "ann")).unwrap(), Some(true));
    assert_eq!(block_on(limiter.bans().lift(None, "api", "ann")).unwrap(), Some(false));
    assert_eq!(block_on(limiter.bans().lift(None, "none", "ann")).unwrap(), None);
    assert_eq!(limiter.bans().banned_keys(), 1);
    assert_eq!(ban("ann"), Some(MINUTE), "the first rung again, at once");
    clock.advance(MINUTE);
    assert!(block_on(limiter.bans().list()).unwrap().is_empty());
    assert_eq!(limiter.bans().banned_keys(), 0);
}

/// Checks that bans continue when rules are replaced, even if their ladder changes.
#[test]
fn a_ban_outlives_the_rules_that_started_it() {
    let (limiter, _) =
        limiter("attributes: [user]\nrules: [{ name: api, per: user, limit: 1/s, then: ban 1h }]");
    while limiter.decide_now(&user("mallory")).allowed {}
    limiter.replace(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: 5/s, then: 'ban [2min, 1day] after 9 denials in 1h' }]"
            .parse()
            .unwrap(),
    );
    assert_eq!(limiter.decide_now(&user("mallory")).reason, Reason::Banned);
    limiter.replace(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: 5/s }]".parse().unwrap(),
    );
    assert!(limiter.decide_now(&user("mallory")).allowed);
}

/// Checks that a request that may wait for its limit is refused at once during a ban.
#[test]
fn a_request_does_not_wait_for_the_end_of_a_ban() {
    let (limiter, _) = limiter(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: 1/s, then: ban 1min }]",
    );
    while limiter.decide_now(&user("mallory")).allowed {}
    let patient = user("mallory").patience(HOUR);
    assert_eq!(limiter.decide_now(&patient).reason, Reason::Banned);
}

/// Simulates three days of an attacker and a user who mistypes passwords.
///
/// The attacker tries a password every two seconds. The user mistypes twice every morning, and five
/// times now and then. Only the attacker is banned.
#[test]
fn credential_stuffing_is_banned_and_mistyping_is_not() {
    let (limiter, clock) = limiter(
        "
rules:
  - name: login
    route: POST /login
    per: ip
    limit: 5/min fixed
    count: response.status in [401, 403]
    then: ban [1min, 10min, 1h] after 20 denials in 1min
",
    );
    let attempt = |ip: &str, status: i64| {
        let request = Request::new("POST", "/login").peer(ip.parse().unwrap());
        let decision = limiter.decide_now(&request);
        if decision.allowed {
            support::settle(&decision, &request.attribute("response.status", status));
        }
        decision
    };
    let (mut tried, mut begun, mut longest) = (0, 0, Duration::ZERO);
    for day in 0..3 {
        for second in 0..86_400 / 2 {
            let decision = attempt("198.51.100.66", 401);
            tried += u32::from(decision.allowed);
            begun += u32::from(decision.starts_ban());
            if decision.reason == Reason::Banned {
                longest = longest.max(decision.retry_after.unwrap());
            }
            if second % 14_400 == 0 {
                let wrong = if second == 0 && day % 3 == 0 { 5 } else { 2 };
                for status in std::iter::repeat_n(401, wrong).chain([200]) {
                    let decision = attempt("203.0.113.7", status);
                    let last = status == 200 && wrong == 5;
                    assert_eq!(decision.allowed, !last, "{decision}");
                    assert_ne!(decision.reason, Reason::Banned);
                }
            }
            clock.advance(2 * SECOND);
        }
    }
    assert_eq!(longest, HOUR);
    // The limit alone would allow five a minute, 21,600 in three days.
    assert!((65..75).contains(&begun), "{begun} bans");
    assert!(tried < 800, "{tried} passwords");
    assert!(
        block_on(limiter.bans().list()).unwrap().iter().all(|ban| &*ban.key == "198.51.100.66")
    );
}
