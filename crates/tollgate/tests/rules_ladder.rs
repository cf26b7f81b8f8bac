//! `then: ban`: who keeps hammering climbs the ladder, and nobody else does.
#![cfg(feature = "rules")]

mod support;

use std::time::Duration;

use tollgate::rules::{Reason, RuleLimiter};
use tollgate::testing::ManualClock;
use tollgate::{Limiter, Request};

use support::block_on;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

fn limiter(rules: &str) -> (RuleLimiter, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder().clock(&clock).build_rules(rules.parse().unwrap()), clock)
}

fn user(name: &str) -> Request<'_> {
    Request::empty().attribute("user", name)
}

#[test]
fn so_many_refusals_within_a_time_are_a_ban() {
    let (limiter, clock) = limiter(
        "rules: [{ name: api, per: user, limit: 2/10s fixed, then: 'ban [1min, 10min] after 3 denials in 1min' }]",
    );
    let ask = || limiter.decide(&user("mallory"));
    assert!(ask().allowed && ask().allowed);
    for _ in 0..2 {
        assert_eq!(ask().reason, Reason::OverLimit);
    }
    let last = ask();
    assert_eq!((last.reason, last.code, last.starts_ban()), (Reason::Banned, 429, true));
    assert_eq!(last.retry_after, Some(MINUTE));
    assert_eq!((last.rule(), last.key()), (Some("api"), Some("mallory")));
    assert_eq!(last.to_string(), "banned by api: 1min left");
    // The limit is free again long before; the ban is exact.
    clock.advance(MINUTE - Duration::from_nanos(1));
    let banned = ask();
    assert_eq!((banned.reason, banned.starts_ban()), (Reason::Banned, false));
    assert_eq!(banned.retry_after, Some(Duration::from_nanos(1)));
    assert!(limiter.decide(&user("ann")).allowed, "nobody else");
    clock.advance(Duration::from_nanos(1));
    assert!(ask().allowed && ask().allowed, "what was refused by the ban was not charged");
    // Again: the refusals before the ban are forgotten, the ban is not.
    assert_eq!(
        [(); 3].map(|()| ask().reason),
        [Reason::OverLimit, Reason::OverLimit, Reason::Banned]
    );
    assert_eq!(ask().retry_after, Some(10 * MINUTE));
    assert_eq!(ask().limits().count(), 1, "a ban is no limit");
}

#[test]
fn refusals_that_are_further_apart_are_no_ban() {
    let (limiter, clock) = limiter(
        "rules: [{ name: api, per: user, limit: 1/day fixed, then: 'ban 1h after 3 denials in 1min' }]",
    );
    assert!(limiter.decide(&user("ann")).allowed);
    for _ in 0..100 {
        assert_eq!(limiter.decide(&user("ann")).reason, Reason::OverLimit);
        clock.advance(31 * SECOND);
    }
}

/// A ban of a minute on a limit of a day: who comes back when told is not banned for it.
#[test]
fn who_is_banned_is_told_when_the_limit_is_free_too() {
    let (limiter, clock) =
        limiter("rules: [{ name: api, per: user, limit: 1/h fixed, then: ban [1min, 1h] }]");
    assert!(limiter.decide(&user("ann")).allowed);
    let banned = limiter.decide(&user("ann"));
    assert_eq!((banned.reason, banned.retry_after), (Reason::Banned, Some(HOUR)));
    clock.advance(banned.retry_after.unwrap());
    assert!(limiter.decide(&user("ann")).allowed);
}

#[test]
fn the_ladder_is_climbed_its_top_repeats_and_a_day_is_one_step_down() {
    let (limiter, clock) =
        limiter("rules: [{ name: api, per: user, limit: 1/s, then: 'ban [1min, 10min, 1h]' }]");
    let hammer = || {
        while limiter.decide(&user("mallory")).allowed {}
        let rest = limiter.decide(&user("mallory")).retry_after.unwrap();
        clock.advance(rest);
        rest
    };
    assert_eq!([(); 6].map(|()| hammer()), [MINUTE, 10 * MINUTE, HOUR, HOUR, HOUR, HOUR]);
    // For days: a step that was forgotten is climbed again at once.
    for _ in 0..100 {
        assert_eq!(hammer(), HOUR);
    }
    clock.advance(2 * DAY);
    assert_eq!(hammer(), 10 * MINUTE);
    clock.advance(3 * DAY);
    assert_eq!(hammer(), MINUTE);
    clock.advance(DAY);
    assert_eq!(hammer(), MINUTE, "one ban a day is always the first");
}

