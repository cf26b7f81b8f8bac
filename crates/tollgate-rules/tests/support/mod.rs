//! Fixtures that the tests of this crate share.
#![allow(dead_code, reason = "no test uses all of it")]

pub(crate) mod failing_store;
pub(crate) mod rules;

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::Store;
use tollgate_rules::{Decision, Explanation, Outcome, Request, RuleLimiter, SettledAs};

/// Runs a future that never has to wait.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

/// Ends an admitted request with its outcome.
pub(crate) fn settle(decision: &Decision, outcome: &Request<'_>) {
    if let Some(admission) = decision.admission() {
        block_on(admission.settle(Outcome::of(outcome))).unwrap();
    }
}

/// Ends an admitted request of which only the duration is known.
pub(crate) fn release(decision: &Decision, took: Duration) {
    if let Some(admission) = decision.admission() {
        block_on(admission.settle(Outcome::unknown().took(took))).unwrap();
    }
}

/// Explains a request.
pub(crate) fn explain<S: Store + 'static>(
    limiter: &RuleLimiter<S>,
    request: &Request<'_>,
) -> Explanation {
    block_on(limiter.explain(request))
}

/// How charges were settled, in order.
pub(crate) type Settlements = Arc<Mutex<Vec<SettledAs>>>;

/// A list of settlements, and a function that adds to it.
pub(crate) fn settlements() -> (Settlements, impl Fn(&str, &str, SettledAs) + Send + Sync + 'static)
{
    let all = Settlements::default();
    let list = all.clone();
    (all, move |_, _, settled| list.lock().unwrap().push(settled))
}
