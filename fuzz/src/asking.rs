//! Asking rules that were read: whatever they are, their answers hang together.

use std::time::Duration;

use tollgate::rules::{Data, Decision, RuleLimiter};
use tollgate::testing::ManualClock;
use tollgate::{Limiter, Request, Rules};

/// Asks two limiters the same, one of which is given its rules anew each time.
///
/// # Panics
/// If they disagree, or an answer contradicts itself or its explanation.
pub fn ask(rules: &Rules, requests: &[Request<'_>]) {
    assert_eq!(rules.iter().count(), rules.len());
    assert!(rules.with_data(&Data::default()).is_ok());
    let clock = ManualClock::new();
    let (steady, reloaded) = (limiter(rules, &clock), limiter(rules, &clock));
    for request in requests {
        let decision = decide(&steady, request);
        reloaded.replace(rules.clone());
        let same = reloaded.decide(request);
        assert_eq!(format!("{decision:?}"), format!("{same:?}"), "{request:?}");
        if decision.allowed {
            for (limiter, decision) in [(&steady, &decision), (&reloaded, &same)] {
                limiter.settle(&request.clone().attribute("response.status", 401));
                limiter.release(decision, Duration::from_millis(5));
            }
        }
        clock.advance(Duration::from_millis(100));
    }
}

fn limiter(rules: &Rules, clock: &ManualClock) -> RuleLimiter {
    Limiter::builder().clock(clock).build_rules(rules.clone())
}

/// Explains, then decides.
fn decide(limiter: &RuleLimiter, request: &Request<'_>) -> Decision {
    let foretold = limiter.explain(request);
    let decision = limiter.decide(request);
    let told = (foretold.allowed, foretold.code, foretold.reason, foretold.rule.as_deref());
    let found = (decision.allowed, decision.code, decision.reason.as_str(), decision.rule());
    assert_eq!(told, found, "{request:?}");
    assert_eq!(foretold.summary, decision.to_string(), "{request:?}");
    match decision.allowed {
        true => assert_eq!((decision.code, decision.retry_after), (200, None), "{decision:?}"),
        false => assert!(decision.wait.is_zero(), "{decision:?}"),
    }
    for limit in decision.limits().chain(decision.tightest()) {
        assert!(limit.verdict.remaining <= limit.verdict.limit, "{decision:?}");
        assert!(!decision.allowed || !limit.enforced || limit.verdict.allowed, "{decision:?}");
    }
    decision
}
