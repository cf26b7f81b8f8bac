//! `then: shed`: the least important requests are refused first, and critical ones have a reserve.

mod support;

use std::time::Duration;

use proptest::prelude::*;
use tollgate::testing::ManualClock;
use tollgate_rules::{Admission, Decision, Priority, Request, RuleLimiter};

fn limiter(rules: &str, clock: &ManualClock) -> RuleLimiter {
    let rules = rules.parse().unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    RuleLimiter::builder().clock(clock).build(rules)
}

const BY_HEADER: &str = "
rules:
  - { name: service, limit: 100/s, then: shed, priority: 'header[\"x-priority\"]' }
";

fn ask(limiter: &RuleLimiter, priority: &str) -> Decision {
    limiter.decide_now(&Request::new("GET", "/").header("x-priority", priority))
}

fn passed(limiter: &RuleLimiter, priority: &str) -> usize {
    let all = (0..1_000).map(|_| ask(limiter, priority)).take_while(|decision| decision.allowed);
    // Their permits stay taken.
    all.inspect(|decision| decision.admission().into_iter().for_each(Admission::detach)).count()
}

#[test]
fn each_priority_leaves_the_reserve_of_the_higher_ones() {
    let limiter = limiter(BY_HEADER, &ManualClock::new());
    assert_eq!(passed(&limiter, "batch"), 50);
    assert_eq!(passed(&limiter, "made up"), 30); // an unknown priority is normal
    assert_eq!(passed(&limiter, "critical"), 20);
}

#[test]
fn a_shed_request_has_the_retry_time_of_its_priority() {
    let clock = ManualClock::new();
    let limiter = limiter(BY_HEADER, &clock);
    passed(&limiter, "critical");
    for (priority, expected, tokens) in [
        ("critical", Priority::Critical, 1),
        ("normal", Priority::Normal, 21),
        ("batch", Priority::Batch, 51),
    ] {
        let refused = ask(&limiter, priority);
        assert_eq!((refused.code, refused.shed()), (503, Some(expected)));
        assert_eq!(refused.retry_after, Some(Duration::from_millis(10 * tokens)));
    }
    clock.advance(Duration::from_millis(210));
    assert!(!ask(&limiter, "batch").allowed);
    assert!(ask(&limiter, "normal").allowed);
}

#[test]
fn rules_of_several_priorities_share_one_bucket() {
    let rules = "
rules:
  - { name: pay, route: /pay, bucket: service, limit: 10 concurrent, priority: critical, then: { shed: { critical: 30%, normal: 20% } } }
  - { name: report, route: /report, bucket: service, limit: 10 concurrent, priority: batch, then: { shed: { critical: 30%, normal: 20% } } }
";
    let limiter = limiter(rules, &ManualClock::new());
    let ask = |path: &str| limiter.decide_now(&Request::new("GET", path));
    let reports: Vec<Decision> =
        (0..20).map(|_| ask("/report")).filter(|decision| decision.allowed).collect();
    assert_eq!(reports.len(), 5);
    let payments: Vec<Decision> =
        (0..20).map(|_| ask("/pay")).filter(|decision| decision.allowed).collect();
    assert_eq!(payments.len(), 5, "never more than the limit");
    // Free permits are reserved for critical requests first: a report needs five free ones.
    for done in &reports {
        assert!(!ask("/report").allowed);
        support::release(done, Duration::from_millis(5));
    }
    assert!(!ask("/report").allowed);
    support::release(&payments[0], Duration::from_millis(5));
    assert!(ask("/report").allowed);
}

#[test]
fn a_share_of_an_adaptive_limit_is_reserved() {
    let rules = "
rules: [{ name: up, limit: adaptive 20..500 concurrent, then: shed, priority: 'header[\"x-priority\"]' }]
";
    let limiter = limiter(rules, &ManualClock::new());
    let first = ask(&limiter, "critical");
    let limit = first.tightest().unwrap().verdict.limit as usize;
    let batch = passed(&limiter, "batch");
    assert_eq!(batch, limit - limit.div_ceil(2) - 1);
    let normal = passed(&limiter, "normal");
    assert_eq!(batch + normal + 1, limit - limit.div_ceil(5));
    assert_eq!(batch + normal + 1 + passed(&limiter, "critical"), limit);
}

/// Checks the shares under constant load of batch and normal requests.
///
/// Critical requests within the rate, in bursts of a fifth of the limit, are never refused, and
/// normal requests get all the rest.
#[test]
fn under_overload_critical_requests_always_pass() {
    let clock = ManualClock::new();
    let limiter = limiter(BY_HEADER, &clock);
    let (mut batch, mut normal) = (0, 0);
    for ms in 0..20_000 {
        for _ in 0..2 {
            let (more_batch, more_normal) = (ask(&limiter, "batch"), ask(&limiter, "normal"));
            batch += usize::from(more_batch.allowed);
            normal += usize::from(more_normal.allowed);
        }
        // 20 at once every 250 ms: 80 a second of 100.
        if ms % 250 == 0 && ms > 0 {
            for _ in 0..20 {
                assert!(ask(&limiter, "critical").allowed, "at {ms} ms");
            }
        }
        clock.advance(Duration::from_millis(1));
    }
    // Normal requests get the rest, about 20 a second.
    assert!((380..500).contains(&normal), "{normal}");
    assert!(batch <= 50, "{batch}: only while the limit was unused");
}

#[test]
fn invalid_shares_are_errors() {
    for (then, message) in [
        ("{ shed: { critical: 20 } }", "no share of the limit"),
        ("{ shed: { critical: 60%, normal: 40% } }", "leaves nothing"),
        ("{ shed: { urgent: 10% } }", "urgent"),
        ("{ shed: 20% }", "expected"),
    ] {
        let rules = format!("rules: [{{ name: a, limit: 1/s, then: {then} }}]");
        let report = rules.parse::<tollgate_rules::Rules>().unwrap_err().to_string();
        assert!(report.contains(message), "{then}: {report}");
    }
}

proptest! {
    /// Checks that a request passes exactly if a plain limit would have its cost and its reserve left.
    #[test]
    fn a_request_passes_exactly_if_its_reserve_is_left(
        steps in prop::collection::vec((0_usize..3, 0_u64..80), 1..400),
    ) {
        let clock = ManualClock::new();
        let limiter = limiter(BY_HEADER, &clock);
        // In thousandths: 100 a second are 100 thousandths a millisecond.
        let mut left = 100_000_u64;
        for (priority, pause) in steps {
            let pause = if pause % 4 == 0 { pause } else { 0 };
            clock.advance(Duration::from_millis(pause));
            left = (left + pause * 100).min(100_000);
            let (name, reserve) = [("critical", 0), ("normal", 20), ("batch", 50)][priority];
            let allowed = ask(&limiter, name).allowed;
            prop_assert_eq!(allowed, left >= (1 + reserve) * 1_000, "{} of {}", name, left);
            left -= if allowed { 1_000 } else { 0 };
        }
    }
}
