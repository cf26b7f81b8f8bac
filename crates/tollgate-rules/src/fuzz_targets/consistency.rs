//! Decisions by any rules: they are consistent with each other and with their explanations.

use std::time::Duration;

use crate::{Data, Decision, Outcome, Request, RuleLimiter, Rules};
use tollgate::testing::ManualClock;

/// Compares the decisions of two limiters, one of which reloads its rules before each request.
///
/// # Panics
/// If they disagree, or a decision contradicts itself or its explanation.
pub(super) fn check_decisions(rules: &Rules, requests: &[Request<'_>]) {
    // The descriptors of Envoy's files count too, and are no rules.
    assert!(rules.iter().count() <= rules.len());
    assert!(rules.with_data(&Data::default()).is_ok());
    let clock = ManualClock::new();
    let (steady, reloaded) = (limiter(rules, &clock), limiter(rules, &clock));
    for request in requests {
        let decision = decide(&steady, request);
        reloaded.replace(rules.clone());
        let other = reloaded.decide_now(request);
        assert_eq!(format!("{decision:?}"), format!("{other:?}"), "{request:?}");
        if decision.allowed {
            let answered = request.clone().attribute("response.status", 401);
            for admission in [&decision, &other].into_iter().filter_map(Decision::admission) {
                let outcome = Outcome::of(&answered).took(Duration::from_millis(5));
                ready(admission.settle(outcome)).expect("the memory store does not fail");
            }
        }
        clock.advance(Duration::from_millis(100));
    }
}

fn limiter(rules: &Rules, clock: &ManualClock) -> RuleLimiter {
    RuleLimiter::builder().clock(clock).build(rules.clone())
}

/// Explains a request, decides it, and compares the two.
fn decide(limiter: &RuleLimiter, request: &Request<'_>) -> Decision {
    let explanation = ready(limiter.explain(request));
    let decision = limiter.decide_now(request);
    let explained = (explanation.allowed, explanation.code, explanation.reason);
    let decided = (decision.allowed, decision.code, decision.reason.as_str());
    assert_eq!(explained, decided, "{request:?}");
    // A domain written for Envoy has descriptors, which the explanation names in full.
    if limiter.rules().iter().next().is_some() {
        assert_eq!(explanation.rule.as_deref(), decision.rule(), "{request:?}");
        assert_eq!(explanation.summary, decision.to_string(), "{request:?}");
    }
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

/// Runs a future that never has to wait.
pub(super) fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("the memory store waits"),
    }
}
