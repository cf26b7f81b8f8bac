//! Schedules, overrides, modes and bans follow the wall clock while it is set; counters do not.

use std::time::Duration;

use tollgate::Time;
use tollgate::testing::ManualClock;
use tollgate_rules::{BanData, Data, ModeData, Reason, Request, RuleLimiter, Rules};

const HOUR: Duration = Duration::from_secs(3_600);

fn clock_at(date: &str) -> ManualClock {
    let date: jiff::Timestamp = date.parse().unwrap();
    ManualClock::at(Time::from_nanos(date.as_nanosecond() as u64))
}

fn limiter(clock: &ManualClock, rules: &str, data: Data) -> RuleLimiter {
    let rules: Rules = rules.parse().unwrap();
    RuleLimiter::builder().clock(clock).build(rules.with_data(&data).unwrap())
}

fn ann() -> Request<'static> {
    Request::empty().attribute("user", "ann")
}

/// Returns whether the rule that denies everything is in force.
fn denies(limiter: &RuleLimiter) -> bool {
    !limiter.decide_now(&ann()).allowed
}

#[test]
fn a_schedule_follows_a_clock_that_is_corrected() {
    let clock = clock_at("2026-05-04T07:30:00Z");
    let rules = "rules: [{ name: closed, during: '09:00-17:00', then: deny }]";
    let limiter = limiter(&clock, rules, Data::default());
    assert!(!denies(&limiter));
    clock.step_wall(2 * HOUR);
    assert!(denies(&limiter), "it is half past nine");
    clock.advance(7 * HOUR);
    assert!(denies(&limiter));
    clock.advance(HOUR / 2);
    assert!(!denies(&limiter), "it is five");
    clock.step_wall_back(HOUR);
    assert!(denies(&limiter), "it is four again");
}

#[test]
fn a_schedule_follows_clock_changes_and_year_ends() {
    // Berlin skips 02:00 to 03:00 on 2026-03-29, a Sunday. The machine is an hour behind.
    let clock = clock_at("2026-03-28T23:30:00Z");
    let night = "rules: [{ name: night, during: '03:00-04:00 zone Europe/Berlin', then: deny }]";
    let limiter = |clock: &ManualClock, rules: &str| limiter(clock, rules, Data::default());
    let berlin = limiter(&clock, night);
    clock.step_wall(HOUR); // 01:30 in Berlin
    assert!(!denies(&berlin));
    clock.advance(HOUR / 2);
    assert!(denies(&berlin), "from 02:00 it is 03:00");
    clock.advance(HOUR);
    assert!(!denies(&berlin));
    // Thursday ends with the year; 2027 begins on a Friday.
    let clock = clock_at("2026-12-31T22:30:00Z");
    let friday = limiter(&clock, "rules: [{ name: friday, during: fri, then: deny }]");
    assert!(!denies(&friday));
    clock.step_wall(HOUR);
    assert!(!denies(&friday));
    clock.advance(HOUR / 2);
    assert!(denies(&friday));
    clock.step_wall_back(HOUR);
    assert!(!denies(&friday), "it is Thursday again");
}

#[test]
fn bans_and_modes_end_at_their_dates() {
    let clock = clock_at("2026-05-04T10:00:00Z");
    let until = || Some("2026-05-04T13:00:00Z".to_owned());
    let ban =
        BanData { rule: "api".into(), key: "ann".into(), until: until(), ..BanData::default() };
    let mode = ModeData {
        rule: "closed".into(),
        mode: "off".into(),
        until: until(),
        ..ModeData::default()
    };
    let data = Data { bans: vec![ban], modes: vec![mode], ..Data::default() };
    let rules = "attributes: [user]\nrules:
      - { name: api, per: user, limit: 100/h }
      - { name: closed, when: user == 'bob', then: deny }";
    let limiter = limiter(&clock, rules, data);
    let bob = Request::empty().attribute("user", "bob");
    let retry_after = || limiter.decide_now(&ann()).retry_after;
    assert_eq!(retry_after(), Some(3 * HOUR));
    clock.step_wall(2 * HOUR);
    assert_eq!(retry_after(), Some(HOUR));
    assert!(limiter.decide_now(&bob).allowed);
    // The machine is suspended for an hour: no time passes but on the wall.
    clock.step_wall(HOUR);
    assert_ne!(limiter.decide_now(&ann()).reason, Reason::Banned);
    assert!(!limiter.decide_now(&bob).allowed);
    clock.step_wall_back(HOUR);
    assert_eq!(retry_after(), Some(HOUR));
}

/// A ladder counts time that passes. Only what it shows is a date.
#[test]
fn ladder_bans_last_as_long_as_they_say() {
    let clock = clock_at("2026-05-04T10:00:00Z");
    let rules = "attributes: [user]\nrules: [{ name: api, per: user, limit: 1/s, then: ban 1h }]";
    let limiter = limiter(&clock, rules, Data::default());
    clock.step_wall(2 * HOUR);
    assert!(limiter.decide_now(&ann()).allowed && !limiter.decide_now(&ann()).allowed);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let bans = limiter.bans();
    let std::task::Poll::Ready(Ok(listed)) = std::pin::pin!(bans.list()).poll(&mut context) else {
        panic!("the bans in memory are listed at once");
    };
    let end: jiff::Timestamp = "2026-05-04T13:00:00Z".parse().unwrap();
    assert_eq!(listed[0].until.as_nanos(), end.as_nanosecond() as u64);
    for step in [HOUR, 2 * HOUR] {
        clock.step_wall(step);
        assert_eq!(limiter.decide_now(&ann()).reason, Reason::Banned);
        clock.step_wall_back(2 * step);
        assert_eq!(limiter.decide_now(&ann()).reason, Reason::Banned);
    }
    clock.advance(HOUR - Duration::from_millis(1));
    assert_eq!(limiter.decide_now(&ann()).reason, Reason::Banned);
    clock.advance(Duration::from_secs(1));
    assert!(limiter.decide_now(&ann()).allowed);
}