#[test]
fn requests_that_never_fit_shadow_rules_and_previews_ban_nobody() {
    let (limiter, _) = limiter(
        "
rules:
  - { name: sizes, per: user, limit: 10/h, then: ban 1h }
  - { name: trial, per: user, limit: 1/h, then: ban 1h, mode: shadow }
",
    );
    let large = user("ann").cost(11);
    for _ in 0..5 {
        assert_eq!(limiter.decide(&large).reason, Reason::NeverFits);
    }
    for _ in 0..10 {
        assert!(limiter.decide(&user("ann")).allowed);
    }
    for _ in 0..5 {
        assert_eq!(block_on(limiter.preview(&user("ann"))).reason, Reason::OverLimit);
        limiter.explain(&user("ann"));
    }
    assert!(block_on(limiter.bans()).unwrap().is_empty());
    assert_eq!(limiter.decide(&user("ann")).reason, Reason::Banned);
}

/// `enforce 10%`: those who are not among them are never banned.
#[test]
fn who_is_only_watched_is_never_banned() {
    let (limiter, _) =
        limiter("rules: [{ name: api, per: user, limit: 1/h, then: ban 1h, mode: enforce 50% }]");
    let names: Vec<String> = (0..100).map(|number| format!("user-{number}")).collect();
    let reasons = names.iter().map(|name| [(); 3].map(|()| limiter.decide(&user(name)).reason));
    let (banned, free): (Vec<_>, Vec<_>) = reasons.partition(|all| all[1] == Reason::Banned);
    assert!(banned.iter().all(|all| all[2] == Reason::Banned));
    assert!(free.iter().flatten().all(|reason| *reason == Reason::WithinLimits));
    assert!(banned.len() > 20 && free.len() > 20, "{} and {}", banned.len(), free.len());
    assert_eq!(limiter.banned_keys(), banned.len());
}

#[test]
fn bans_are_listed_and_lifted_with_all_that_led_to_them() {
    let (limiter, clock) = limiter(
        "rules: [{ name: api, per: user, limit: 1/s, then: 'ban [1min, 1h] after 2 denials in 1min' }]",
    );
    let ban = |name: &str| {
        for _ in 0..3 {
            limiter.decide(&user(name));
        }
        limiter.decide(&user(name)).retry_after
    };
    assert_eq!(ban("ann"), Some(MINUTE));
    clock.advance(SECOND);
    assert_eq!(ban("bob"), Some(MINUTE));
    let listed = block_on(limiter.bans()).unwrap();
    let shown: Vec<_> = listed.iter().map(|ban| (&*ban.rule, &*ban.key, ban.rung)).collect();
    assert_eq!(shown, [("api", "ann", 1), ("api", "bob", 1)]);
    assert_eq!(listed[0].until.since(clock.now()), tollgate::Span::from_secs(59));
    assert_eq!(block_on(limiter.lift_ban(None, "api", "ann")).unwrap(), Some(true));
    assert_eq!(block_on(limiter.lift_ban(None, "api", "ann")).unwrap(), Some(false));
    assert_eq!(block_on(limiter.lift_ban(None, "none", "ann")).unwrap(), None);
    assert_eq!(limiter.banned_keys(), 1);
    assert_eq!(ban("ann"), Some(MINUTE), "the first rung again, at once");
    clock.advance(MINUTE);
    assert!(block_on(limiter.bans()).unwrap().is_empty());
    assert_eq!(limiter.banned_keys(), 0);
}

/// Bans are counters: they go on when rules are replaced, whatever became of the ladder.
#[test]
fn a_ban_outlives_the_rules_that_gave_it() {
    let (limiter, _) = limiter("rules: [{ name: api, per: user, limit: 1/s, then: ban 1h }]");
    while limiter.decide(&user("mallory")).allowed {}
    limiter.replace(
        "rules: [{ name: api, per: user, limit: 5/s, then: 'ban [2min, 1day] after 9 denials in 1h' }]"
            .parse()
            .unwrap(),
    );
    assert_eq!(limiter.decide(&user("mallory")).reason, Reason::Banned);
    limiter.replace("rules: [{ name: api, per: user, limit: 5/s }]".parse().unwrap());
    assert!(limiter.decide(&user("mallory")).allowed);
}

/// Whoever would wait for a place does not wait for the end of a ban.
#[test]
fn nobody_waits_for_the_end_of_a_ban() {
    let (limiter, _) = limiter("rules: [{ name: api, per: user, limit: 1/s, then: ban 1min }]");
    while limiter.decide(&user("mallory")).allowed {}
    let patient = user("mallory").patience(HOUR);
    assert_eq!(limiter.decide(&patient).reason, Reason::Banned);
}

/// Somebody tries stolen passwords for three days, one every two seconds; a person mistypes twice every
/// morning, and once in a while five times. The first climbs the ladder, the second never sees it.
#[test]
fn credential_stuffing_climbs_the_ladder_and_a_person_who_mistypes_never_does() {
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
        let decision = limiter.decide(&request);
        if decision.allowed {
            limiter.settle(&decision, &request.attribute("response.status", status));
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
    // Without the ban it would be five a minute, 21,600 in three days.
    assert!((65..75).contains(&begun), "{begun} bans");
    assert!(tried < 800, "{tried} passwords");
    assert!(block_on(limiter.bans()).unwrap().iter().all(|ban| &*ban.key == "198.51.100.66"));
}
